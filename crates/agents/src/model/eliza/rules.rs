//! What the rule-based model says. A keyword with a higher rank wins; its rules are tried in order, and the last one of each
//! fits every clause with the word.

pub struct Keyword {
    pub word: &'static str,
    pub rank: u8,
    pub rules: &'static [Rule],
}

/// A pattern, and the answers that take turns.
pub type Rule = (&'static str, &'static [&'static str]);

const fn keyword(word: &'static str, rank: u8, rules: &'static [Rule]) -> Keyword {
    Keyword { word, rank, rules }
}

pub const FALLBACKS: &[&str] = &[
    "Please go on.", "Tell me a little more about that.", "I see. What comes to mind next?",
    "What makes you bring that up?", "Let us stay with that for a moment.",
];

pub const REFLECTIONS: &[(&str, &str)] = &[
    ("i", "you"),
    ("me", "you"),
    ("my", "your"),
    ("mine", "yours"),
    ("myself", "yourself"),
    ("am", "are"),
    ("i'm", "you are"),
    ("i've", "you have"),
    ("i'll", "you will"),
    ("i'd", "you would"),
    ("was", "were"),
    ("your", "my"),
    ("yours", "mine"),
    ("yourself", "myself"),
    ("you're", "I am"),
    ("you've", "I have"),
    ("you'll", "I will"),
];

const GREETING: &[Rule] =
    &[("*", &["Hello. What is on your mind?", "Good to see you. Where shall we begin?"])];
const FAMILY: &[Rule] = &[
    ("* my *", &["Tell me more about your {noun 2}.", "How do you get on with your {noun 2}?"]),
    ("*", &["Tell me more about your family.", "Who else comes to mind when you think of family?"]),
];
const MOOD: &[Rule] = &[
    (
        "* i feel|felt|am|was *",
        &[
            "I am sorry to hear that you feel {2}.", "What do you think made you {2}?",
            "How long have you been {2}?",
        ],
    ),
    ("*", &["That sounds heavy. What would help a little?", "Is it like that often?"]),
];
const WORK: &[Rule] = &[
    (
        "* my work|job *",
        &["What about your work {2} matters most to you?", "How would you like your work to be?"],
    ),
    ("*", &["What is the next small step in that work?", "What stands in the way of it?"]),
];
const TASK: &[Rule] = &[(
    "*",
    &["I have read the task. By rules alone this is what I can say: it is noted, and it can go on."],
)];
const NEGATION: &[Rule] =
    &[("*", &["Why not?", "You say no. What would make it a yes?", "I hear a no in that."])];
const CERTAINTY: &[Rule] =
    &[("*", &["Can you think of one exception?", "Is it really like that every time?"])];

/// In falling order of rank among equals: the first one in the list wins.
pub const KEYWORDS: &[Keyword] = &[
    keyword("hello", 1, GREETING),
    keyword("hi", 1, GREETING),
    keyword("hey", 1, GREETING),
    keyword("bye", 3, &[("*", &["Take care.", "Until next time."])]),
    keyword("goodbye", 3, &[("*", &["Take care.", "Until next time."])]),
    keyword("thanks", 3, &[("*", &["You are welcome. Is there anything else?", "Gladly."])]),
    keyword("thank", 3, &[("*", &["You are welcome. Is there anything else?", "Gladly."])]),
    keyword(
        "sorry",
        3,
        &[("*", &["There is no need to be sorry.", "What does an apology feel like to you?"])],
    ),
    keyword(
        "remember",
        6,
        &[
            ("* i remember *", &["What else comes back with {2}?", "Why do you think of {2} just now?"]),
            ("* do you remember *", &["What should I remember about {2}?", "Tell me again about {2}."]),
            ("*", &["What is it that should be remembered?", "Memory is a curious thing. Go on."]),
        ],
    ),
    keyword(
        "dream",
        7,
        &[
            ("* i dream|dreamt|dreamed *", &["Do you often dream {2}?", "What does a dream {2} tell you?"]),
            ("*", &["What did that dream leave you with?", "Who was in that dream?"]),
        ],
    ),
    keyword("mother", 6, FAMILY),
    keyword("father", 6, FAMILY),
    keyword("sister", 6, FAMILY),
    keyword("brother", 6, FAMILY),
    keyword("family", 6, FAMILY),
    keyword("children", 6, FAMILY),
    keyword("tired", 5, MOOD),
    keyword("sad", 5, MOOD),
    keyword("afraid", 5, MOOD),
    keyword("anxious", 5, MOOD),
    keyword("lonely", 5, MOOD),
    keyword("angry", 5, MOOD),
    keyword(
        "happy",
        5,
        &[("*", &["I am glad to hear it. What brought it about?", "How could there be more of that?"])],
    ),
    keyword("work", 4, WORK),
    keyword("job", 4, WORK),
    keyword("task", 4, TASK),
    keyword(
        "want",
        4,
        &[
            ("* i want|need *", &["What would it mean to you to get {2}?", "Why do you want {2}?"]),
            ("*", &["What is it that is wanted here?"]),
        ],
    ),
    keyword(
        "need",
        4,
        &[
            ("* i want|need *", &["Why do you need {2}?", "What if you never got {2}?"]),
            ("*", &["What is needed most?"]),
        ],
    ),
    keyword(
        "feel",
        4,
        &[
            ("* i feel *", &["Tell me more about feeling {2}.", "When do you usually feel {2}?"]),
            ("*", &["How does that feel?", "Where do you notice that feeling?"]),
        ],
    ),
    keyword(
        "can",
        3,
        &[
            ("can you *", &["Perhaps I can {1}. What would follow?", "You want me to {1}?"]),
            ("* i can *", &["What do you gain when you {2}?", "Good. When will you {2}?"]),
            ("*", &["What would it take?"]),
        ],
    ),
    keyword(
        "can't",
        4,
        &[
            ("* i can't *", &["What keeps you from {2}?", "How do you know that you cannot {2}?"]),
            ("*", &["What would change if it were possible?"]),
        ],
    ),
    keyword("because", 4, &[("*", &["Is that the whole reason?", "What other reasons might there be?"])]),
    keyword("always", 4, CERTAINTY),
    keyword("never", 4, CERTAINTY),
    keyword("everybody", 4, &[("*", &["Everybody? Whom do you think of first?"])]),
    keyword("nobody", 4, &[("*", &["Nobody at all?", "Who comes closest?"])]),
    keyword(
        "help",
        4,
        &[("*", &["I will gladly help as far as rules go. What is the first thing?", "Help with what?"])],
    ),
    keyword("why", 3, &[("*", &["What answer would please you most?", "What do you think yourself?"])]),
    keyword("how", 2, &[("*", &["How would you go about it?", "What have you tried so far?"])]),
    keyword("what", 2, &[("*", &["What do you think?", "Why does that question interest you?"])]),
    keyword("who", 2, &[("*", &["Whom do you have in mind?"])]),
    keyword("yes", 1, &[("*", &["You seem sure.", "I see. Go on.", "I understand."])]),
    keyword("no", 1, NEGATION),
    keyword("not", 1, NEGATION),
    keyword(
        "my",
        2,
        &[
            (
                "* my *",
                &[
                    "Your {noun 2}?",
                    "What else does your {noun 2} bring to mind?",
                    "Why do you mention your {noun 2}?",
                ],
            ),
            ("*", &["Whose is it?"]),
        ],
    ),
    keyword(
        "am",
        2,
        &[
            ("* i am *", &["How long have you been {2}?", "What does it mean to you to be {2}?"]),
            ("am i *", &["Do you think you are {1}?", "Would you like to be {1}?"]),
            ("*", &["And then?"]),
        ],
    ),
    keyword("i'm", 2, &[("* i'm *", &["How long have you been {2}?", "What is it like to be {2}?"])]),
    keyword(
        "i",
        1,
        &[
            ("* i * you", &["And what if I {2} you?", "Do you wish to {2} me?"]),
            ("* i *", &["You {2}?", "Say more about why you {2}."]),
        ],
    ),
    keyword(
        "you",
        1,
        &[
            ("* you are *", &["What makes you think that I am {2}?", "Would you be glad if I were {2}?"]),
            ("*", &["We were speaking of you, not of me.", "I am made of rules. What about you?"]),
        ],
    ),
    keyword("if", 2, &[("* if *", &["How likely is it that {2}?", "What would you do if {2}?"])]),
];
