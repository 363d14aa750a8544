//! Words around a phrase of the lexicon that change its weight: when, who, whether it is denied,
//! whether it is a joke or a story.

use std::sync::LazyLock;

use crate::memory::phrase::Phrases;

pub(super) static IMMINENT: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "tonight", "right now", "tomorrow", "this evening", "goodbye", "this is the end", "on the bridge",
        "on the roof", "have the pills", "have a rope", "heute nacht", "heute abend", "jetzt gleich",
        "lebt wohl", "ce soir", "cette nuit", "tout de suite", "adieu", "esta noche", "ahora mismo",
        "adiós para siempre", "stasera", "stanotte", "hoje à noite", "esta noite", "vanavond", "vannacht",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

pub(super) static PAST: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "years ago", "long ago", "used to", "in the past", "when i was", "as a teenager", "as a child",
        "as a kid", "back then", "früher", "vor jahren", "damals", "als ich jung war", "il y a des années",
        "il y a longtemps", "autrefois", "quand j'étais", "hace años", "hace mucho", "cuando era", "anni fa",
        "quando ero", "anos atrás", "quando eu era", "vroeger", "jaren geleden", "toen ik",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

pub(super) static AGAIN: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "again", "still", "now", "these days", "wieder", "immer noch", "jetzt", "encore", "maintenant",
        "de nouveau", "otra vez", "de nuevo", "ahora", "todavía", "ancora", "adesso", "ainda", "agora",
        "weer", "nog steeds",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

pub(super) static FICTION: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "movie", "film", "novel", "book", "song", "game", "character", "series", "episode", "play", "opera",
        "roman", "buch", "lied", "spiel", "serie", "livre", "chanson", "película", "libro", "canción",
        "canzone", "filme", "livro", "boek",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

pub(super) const NEGATORS: &[&str] = &[
    "dont", "not", "never", "no", "wont", "wouldnt", "didnt", "doesnt", "isnt", "arent", "aint", "havent",
    "nor", "nicht", "nie", "niemals", "kein", "keine", "keinerlei", "pas", "jamais", "aucune", "nunca",
    "jamas", "non", "mai", "nao", "niet", "nooit", "geen",
];
/// A second denial takes the first back, as in "no reason not to".
pub(super) const DOUBLE: &[&str] =
    &["no", "not", "dont", "cant", "cannot", "kein", "keinen", "nicht", "aucune", "sin", "geen"];
pub(super) const BRIDGES: &[&str] = &[
    "want", "wanna", "to", "going", "gonna", "plan", "planning", "on", "intend", "intending", "would",
    "ever", "really", "actually", "feel", "feeling", "like", "be", "being", "am", "thinking", "think", "of",
    "about", "have", "any", "thoughts", "intention", "trying", "try", "wish", "do", "even", "will", "mich",
    "mir", "zu", "wollen", "daran", "me", "veux", "vais", "voudrais", "de", "a", "suis", "quiero", "voy",
    "pienso", "estoy", "voglio", "vorrei", "sono", "quero", "vou", "estou", "mezelf", "wil", "ik", "ga",
    "ben", "je", "i",
];
pub(super) const FIRST: &[&str] =
    &["i", "im", "ive", "id", "ill", "me", "myself", "ich", "je", "jai", "moi", "yo", "io", "eu", "ik"];
pub(super) const OTHERS: &[&str] = &[
    "he", "she", "they", "hes", "shes", "theyre", "him", "them", "someone", "somebody", "people", "friend",
    "friends", "brother", "sister", "mother", "mom", "mum", "father", "dad", "son", "daughter", "wife",
    "husband", "partner", "girlfriend", "boyfriend", "cousin", "colleague", "neighbour", "neighbor",
    "classmate", "student", "patient", "aunt", "uncle", "teacher", "therapist", "doctor", "boss", "guy",
    "woman", "man", "kid", "child", "er", "sie", "freund", "freundin", "bruder", "schwester", "mutter",
    "vater", "sohn", "tochter", "kollege", "kollegin", "mann", "frau", "jemand", "il", "elle", "ils",
    "elles", "ami", "amie", "frere", "soeur", "mere", "pere", "fils", "fille", "mari", "femme", "quelquun",
    "ella", "ellos", "amigo", "amiga", "hermano", "hermana", "madre", "padre", "hijo", "hija", "lui", "lei",
    "amico", "amica", "fratello", "sorella", "figlio", "figlia", "ele", "ela", "irmao", "irma", "hij", "zij",
    "vriend", "vriendin", "broer", "zus", "moeder", "vader", "zoon", "dochter", "iemand",
];
pub(super) const SAYS: &[&str] = &[
    "said", "says", "told", "wrote", "texted", "asked", "sagt", "sagte", "schrieb", "dit", "dice", "dijo",
    "disse", "zegt", "zei",
];
pub(super) const LIGHT: &[&str] = &[
    "haha", "lol", "kidding", "joking", "lmao", "rofl", "jk", "hehe", "jaja", "jajaja", "mdr", "ptdr",
    "kkkk", "hihi",
];
