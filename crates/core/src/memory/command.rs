//! Reads a user's message as a command to the memory. A command opens its sentence, after at most a
//! "please" or "could you": a message that merely mentions the words is talk.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::control::{Command, MemoryCounts, MemorySelector, PendingDeletion};
use super::phrase::{Phrases, TextWords};
use super::words;

/// The command that the message gives to the memory, if any. While something is pending, a plain yes, no or number
/// answers it.
pub fn read(message: &str, pending: Option<&PendingDeletion>) -> Option<Command> {
    let spoken = TextWords::of(message);
    if let Some(answer) = pending.and_then(|pending| answer(&spoken, pending)) {
        return Some(answer);
    }
    let mut from = 0;
    while from < spoken.words.len() {
        let end = spoken.sentence_end(from);
        if let Some(command) = sentence(&spoken, from, end) {
            return Some(command);
        }
        from = end;
    }
    None
}

fn answer(spoken: &TextWords<'_>, pending: &PendingDeletion) -> Option<Command> {
    let words: Vec<&str> = spoken.slice(0, spoken.words.len()).collect();
    let has = |set: &HashSet<&str>| words.iter().any(|word| set.contains(word));
    let first = *words.first()?;
    if words.len() <= ANSWER_WORDS_MAX && (NO.contains(first) || !CANCEL.find(spoken).is_empty()) {
        return Some(Command::Cancel);
    }
    // Deleting needs a plain yes: with any other word the message is talk.
    let plain = words.iter().all(|word| {
        YES.contains(word) || POLITE.contains(word) || number(word).is_some() || NUMBERED.contains(word)
    });
    if !plain || words.len() > ANSWER_WORDS_MAX {
        return None;
    }
    if matches!(pending, PendingDeletion::Options { .. }) {
        let mut numbers = words.iter().filter_map(|word| number(word));
        if let (Some(n), None) = (numbers.next(), numbers.next()) {
            return Some(Command::Choose(n));
        }
    }
    let named = words.iter().any(|word| number(word).is_some());
    (has(&YES) && !named).then_some(Command::Confirm)
}

fn sentence(spoken: &TextWords<'_>, from: usize, end: usize) -> Option<Command> {
    let (start, requested) = lead(spoken, from, end);
    let asks = spoken.text[spoken.words[end - 1].end..].trim_start().starts_with('?');
    let hits = COMMANDS.find_at(spoken, start);
    for hit in hits {
        if asks && !requested && !matches!(hit.what, CommandPattern::Known | CommandPattern::Talk) {
            continue;
        }
        let rest = hit.end;
        let all_trailing =
            spoken.slice(rest, spoken.clause_end(rest - 1)).all(|word| TRAILING.contains(word));
        // "Don't remember" alone is an answer about oneself.
        let named = rest < end || spoken.words[rest - 1].text != "remember";
        return match hit.what {
            CommandPattern::Talk => None,
            CommandPattern::Known if all_trailing => Some(Command::WhatDoYouKnow),
            CommandPattern::DontSave if all_trailing && named => Some(Command::DontSave),
            CommandPattern::RecallOn => Some(Command::RecallOn),
            CommandPattern::RecallOff => Some(Command::RecallOff),
            CommandPattern::Remember { own } => Some(remember(spoken, rest - own, end)),
            CommandPattern::Forget { .. } if everything(spoken, start + 1, end) => {
                Some(Command::ForgetEverything(MemoryCounts::default()))
            }
            CommandPattern::Forget { own } => match forget(spoken, rest - own, end) {
                Some(which) => Some(Command::Forget(which)),
                None => continue,
            },
            CommandPattern::Known | CommandPattern::DontSave => continue,
        };
    }
    None
}

/// What is to be kept: the rest of the sentence, or what follows a bare "remember this".
fn remember(spoken: &TextWords<'_>, from: usize, end: usize) -> Command {
    let here = spoken.between(from, end);
    let text = if here.is_empty() { spoken.between(end, spoken.words.len()) } else { here };
    let meant =
        !text.is_empty() && !TextWords::of(text).words.iter().all(|word| TRAILING.contains(&*word.text));
    Command::RememberThis { text: meant.then(|| text.to_owned()) }
}

/// Whether the words after the verb mean everything that is remembered: "everything you know about me", and not
/// "everything about my sister".
fn everything(spoken: &TextWords<'_>, from: usize, end: usize) -> bool {
    spoken.slice(from, end).any(|word| EVERYTHING.contains(word))
        && words::set(spoken.between(from, end))
            .iter()
            .all(|word| EVERYTHING.contains(word.as_str()) || REMEMBERED.contains(word.as_str()))
}

/// What is to be forgotten, if the rest of the sentence names anything. "Forget that, tell me …"
/// goes on with something else.
fn forget(spoken: &TextWords<'_>, from: usize, end: usize) -> Option<MemorySelector> {
    if spoken.words.get(from).is_some_and(|word| word.clause != spoken.words[from - 1].clause) {
        return None;
    }
    let rest: Vec<&str> = spoken.slice(from, end).collect();
    let numbers: Vec<usize> = rest.iter().filter_map(|word| number(word)).collect();
    let only = rest.iter().all(|word| {
        number(word).is_some() || NUMBERED.contains(word) || POLITE.contains(word) || TRAILING.contains(word)
    });
    if let (true, [n]) = (only, numbers.as_slice()) {
        return Some(MemorySelector::Ordinal(*n));
    }
    let query = spoken.between(from, end);
    let meant = rest.iter().any(|word| EVERYTHING.contains(word)) || !words::set(query).is_empty();
    meant.then(|| MemorySelector::Query(query.to_owned()))
}

/// Where the sentence begins behind its polite opening, and whether that was a request to the agent.
fn lead(spoken: &TextWords<'_>, from: usize, end: usize) -> (usize, bool) {
    let (mut at, mut requested) = (from, false);
    while let Some(hit) = LEADS.find_at(spoken, at).into_iter().next() {
        if hit.end >= end {
            break;
        }
        at = hit.end;
        requested |= *hit.what;
    }
    (at, requested)
}

fn number(word: &str) -> Option<usize> {
    if let Ok(n) = word.parse::<usize>() {
        return Some(n);
    }
    let place = ORDINALS.iter().position(|names| names.split(' ').any(|name| name == word))?;
    Some(place + 1)
}

#[derive(Clone, Copy, Debug)]
enum CommandPattern {
    /// The last words of the pattern, `own` of them, belong to the text to be kept.
    Remember {
        own: usize,
    },
    DontSave,
    Known,
    Forget {
        own: usize,
    },
    RecallOn,
    RecallOff,
    /// Sounds like a command but is talk.
    Talk,
}

const ANSWER_WORDS_MAX: usize = 8;

static COMMANDS: LazyLock<Phrases<CommandPattern>> = LazyLock::new(|| {
    let rows: [(CommandPattern, &[&str]); 9] = [
        (CommandPattern::Remember { own: 0 }, REMEMBER),
        (CommandPattern::Remember { own: 1 }, REMEMBER_OWN),
        (CommandPattern::DontSave, DONT_SAVE),
        (CommandPattern::Known, KNOWN),
        (CommandPattern::Forget { own: 0 }, FORGET),
        (CommandPattern::Forget { own: 1 }, FORGET_OWN),
        (CommandPattern::RecallOn, RECALL_ON),
        (CommandPattern::RecallOff, RECALL_OFF),
        (CommandPattern::Talk, TALK),
    ];
    Phrases::new(rows.into_iter().flat_map(|(heard, texts)| texts.iter().map(move |text| (*text, heard))))
});

const REMEMBER: &[&str] = &[
    "remember this", "remember that", "remember the following", "don't forget that", "do not forget that",
    "keep in mind that", "make a note that", "save this", "save that", "merk dir das", "merk dir dass",
    "merke dir das", "merke dir dass", "merk dir bitte dass", "vergiss nicht dass", "denk daran dass",
    "behalte das", "souviens-toi que", "souviens toi que", "retiens que", "retiens ça", "retiens ceci",
    "n'oublie pas que", "note que", "recuerda que", "recuerda esto", "no olvides que", "ten en cuenta que",
    "ricorda che", "ricordati che", "ricorda questo", "non dimenticare che", "lembre-se de que",
    "lembre-se que", "lembra que", "não esqueça que", "onthoud dat", "onthoud dit", "vergeet niet dat",
];
const REMEMBER_OWN: &[&str] = &[
    "remember my", "remember i", "remember i'm", "remember i've", "don't forget my", "don't forget i",
    "don't forget i'm", "merk dir meine", "merk dir meinen", "merk dir ich", "recuerda mi", "retiens mon",
    "retiens ma",
];
const DONT_SAVE: &[&str] = &[
    "don't save", "do not save", "don't store", "do not store", "don't remember", "do not remember",
    "don't keep", "do not keep", "don't write", "never save", "i don't want you to remember",
    "i don't want you to save", "i don't want you to keep", "ich will nicht dass du dir das merkst",
    "off the record", "this is off the record", "keep this off the record", "go private",
    "forget what i said", "forget what i just said", "forget i said", "forget i told you",
    "forget this conversation", "forget this chat", "forget this session", "speicher das nicht",
    "speichere das nicht", "speicher nichts", "speichere nichts", "nicht speichern", "das nicht speichern",
    "merk dir das nicht", "merk dir nichts", "vergiss was ich gesagt habe", "vergiss dieses gespräch",
    "n'enregistre pas", "ne l'enregistre pas", "ne garde pas", "ne retiens pas", "ne retiens rien",
    "oublie ce que j'ai dit", "oublie ce que je viens de dire", "oublie cette conversation", "no guardes",
    "no lo guardes", "no recuerdes", "olvida lo que dije", "olvida lo que he dicho",
    "olvida esta conversación", "non salvare", "non salvarlo", "não salve", "não guarde", "sla dit niet op",
    "sla niets op", "onthoud dit niet",
];
const KNOWN: &[&str] = &[
    "what do you know about me", "what you know about me", "tell me what you know about me",
    "what do you remember about me", "what do you remember of me", "what do you remember",
    "what you remember about me", "tell me what you remember about me", "what have you saved about me",
    "what have you stored about me", "what have you remembered about me", "what have you remembered",
    "show me my memories", "show my memories", "show me my memory", "show my memory", "list my memories",
    "list what you know about me", "show me what you know about me", "was weißt du über mich",
    "was weißt du von mir", "was hast du dir gemerkt", "was hast du dir über mich gemerkt",
    "was hast du über mich gespeichert", "que sais-tu de moi", "que sais-tu sur moi", "que sais tu de moi",
    "que sais tu sur moi", "qu'est-ce que tu sais de moi", "qu'est-ce que tu sais sur moi",
    "qué sabes de mí", "qué sabes sobre mí", "qué recuerdas de mí", "cosa sai di me", "che cosa sai di me",
    "o que você sabe sobre mim", "wat weet je over mij", "wat weet je van mij",
];
const FORGET: &[&str] = &[
    "forget that", "forget about", "forget the fact that", "forget what i told you about",
    "forget what i said about", "forget what you know about", "forget number", "forget memory",
    "forget fact", "delete number", "delete memory", "delete fact", "delete the memory of",
    "delete the memory about", "delete the memory that", "delete what you know about", "remove number",
    "remove memory", "remove fact", "erase memory", "erase the memory of", "erase what you know about",
    "vergiss dass", "vergiss bitte dass", "vergiss nummer", "vergiss alles über", "lösche nummer",
    "lösch nummer", "lösche die erinnerung an", "oublie que", "oublie le numéro", "supprime le souvenir de",
    "olvida que", "olvida el número", "borra el recuerdo de", "dimentica che", "esqueça que", "vergeet dat",
    "vergeet nummer",
];
const FORGET_OWN: &[&str] = &[
    "forget my", "forget everything", "forget all", "forget the first", "forget the second",
    "forget the third", "forget the fourth", "forget the fifth", "forget 1", "forget 2", "forget 3",
    "forget 4", "forget 5", "forget 6", "forget 7", "forget 8", "forget 9", "delete everything you",
    "erase everything you", "vergiss mein", "vergiss meine", "vergiss meinen", "vergiss alles",
    "vergiss das erste", "vergiss das zweite", "oublie mon", "oublie ma", "oublie mes", "oublie tout",
    "olvida mi", "olvida mis", "olvida todo", "dimentica tutto", "esqueça tudo", "vergeet mijn",
    "vergeet alles",
];
const RECALL_ON: &[&str] = &[
    "turn recall on", "turn on recall", "recall on", "enable recall", "bring up the past", "bring up past",
    "you can bring up the past", "you may bring up the past", "you can bring up past",
    "you may bring up past", "you can bring up what", "you may bring up what", "you can mention the past",
    "you may mention the past", "feel free to bring up the past", "du darfst die vergangenheit ansprechen",
    "du darfst früheres ansprechen", "du kannst früheres ansprechen", "tu peux parler du passé",
    "tu peux évoquer le passé", "puedes hablar del pasado", "puedes mencionar el pasado",
    "puoi parlare del passato", "je mag het verleden noemen",
];
const RECALL_OFF: &[&str] = &[
    "turn recall off", "turn off recall", "recall off", "disable recall", "don't bring up the past",
    "do not bring up the past", "don't bring up past", "don't bring up old", "don't bring up what i",
    "don't bring up things from", "stop bringing up the past", "stop bringing up past",
    "stop bringing up old", "stop bringing up what i", "don't mention the past", "stop mentioning the past",
    "don't mention what i told you before", "don't mention our past", "sprich die vergangenheit nicht an",
    "sprich früheres nicht an", "fang nicht von früher an", "ne parle pas du passé",
    "ne parle plus du passé", "n'évoque pas le passé", "no hables del pasado", "no menciones el pasado",
    "non parlare del passato", "begin niet over vroeger",
];
const TALK: &[&str] = &[
    "remember that time", "remember that day", "remember that night", "remember that one",
    "remember that guy", "remember that movie", "remember that song", "forget about it", "forget about that",
    "forget about this", "don't keep me", "forget my previous", "forget my last", "forget my question",
    "don't remember much",
];

/// Openings after which a command may follow; `true` where they ask the agent for it.
static LEADS: LazyLock<Phrases<bool>> = LazyLock::new(|| {
    let asking = [
        "can you", "could you", "would you", "will you", "i want you to", "i'd like you to",
        "i would like you to", "kannst du", "könntest du", "peux-tu", "peux tu", "pourrais-tu", "puedes",
        "podrías", "puoi", "você pode", "kun je",
    ];
    let plain = [
        "please", "hey", "hi", "ok", "okay", "so", "and", "also", "but", "now", "just", "actually", "well",
        "oh", "thanks", "bitte", "also bitte", "und", "aber", "s'il te plaît", "stp", "et", "por favor", "y",
        "per favore", "alsjeblieft", "en",
    ];
    Phrases::new(
        asking.into_iter().map(|text| (text, true)).chain(plain.into_iter().map(|text| (text, false))),
    )
});

static CANCEL: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "never mind", "nevermind", "keep it", "leave it", "don't", "do not", "changed my mind", "lass es",
        "doch nicht", "laisse tomber", "déjalo", "lascia stare", "laat maar",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

fn set(words: &'static str) -> HashSet<&'static str> {
    words.split_ascii_whitespace().collect()
}

static YES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "yes y yeah yep yup sure ok okay confirm confirmed absolutely definitely ja jawohl genau klar oui ouais \
         daccord si claro vale confirmo certo sim",
    )
});
static NO: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "no n nope nah cancel stop wait nein abbrechen halt non annule annuler cancela cancelar annulla nee nao",
    )
});
static POLITE: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set("please thanks thank you do it go ahead delete that this remove forget the one bitte danke mach das \
         losch losche es merci sil te plait vas supprime le por favor gracias borralo hazlo prego grazie doe maar")
});
static TRAILING: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "please this that it anything any say tell told we talk about of now ok okay conversation chat session message part thanks thank you \
         down for me either to memory what i said just today here from your in so bitte das dies es jetzt danke \
         nichts gesprach merci ca cela ceci rien sil te plait conversation por favor gracias esto eso nada lo \
         grazie questo per favore dit alsjeblieft",
    )
});
static NUMBERED: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set("number no nr option item fact memory the one nummer die der das le la numero el los segunda")
});
static EVERYTHING: LazyLock<HashSet<&str>> =
    LazyLock::new(|| set("everything all alles tout todo tutto tudo"));

/// Words beside the verb that show that the memory is meant.
static REMEMBERED: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    set(
        "you know me remember memory memories stored saved kept have ever told said i my mine please now facts du weisst \
         wei\u{df}t mich uber mir von was bitte tu sais moi sur que de sabes mi sobre lo sai di su voce sabe mim weet je \
         over mij wat",
    )
});

const ORDINALS: [&str; 5] = [
    "first erste ersten erstes premier premiere primero primera primo",
    "second zweite zweiten zweites deuxieme segundo segunda secondo",
    "third dritte dritten drittes troisieme tercero tercera terzo",
    "fourth vierte vierten viertes quatrieme cuarto cuarta quarto",
    "fifth funfte funften funftes cinquieme quinto quinta",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::control::ForgetTarget;

    fn kept(text: &str) -> Command {
        Command::RememberThis { text: Some(text.into()) }
    }

    fn query(text: &str) -> Command {
        Command::Forget(MemorySelector::Query(text.into()))
    }

    #[test]
    fn commands_are_read_in_several_languages() {
        let nth = |n| Command::Forget(MemorySelector::Ordinal(n));
        let table = [
            ("Remember that I'm vegan.", kept("I'm vegan")),
            ("Please remember this: my cat is called Momo", kept("my cat is called Momo")),
            ("Remember this. My cat is called Momo.", kept("My cat is called Momo")),
            ("Could you remember that I work nights?", kept("I work nights")),
            ("remember my birthday is on 3 May", kept("my birthday is on 3 May")),
            ("Don't forget that I moved to Lyon", kept("I moved to Lyon")),
            ("Remember this", Command::RememberThis { text: None }),
            ("Please remember that!", Command::RememberThis { text: None }),
            ("Merk dir, dass ich in Graz wohne", kept("ich in Graz wohne")),
            ("N'oublie pas que je suis végétarien", kept("je suis végétarien")),
            ("Recuerda que vivo en Lima", kept("vivo en Lima")),
            ("Onthoud dat ik in Gent woon", kept("ik in Gent woon")),
            ("Don't save this", Command::DontSave),
            ("Please don't save this conversation.", Command::DontSave),
            ("don’t remember any of this please", Command::DontSave),
            ("This is off the record.", Command::DontSave),
            ("Forget what I just said.", Command::DontSave),
            ("I'm tired. Don't save that.", Command::DontSave),
            ("Do not save anything I say", Command::DontSave),
            ("Off the record, I hate my boss", Command::DontSave),
            ("I don't want you to remember this.", Command::DontSave),
            ("Speicher das nicht!", Command::DontSave),
            ("N'enregistre pas ça", Command::DontSave),
            ("No guardes esto, por favor", Command::DontSave),
            ("What do you know about me?", Command::WhatDoYouKnow),
            ("So, what do you remember about me?", Command::WhatDoYouKnow),
            ("Was weißt du über mich?", Command::WhatDoYouKnow),
            ("Que sais-tu de moi ?", Command::WhatDoYouKnow),
            ("¿Qué sabes de mí?", Command::WhatDoYouKnow),
            ("Cosa sai di me?", Command::WhatDoYouKnow),
            ("Forget that I live in Graz", query("I live in Graz")),
            ("Can you forget about my sister?", query("my sister")),
            ("please forget my address", query("my address")),
            ("Forget everything you know about me", Command::ForgetEverything(MemoryCounts::default())),
            ("Please forget everything.", Command::ForgetEverything(MemoryCounts::default())),
            ("Delete everything you remember about me", Command::ForgetEverything(MemoryCounts::default())),
            ("Vergiss alles, bitte", Command::ForgetEverything(MemoryCounts::default())),
            ("Vergiss alles über mich", Command::ForgetEverything(MemoryCounts::default())),
            ("Oublie tout", Command::ForgetEverything(MemoryCounts::default())),
            ("Olvida todo lo que sabes de mí", Command::ForgetEverything(MemoryCounts::default())),
            ("Forget everything about my sister", query("everything about my sister")),
            ("Vergiss, dass ich in Graz wohne.", query("ich in Graz wohne")),
            ("Oublie mon adresse", query("mon adresse")),
            ("Olvida que tengo un perro", query("tengo un perro")),
            ("Forget number 2", nth(2)),
            ("forget #3 please", nth(3)),
            ("Forget the second one", nth(2)),
            ("Delete memory 4", nth(4)),
            ("Lösche Nummer 1", nth(1)),
            ("You may bring up the past.", Command::RecallOn),
            ("Turn recall on", Command::RecallOn),
            ("Stop bringing up the past", Command::RecallOff),
            ("please don't bring up the past", Command::RecallOff),
            ("Ne parle plus du passé", Command::RecallOff),
        ];
        for (text, command) in table {
            assert_eq!(read(text, None), Some(command), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_read(before in "\\PC{0,40}", after in "\\PC{0,40}") {
            for middle in ["remember that", "forget my", "yes", "forget number 2"] {
                let text = format!("{before} {middle} {after}");
                let pending = PendingDeletion::Delete { id: "1".into(), label: "one".into() };
                if let Some(Command::RememberThis { text: Some(kept) }) = read(&text, Some(&pending)) {
                    proptest::prop_assert!(text.contains(&kept));
                }
            }
        }
    }

    #[test]
    fn a_message_that_merely_mentions_the_words_is_talk() {
        for text in [
            "I can't forget him",
            "I will never forget that day",
            "Forget it.",
            "forget about it",
            "Forget him!",
            "Forget that, tell me about Rome",
            "Forget my previous question",
            "Don't remember.",
            "Vergiss es",
            "Olvídalo",
            "Remember that time we went to the lake?",
            "Do you remember my brother?",
            "I don't remember any of this",
            "You forget that I have children",
            "What do you know about Rome?",
            "Don't save this file to the desktop",
            "The app did not save this",
            "Forget the plan, let us go to the beach",
            "Delete the file",
            "She told me to remember that I am loved",
            "I want to remember this evening",
            "He keeps bringing up the past",
            "yes",
            "2",
            "no",
            "",
            "…",
        ] {
            assert_eq!(read(text, None), None, "{text}");
        }
    }

    #[test]
    fn a_pending_deletion_is_answered_by_a_plain_yes_no_or_number() {
        let target = |n: usize| ForgetTarget { id: n.to_string(), label: n.to_string() };
        let delete = PendingDeletion::Delete { id: "1".into(), label: "one".into() };
        let options = PendingDeletion::Options { targets: (1..=3).map(target).collect() };
        let (yes, no) = (Some(Command::Confirm), Some(Command::Cancel));
        let table = [
            (&delete, "Yes", yes.clone()),
            (&delete, "yes please, delete it", yes.clone()),
            (&delete, "Ja, bitte", yes.clone()),
            (&delete, "oui", yes.clone()),
            (&delete, "sí", yes.clone()),
            (&delete, "No", no.clone()),
            (&delete, "no, keep it", no.clone()),
            (&delete, "never mind", no.clone()),
            (&delete, "Nein danke", no.clone()),
            (&delete, "yes... actually don't", no.clone()),
            (&delete, "Yes but why do you ask about my sister", None),
            (&delete, "What a day", None),
            (&delete, "delete it", None),
            (&delete, "2", None),
            (&delete, "Forget that I like tea", Some(query("I like tea"))),
            (&options, "2", Some(Command::Choose(2))),
            (&options, "number 3 please", Some(Command::Choose(3))),
            (&options, "the first one", Some(Command::Choose(1))),
            (&options, "die zweite", Some(Command::Choose(2))),
            (&options, "9", Some(Command::Choose(9))),
            (&options, "yes", yes),
            (&options, "1 and 2", None),
            (&options, "I have 2 dogs", None),
            (&options, "cancel", no),
        ];
        for (pending, text, command) in table {
            assert_eq!(read(text, Some(pending)), command, "{text}");
        }
    }
}
