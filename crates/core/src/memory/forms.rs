//! The phrases in which people state something about themselves, or say how they want to be talked to. A table of
//! words; [`super::extract`] interprets them.

use std::sync::LazyLock;

use super::Category;
use super::phrase::Phrases;

/// What the words after a pattern are.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// The subject of the fact, where it is not the person who talks.
    pub subject: Option<&'static str>,
    pub predicate: &'static str,
    pub category: Category,
    pub confidence: f32,
    /// How many words the object may have.
    pub words_max: usize,
}

const fn form(predicate: &'static str, category: Category, confidence: f32, words_max: usize) -> Form {
    Form { subject: None, predicate, category, confidence, words_max }
}

/// Facts about oneself.
const OWN: &[(Form, &[&str])] = &[
    (
        form("name", Category::Identity, 0.9, 3),
        &[
            "my name is", "my friends call me", "people call me", "everyone calls me", "i go by",
            "my name's", "ich heiße", "mein name ist", "je m'appelle", "mon nom est", "mon prénom est",
            "me llamo", "mi nombre es", "mi chiamo", "il mio nome è", "meu nome é", "me chamo", "ik heet",
            "mijn naam is",
        ],
    ),
    (
        form("lives_in", Category::Place, 0.85, 4),
        &[
            "i live in", "i'm living in", "i am living in", "i moved to", "i've moved to", "i have moved to",
            "ich wohne in", "wohne ich in", "ich lebe in", "lebe ich in", "j'habite à", "j'habite en",
            "j'habite au", "je vis à", "je vis en", "vivo en", "vivo a", "abito a", "abito in", "moro em",
            "ik woon in",
        ],
    ),
    (
        form("comes_from", Category::Place, 0.8, 4),
        &[
            "i'm from", "i am from", "i come from", "ich komme aus", "je viens de", "soy de", "vengo da",
            "ik kom uit",
        ],
    ),
    (form("born_in", Category::Identity, 0.8, 4), &["i was born in", "ich bin geboren in", "nací en"]),
    (
        form("birthday", Category::Identity, 0.85, 4),
        &[
            "my birthday is on", "my birthday is", "ich habe geburtstag am", "mein geburtstag ist am",
            "mon anniversaire est le", "mi cumpleaños es el",
        ],
    ),
    (
        form("works_as", Category::Work, 0.85, 4),
        &[
            "i work as", "i'm working as", "ich arbeite als", "arbeite ich als", "je travaille comme",
            "trabajo como", "lavoro come", "trabalho como", "ik werk als",
        ],
    ),
    (
        form("works_at", Category::Work, 0.8, 5),
        &[
            "i work at", "i work in", "ich arbeite in", "i work for", "ich arbeite bei", "ich arbeite für",
            "arbeite ich bei", "je travaille chez", "je travaille pour", "trabajo en", "trabajo para",
            "lavoro per", "lavoro presso", "ik werk bij",
        ],
    ),
    (
        form("likes", Category::Preference, 0.7, 5),
        &[
            "i like", "i love", "i really like", "i really love", "i enjoy", "ich mag", "ich liebe",
            "j'aime", "j'aime bien", "j'adore", "me gusta", "me gustan", "me encanta", "me encantan",
            "mi piace", "mi piacciono", "eu gosto de", "ik hou van",
        ],
    ),
    (
        form("dislikes", Category::Preference, 0.7, 5),
        &[
            "i hate", "i really hate", "i dislike", "i don't like", "i do not like", "i can't stand",
            "i cannot stand", "ich hasse", "ich mag kein", "ich mag keine", "ich mag keinen", "je déteste",
            "je n'aime pas", "j'aime pas", "odio", "no me gusta", "no me gustan", "non mi piace",
            "não gosto de", "ik haat",
        ],
    ),
    (
        form("avoids", Category::Preference, 0.75, 3),
        &[
            "i don't eat", "i do not eat", "i don't drink", "i do not drink", "ich esse kein",
            "ich esse keine", "ich trinke kein", "ich trinke keinen", "je ne mange pas de",
            "je ne bois pas de", "no como", "no bebo",
        ],
    ),
    (
        form("prefers", Category::Preference, 0.75, 6),
        &["i prefer", "i'd rather have", "ich bevorzuge", "je préfère", "prefiero", "preferisco", "prefiro"],
    ),
    (
        form("allergic_to", Category::Health, 0.9, 4),
        &[
            "i'm allergic to", "i am allergic to", "i have an allergy to", "ich bin allergisch gegen",
            "ich bin allergisch auf", "je suis allergique à", "je suis allergique au",
            "je suis allergique aux", "soy alérgico a", "soy alérgica a", "sono allergico a",
            "sono allergica a", "sou alérgico a", "ik ben allergisch voor",
        ],
    ),
    (
        form("diagnosed_with", Category::Health, 0.8, 4),
        &["i was diagnosed with", "i've been diagnosed with", "i have been diagnosed with"],
    ),
    (form("speaks", Category::Identity, 0.75, 3), &["i speak", "ich spreche", "je parle", "hablo", "parlo"]),
    (
        form("has", Category::Possession, 0.65, 4),
        &[
            "i have a", "i have an", "i have two", "i have three", "i have four", "i've got a",
            "i've got an", "i own a", "ich habe einen", "ich habe eine", "ich habe ein", "ich habe zwei",
            "j'ai un", "j'ai une", "j'ai deux", "tengo un", "tengo una", "tengo dos", "ho un", "ho una",
            "tenho um", "tenho uma", "ik heb een",
        ],
    ),
    (
        form("is", Category::Identity, 0.5, 3),
        &[
            "i am a", "i'm a", "i am an", "i'm an", "i am vegan", "i'm vegan", "i am vegetarian",
            "i'm vegetarian",
        ],
    ),
];

/// Facts about people and animals of one's own; `{}` is replaced by each of them.
const THEIRS: &[(Form, &[&str])] = &[
    (
        form("name", Category::Relation, 0.85, 2),
        &["my {} is called", "my {} is named", "my {}'s name is", "i have a {} called", "i have a {} named"],
    ),
    (form("lives_in", Category::Relation, 0.75, 4), &["my {} lives in", "my {} moved to"]),
    (form("works_as", Category::Relation, 0.7, 4), &["my {} works as"]),
    (form("works_at", Category::Relation, 0.7, 4), &["my {} works at", "my {} works for"]),
    (form("is", Category::Relation, 0.6, 4), &["my {} is a", "my {} is an"]),
];
const THEIRS_DE: &[(Form, &[&str])] = &[
    (form("name", Category::Relation, 0.85, 2), &["mein {} heißt", "meine {} heißt"]),
    (
        form("lives_in", Category::Relation, 0.75, 4),
        &["mein {} wohnt in", "meine {} wohnt in", "mein {} lebt in", "meine {} lebt in"],
    ),
    (form("works_as", Category::Relation, 0.7, 4), &["mein {} arbeitet als", "meine {} arbeitet als"]),
];
const THEIRS_FR: &[(Form, &[&str])] = &[
    (form("name", Category::Relation, 0.85, 2), &["mon {} s'appelle", "ma {} s'appelle"]),
    (form("lives_in", Category::Relation, 0.75, 4), &["mon {} habite à", "ma {} habite à"]),
];
const THEIRS_ES: &[(Form, &[&str])] = &[
    (form("name", Category::Relation, 0.85, 2), &["mi {} se llama"]),
    (form("lives_in", Category::Relation, 0.75, 4), &["mi {} vive en"]),
];

const KIN: &[&str] = &[
    "sister", "brother", "mother", "mom", "mum", "father", "dad", "partner", "wife", "husband", "girlfriend",
    "boyfriend", "fiancé", "fiancée", "son", "daughter", "child", "baby", "dog", "cat", "pet", "horse",
    "boss", "friend", "best friend", "roommate", "grandmother", "grandma", "grandfather", "grandpa", "aunt",
    "uncle", "cousin", "therapist", "doctor", "teacher",
];
const KIN_DE: &[&str] = &[
    "schwester", "bruder", "mutter", "mama", "vater", "papa", "partner", "partnerin", "frau", "mann",
    "freundin", "freund", "sohn", "tochter", "kind", "hund", "hündin", "katze", "kater", "chef", "chefin",
    "oma", "opa", "tante", "onkel",
];
const KIN_FR: &[&str] = &[
    "sœur", "frère", "mère", "père", "femme", "mari", "copine", "copain", "compagne", "compagnon", "fils",
    "fille", "chien", "chienne", "chat", "chatte", "ami", "amie", "patron", "grand-mère", "grand-père",
];
const KIN_ES: &[&str] = &[
    "hermana", "hermano", "madre", "padre", "mamá", "papá", "esposa", "esposo", "mujer", "marido", "novia",
    "novio", "pareja", "hijo", "hija", "perro", "perra", "gato", "gata", "amiga", "amigo", "jefe", "jefa",
    "abuela", "abuelo",
];

pub(crate) static FACTS: LazyLock<Phrases<Form>> = LazyLock::new(|| {
    let mut rows: Vec<(String, Form)> = Vec::new();
    for (form, patterns) in OWN {
        rows.extend(patterns.iter().map(|pattern| ((*pattern).to_owned(), form.clone())));
    }
    for (table, kin) in [(THEIRS, KIN), (THEIRS_DE, KIN_DE), (THEIRS_FR, KIN_FR), (THEIRS_ES, KIN_ES)] {
        for (form, patterns) in table {
            for (pattern, who) in patterns.iter().flat_map(|p| kin.iter().map(move |who| (p, who))) {
                rows.push((pattern.replace("{}", who), Form { subject: Some(who), ..form.clone() }));
            }
        }
    }
    Phrases::new(rows.iter().map(|(pattern, form)| (pattern.as_str(), form.clone())))
});

/// What people say of themselves when they are low; the object is the pattern itself.
pub(crate) static LOW: LazyLock<Phrases<&'static str>> = LazyLock::new(|| {
    let rows: [(&str, &[&str]); 8] = [
        (
            "a failure",
            &[
                "i am a failure", "i'm a failure", "i am such a failure", "i'm such a failure",
                "i always fail", "ich bin ein versager", "ich bin eine versagerin", "je suis un raté",
                "je suis une ratée", "soy un fracaso", "soy un fracasado", "sono un fallito",
            ],
        ),
        (
            "worthless",
            &[
                "i am worthless", "i'm worthless", "i am useless", "i'm useless", "ich bin wertlos",
                "ich bin nichts wert", "ich bin nutzlos", "je ne vaux rien", "je suis nul", "je suis nulle",
                "no valgo nada", "soy inútil", "non valgo niente",
            ],
        ),
        (
            "not good enough",
            &[
                "i am not good enough", "i'm not good enough", "i am never good enough",
                "i'm never good enough", "ich bin nicht gut genug", "je ne suis pas assez bien",
                "no soy suficiente",
            ],
        ),
        (
            "a burden",
            &[
                "i am a burden", "i'm a burden", "ich bin eine last", "ich bin allen eine last",
                "je suis un fardeau", "je suis un poids", "soy una carga", "sono un peso",
            ],
        ),
        (
            "stupid",
            &[
                "i am stupid", "i'm stupid", "i am so stupid", "i'm so stupid", "i am an idiot",
                "i'm an idiot", "i'm such an idiot", "ich bin dumm", "ich bin so dumm", "je suis bête",
                "je suis stupide", "soy tonto", "soy tonta", "soy estúpido", "soy estúpida",
            ],
        ),
        (
            "unlovable",
            &[
                "i am unlovable", "i'm unlovable", "nobody likes me", "nobody loves me", "no one likes me",
                "no one loves me", "everyone hates me", "niemand mag mich", "niemand liebt mich",
                "personne ne m'aime", "nadie me quiere",
            ],
        ),
        (
            "broken",
            &[
                "i am broken", "i'm broken", "i ruin everything", "i am a mess", "i'm a mess",
                "ich bin kaputt",
            ],
        ),
        (
            "hates themselves",
            &[
                "i hate myself", "i'm a loser", "i am a loser", "ich hasse mich", "je me déteste", "me odio",
                "mi odio",
            ],
        ),
    ];
    Phrases::new(rows.into_iter().flat_map(|(object, texts)| texts.iter().map(move |text| (*text, object))))
});

/// How a rule opens its sentence, and how sure it is to be one.
pub(crate) static RULES: LazyLock<Phrases<f32>> = LazyLock::new(|| {
    let rows: [(f32, &[&str]); 3] = [
        (
            0.85,
            &[
                "from now on", "always", "never", "ab jetzt", "von jetzt an", "ab sofort", "immer", "nie",
                "niemals", "désormais", "à partir de maintenant", "toujours", "jamais",
                "de ahora en adelante", "a partir de ahora", "siempre", "nunca", "d'ora in poi", "sempre",
                "mai", "vanaf nu", "altijd", "nooit",
            ],
        ),
        (
            0.8,
            &[
                "call me", "don't call me", "don't ask me about", "don't ask me", "do not ask me about",
                "stop asking me about", "don't talk to me about", "answer in", "answer me in", "reply in",
                "reply to me in", "respond in", "speak to me in", "talk to me in", "write to me in",
                "nenn mich", "nenne mich", "nenn mich nicht", "frag mich nicht", "antworte auf",
                "antworte mir auf", "sprich mit mir", "schreib mir auf", "appelle-moi", "ne m'appelle pas",
                "réponds en", "réponds-moi en", "ne me demande pas", "ne me demande plus",
                "ne me parle pas de", "parle-moi en", "llámame", "no me llames", "responde en",
                "respóndeme en", "no me preguntes", "háblame en", "chiamami", "rispondi in", "rispondimi in",
                "non chiedermi", "me chame de", "responda em", "noem me", "antwoord in",
            ],
        ),
        (
            0.7,
            &[
                "keep your answers", "keep your replies", "keep answers", "keep it short", "keep it brief",
                "be brief", "be concise", "use simple words", "use fewer words", "use bullet points",
                "i prefer it when you", "i like it when you", "i don't like it when you",
                "i want you to always", "i want you to never", "i need you to always", "fass dich kurz",
                "antworte kurz", "sois bref", "sois concis", "sé breve", "sii breve",
            ],
        ),
    ];
    Phrases::new(rows.into_iter().flat_map(|(sure, texts)| texts.iter().map(move |text| (*text, sure))))
});

/// Said for this turn only.
pub(crate) static PASSING: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "for now", "right now", "today", "tonight", "this time", "this once", "just once", "at the moment",
        "for a moment", "for the moment", "this evening", "this morning", "for this one", "this week",
        "heute", "diesmal", "dieses mal", "im moment", "gerade eben", "fürs erste", "nur jetzt", "vorerst",
        "aujourd'hui", "cette fois", "pour l'instant", "pour le moment", "ce soir", "hoy", "esta vez",
        "por ahora", "de momento", "esta noche", "oggi", "per ora", "questa volta", "hoje", "por enquanto",
        "vandaag", "deze keer", "voorlopig",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

/// Said for good, even if the sentence also sounds passing.
pub(crate) static LASTING: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "always", "never", "from now on", "every time", "in general", "generally", "usually", "in future",
        "in the future", "starting today", "immer", "nie", "niemals", "ab jetzt", "ab heute",
        "grundsätzlich", "in zukunft", "toujours", "jamais", "désormais", "à partir d'aujourd'hui",
        "siempre", "nunca", "a partir de hoy", "en general", "sempre", "d'ora in poi", "altijd", "nooit",
        "vanaf nu",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

/// Words before a statement that make it another person's, or a supposition.
pub(crate) const SUPPOSED: &[&str] = &[
    "if", "whether", "wish", "imagine", "pretend", "suppose", "says", "said", "thinks", "thought",
    "believes", "claims", "wenn", "falls", "ob", "als", "sagt", "denkt", "si", "dit", "pense", "dice",
    "cree", "se", "als", "unless", "until", "when",
];

/// Where an object ends.
pub(crate) const BREAKS: &[&str] = &[
    "and", "but", "because", "since", "when", "while", "which", "who", "that", "so", "if", "where", "or",
    "although", "though", "until", "und", "aber", "weil", "wenn", "seit", "dass", "oder", "obwohl", "wo",
    "et", "mais", "parce", "quand", "qui", "depuis", "ou", "y", "pero", "porque", "cuando", "desde", "que",
    "o", "ma", "perché", "perche", "quando", "e", "en", "maar", "omdat", "last", "next", "ago", "how",
    "what", "why", "wie", "was", "comment", "qué",
];

/// What an object does not begin with.
pub(crate) const ARTICLES: &[&str] = &[
    "a", "an", "the", "ein", "eine", "einen", "einer", "der", "die", "das", "den", "un", "une", "le", "la",
    "les", "du", "des", "una", "el", "los", "las", "il", "lo", "gli", "um", "uma", "een", "het", "de",
];

/// What an object does not end with.
pub(crate) const TRAILERS: &[&str] = &[
    "now", "too", "also", "very", "much", "so", "a", "lot", "currently", "anyway", "really", "though",
    "here", "jetzt", "auch", "sehr", "gern", "gerne", "total", "maintenant", "aussi", "beaucoup", "ahora",
    "también", "tambien", "mucho", "anche", "molto", "adesso", "please", "well", "already", "as", "at",
    "for", "in", "with", "to", "since", "years", "old",
];

/// Things that one has or is for an hour, and feelings: concerns, not facts.
pub(crate) const FLEETING: &[&str] = &[
    "question", "questions", "problem", "problems", "feeling", "feelings", "idea", "headache", "meeting",
    "appointment", "date", "plan", "cold", "doubt", "hard", "bit", "few", "point", "hunch", "minute",
    "minutes", "second", "moment", "request", "fever", "bad", "tough", "rough", "good", "great", "long",
    "big", "fan", "little", "look", "chance", "call", "exam", "test", "hours", "days", "weeks", "panic",
    "anxiety", "mess", "failure", "loser", "burden", "idiot", "person", "tired", "sad", "frage", "problem",
    "termin", "idee", "gefuhl", "gefuehl", "bitte", "schlechtes", "schlechten", "angst", "moment",
    "probleme", "rendez", "question", "idee", "peu", "mauvais", "mauvaise", "problema", "pregunta", "duda",
    "cita", "poco", "mal", "domanda", "dubbio", "myself", "mich", "life", "leben", "vie", "vida", "feel",
    "way", "sound", "hearing", "lot", "back", "queue",
];
