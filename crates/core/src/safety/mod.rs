//! The safety room: whether a message calls for help before it calls for an answer. Owns the levels, the check and
//! its lexicon, the crisis response, and the record of it. It refuses to carry a word of what was said: a check
//! answers in codes.

mod around;
pub mod codes;
pub mod lexicon;
pub mod opaque;
mod phrases;
pub mod record;
pub mod response;
mod store;
mod texts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::memory::phrase::{Phrases, TextWords};
use crate::memory::unfenced;

pub use codes::{ClassifierPath, CrisisFlag, OverrideKind, ReasonCode};
pub use store::CrisisStore;

/// How grave it is: at 1 the reply asks gently, from 2 on the crisis response replaces the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Level {
    #[default]
    Calm,
    Concern,
    Serious,
    Acute,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Calm, Self::Concern, Self::Serious, Self::Acute];

    pub const fn number(self) -> u8 {
        self as u8
    }

    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the crisis response replaces the reply.
    pub fn is_crisis(self) -> bool {
        self >= Self::Serious
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> Self {
        level.number()
    }
}

impl TryFrom<u8> for Level {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Self::of(number).ok_or("a level is 0 to 3")
    }
}

/// The result of the check: codes only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crisis {
    pub level: Level,
    pub confidence: f32,
    pub reason_code: ReasonCode,
    pub flags: Vec<CrisisFlag>,
    pub override_kind: Option<OverrideKind>,
    pub classifier_path: ClassifierPath,
}

/// What an installation configures for the check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Saying one of these is asking for help.
    pub safe_words: Vec<String>,
    /// Phrases that set a level themselves. At 0: words that mean nothing here and are passed over.
    pub phrases: BTreeMap<Level, Vec<String>>,
    /// Phrases beside the built-in lexicon, weighed as its own are.
    pub lexicon: Vec<ExtraPhrase>,
    /// A two-letter country code: selects the help resources.
    pub region: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraPhrase {
    pub text: String,
    pub level: Level,
    pub reason_code: Option<ReasonCode>,
}

/// A configured model's verdict on the message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Classification {
    Made {
        level: Level,
        confidence: f32,
        reason_code: ReasonCode,
    },
    /// The model did not answer, or not in its format.
    Failed,
}

/// Checks a message before anything answers it.
///
/// | what is known | level | decided by |
/// |---|---|---|
/// | a safe word | 3 | override |
/// | a configured phrase of level 2 or 3 | its own, the highest | override |
/// | nothing but a configured phrase of level 0 | 0 | override |
/// | the model answered | the model's | model |
/// | … with 0 where the lexicon is sure of 3 | 1, disputed | model |
/// | the model failed, or there is none | the lexicon's, level-0 phrases passed over | lexicon |
///
/// A configured phrase of level 1 is a floor under the last three.
pub fn check(text: &str, settings: &Settings, classified: Option<Classification>) -> Crisis {
    let spoken = TextWords::of(text);
    let phrases = |level| settings.phrases.get(&level).map(Vec::as_slice).unwrap_or_default();
    let said = |texts: &[String]| {
        !Phrases::new(texts.iter().map(|text| (text.as_str(), ()))).find(&spoken).is_empty()
    };
    if said(&settings.safe_words) {
        return overridden(Level::Acute, OverrideKind::SafeWord);
    }
    for level in [Level::Acute, Level::Serious] {
        if said(phrases(level)) {
            return overridden(level, OverrideKind::Phrase);
        }
    }
    let floor = said(phrases(Level::Concern));
    let allowed = phrases(Level::Calm);
    if !floor && allowed.iter().any(|phrase| same_words(&spoken, phrase)) {
        return overridden(Level::Calm, OverrideKind::Phrase);
    }
    let found = lexicon::weigh(text, &settings.lexicon, allowed);
    let crisis = match classified {
        Some(Classification::Made { level, confidence, reason_code }) => {
            by_model(level, confidence, reason_code, &found)
        }
        None => by_lexicon(found, ClassifierPath::Lexicon),
        Some(Classification::Failed) => by_lexicon(found, ClassifierPath::LexiconAfterFailure),
    };
    if floor && crisis.level < Level::Concern {
        return overridden(Level::Concern, OverrideKind::Phrase);
    }
    crisis
}

fn overridden(level: Level, kind: OverrideKind) -> Crisis {
    Crisis {
        level,
        confidence: 1.0,
        reason_code: ReasonCode::Configured,
        flags: Vec::new(),
        override_kind: Some(kind),
        classifier_path: ClassifierPath::Override,
    }
}

fn by_lexicon(found: lexicon::Finding, path: ClassifierPath) -> Crisis {
    Crisis {
        level: found.level,
        confidence: found.confidence,
        reason_code: found.reason_code,
        flags: found.flags,
        override_kind: None,
        classifier_path: path,
    }
}

fn by_model(level: Level, confidence: f32, reason_code: ReasonCode, found: &lexicon::Finding) -> Crisis {
    let disputed = level == Level::Calm && found.level == Level::Acute;
    Crisis {
        level: if disputed { Level::Concern } else { level },
        confidence: confidence.clamp(0.0, 1.0),
        reason_code: if disputed { found.reason_code } else { reason_code },
        flags: if disputed { vec![CrisisFlag::Disputed] } else { Vec::new() },
        override_kind: None,
        classifier_path: ClassifierPath::Model,
    }
}

/// Whether a message says this phrase and nothing else.
fn same_words(spoken: &TextWords<'_>, phrase: &str) -> bool {
    let phrase = TextWords::of(phrase);
    !phrase.words.is_empty()
        && phrase.words.len() == spoken.words.len()
        && phrase.words.iter().zip(&spoken.words).all(|(a, b)| a.text == b.text)
}

impl Classification {
    /// Reads a model's answer `{level, confidence?, reason_code?}`; a reason outside the list is not
    /// carried on, and anything else than such an object is a failure.
    pub fn read(model_text: &str) -> Self {
        #[derive(Deserialize)]
        struct ClassifierAnswer {
            level: Level,
            confidence: Option<f32>,
            reason_code: Option<String>,
        }
        let Ok(answer) = serde_json::from_str::<ClassifierAnswer>(unfenced(model_text)) else {
            return Self::Failed;
        };
        let named = answer.reason_code.as_deref().and_then(ReasonCode::parse);
        let unnamed =
            if answer.level == Level::Calm { ReasonCode::NoSignal } else { ReasonCode::Unspecified };
        Self::Made {
            level: answer.level,
            confidence: answer.confidence.filter(|sure| sure.is_finite()).unwrap_or(0.5).clamp(0.0, 1.0),
            reason_code: named.unwrap_or(unnamed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        serde_json::from_str(
            r#"{"safe_words":["red balloon"],
                "phrases":{"0":["i am dead inside lol","kill myself in the game"],"1":["blue monday"],
                           "2":["code orange"],"3":["code red"]},
                "lexicon":[{"text":"walk into the sea","level":2}]}"#,
        )
        .unwrap()
    }

    fn made(level: u8) -> Option<Classification> {
        Classification::Made {
            level: Level::of(level).unwrap(),
            confidence: 0.8,
            reason_code: ReasonCode::Unspecified,
        }
        .into()
    }

    #[test]
    fn the_truth_table_holds() {
        use ClassifierPath::{Lexicon, LexiconAfterFailure, Model, Override};
        let failed = Some(Classification::Failed);
        let table = [
            ("Red balloon, please", made(0), 3, Override),
            ("this is code red", made(0), 3, Override),
            ("this is code orange", made(3), 2, Override),
            ("code orange, code red", None, 3, Override),
            ("I am dead inside, lol", made(3), 0, Override),
            ("hello", None, 0, Lexicon),
            ("hello", failed, 0, LexiconAfterFailure),
            ("hello", made(2), 2, Model),
            ("I want to kill myself", None, 3, Lexicon),
            ("I want to kill myself", failed, 3, LexiconAfterFailure),
            ("I want to kill myself", made(2), 2, Model),
            ("I want to kill myself", made(0), 1, Model),
            ("I want to die", made(0), 0, Model),
            ("I will walk into the sea", None, 2, Lexicon),
            ("I had to kill myself in the game", None, 0, Lexicon),
            ("blue monday", None, 1, Override),
            ("blue monday", made(0), 1, Override),
            ("blue monday and I want to die", None, 2, Lexicon),
            ("blue monday", made(3), 3, Model),
            ("red balloons", None, 0, Lexicon),
            ("", None, 0, Lexicon),
        ];
        for (text, classified, level, path) in table {
            let crisis = check(text, &settings(), classified);
            assert_eq!(
                (crisis.level.number(), crisis.classifier_path),
                (level, path),
                "{text} {classified:?}"
            );
            assert_eq!(crisis.override_kind.is_some(), path == Override, "{text}");
        }
        assert_eq!(check("kill myself", &Settings::default(), made(0)).flags, [CrisisFlag::Disputed]);
    }

    #[test]
    fn nothing_that_was_said_is_in_the_result() {
        let crisis = check("zebra zebra I want to kill myself zebra", &settings(), None);
        let text = serde_json::to_string(&crisis).unwrap();
        assert!(!text.contains("zebra") && !text.contains("kill"), "{text}");
        assert_eq!(serde_json::from_str::<Crisis>(&text).unwrap(), crisis);
    }

    #[test]
    fn a_model_s_classification_is_read_strictly() {
        let made = |level, confidence, reason_code| Classification::Made { level, confidence, reason_code };
        let table = [
            (
                r#"{"level":3,"confidence":0.9,"reason_code":"active_ideation"}"#,
                made(Level::Acute, 0.9, ReasonCode::ActiveIdeation),
            ),
            ("```json\n{\"level\":0}\n```", made(Level::Calm, 0.5, ReasonCode::NoSignal)),
            (
                r#"{"level":2,"confidence":7,"reason_code":"he said that he is sad"}"#,
                made(Level::Serious, 1.0, ReasonCode::Unspecified),
            ),
            (r#"{"level":4}"#, Classification::Failed),
            (r#"{"level":-1}"#, Classification::Failed),
            (r#"{"level":"3"}"#, Classification::Failed),
            ("{}", Classification::Failed),
            ("I think this is fine.", Classification::Failed),
            ("", Classification::Failed),
        ];
        for (text, expected) in table {
            assert_eq!(Classification::read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_level_is_a_number_from_0_to_3() {
        for level in Level::ALL {
            assert_eq!(Level::of(level.number()), Some(level));
        }
        assert_eq!(Level::of(4), None);
        assert!(serde_json::from_str::<Level>("4").is_err());
        assert!(!Level::Concern.is_crisis() && Level::Serious.is_crisis());
    }
}
