//! Reads the answers to a chat's questions: did it help, is it kept, is it really to be deleted. Pure.

/// What a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or no terminal.
    End,
}

impl Typed {
    /// The typed word, in lower case and trimmed.
    fn word(&self) -> Option<String> {
        match self {
            Self::Line(line) => Some(line.trim().to_lowercase()),
            Self::Interrupted | Self::End => None,
        }
    }
}

/// How a sitting was for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    Positive,
    Negative,
    Skip,
}

impl Label {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
            Self::Skip => "skip",
        }
    }
}

/// An answer, if it could be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<T> {
    As(T),
    /// Not understood: worth asking once more.
    Unclear,
}

/// Did it help? Only a clear word is a rating: an empty line, Ctrl-C and Ctrl-D store nothing.
pub fn rating(typed: &Typed) -> Read<Option<Label>> {
    Read::As(match typed.word().as_deref() {
        Some("y" | "yes") => Some(Label::Positive),
        Some("n" | "no") => Some(Label::Negative),
        Some("s" | "skip") => Some(Label::Skip),
        Some("") | None => None,
        Some(_) => return Read::Unclear,
    })
}

/// What to do with the sitting of a person who leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    Keep,
    Discard,
    /// The person stays.
    Back,
}

/// Is it kept? Enter means yes; Ctrl-D means no; Ctrl-C cancels the leaving.
pub fn leaving(typed: &Typed) -> Read<Leaving> {
    Read::As(match (typed, typed.word().as_deref()) {
        (Typed::Interrupted, _) => Leaving::Back,
        (Typed::End, _) => Leaving::Discard,
        (_, Some("" | "y" | "yes")) => Leaving::Keep,
        (_, Some("n" | "no")) => Leaving::Discard,
        _ => return Read::Unclear,
    })
}

/// A person's answer to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    Agree,
    Refuse,
    /// The person wants to change the arguments.
    Change,
}

/// Is it to be done? Only a clear word is an answer: an empty line, Ctrl-C and Ctrl-D decide nothing.
pub fn leave(typed: &Typed) -> Read<Option<Leave>> {
    Read::As(match typed.word().as_deref() {
        Some("y" | "yes") => Some(Leave::Agree),
        Some("n" | "no") => Some(Leave::Refuse),
        Some("e" | "edit") => Some(Leave::Change),
        Some("") | None => None,
        Some(_) => return Read::Unclear,
    })
}

/// Is this one thing really to be deleted? Only a clear yes is one.
pub fn is_yes(typed: &Typed) -> bool {
    matches!(typed.word().as_deref(), Some("y" | "yes"))
}

/// Are all of them really to be deleted? Only this exact word is a yes.
pub fn is_word(typed: &Typed, word: &str) -> bool {
    matches!(typed, Typed::Line(line) if line == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Typed {
        Typed::Line(text.to_owned())
    }

    #[test]
    fn only_a_clear_word_is_a_rating() {
        for (typed, expected) in [
            (line("y"), Read::As(Some(Label::Positive))),
            (line(" Yes "), Read::As(Some(Label::Positive))),
            (line("n"), Read::As(Some(Label::Negative))),
            (line("NO"), Read::As(Some(Label::Negative))),
            (line("s"), Read::As(Some(Label::Skip))),
            (line("skip"), Read::As(Some(Label::Skip))),
            (line(""), Read::As(None)),
            (line("   "), Read::As(None)),
            (Typed::Interrupted, Read::As(None)),
            (Typed::End, Read::As(None)),
            (line("maybe"), Read::Unclear),
            (line("yn"), Read::Unclear),
        ] {
            assert_eq!(rating(&typed), expected, "{typed:?}");
        }
    }

    #[test]
    fn only_a_clear_word_gives_leave() {
        for (typed, expected) in [
            (line("y"), Read::As(Some(Leave::Agree))),
            (line(" YES "), Read::As(Some(Leave::Agree))),
            (line("n"), Read::As(Some(Leave::Refuse))),
            (line("e"), Read::As(Some(Leave::Change))),
            (line(""), Read::As(None)),
            (Typed::Interrupted, Read::As(None)),
            (Typed::End, Read::As(None)),
            (line("yy"), Read::Unclear),
        ] {
            assert_eq!(leave(&typed), expected, "{typed:?}");
        }
    }

    #[test]
    fn enter_keeps_silence_does_not_and_an_interruption_stays() {
        for (typed, expected) in [
            (line(""), Read::As(Leaving::Keep)),
            (line("y"), Read::As(Leaving::Keep)),
            (line("Yes"), Read::As(Leaving::Keep)),
            (line("n"), Read::As(Leaving::Discard)),
            (line("no"), Read::As(Leaving::Discard)),
            (Typed::End, Read::As(Leaving::Discard)),
            (Typed::Interrupted, Read::As(Leaving::Back)),
            (line("what?"), Read::Unclear),
        ] {
            assert_eq!(leaving(&typed), expected, "{typed:?}");
        }
    }

    #[test]
    fn nothing_is_deleted_without_a_clear_yes() {
        for (typed, yes) in [
            (line("y"), true),
            (line("YES"), true),
            (line(""), false),
            (line("n"), false),
            (line("yess"), false),
            (Typed::Interrupted, false),
            (Typed::End, false),
        ] {
            assert_eq!(is_yes(&typed), yes, "{typed:?}");
        }
        for (typed, yes) in [
            (line("clear"), true),
            (line("CLEAR"), false),
            (line("Clear"), false),
            (line(" clear"), false),
            (line("y"), false),
            (line(""), false),
            (Typed::Interrupted, false),
            (Typed::End, false),
        ] {
            assert_eq!(is_word(&typed, "clear"), yes, "{typed:?}");
        }
    }
}
