//! Guided exercises that need no model: a few steps each, one per turn, resumed where they were left. The step
//! and the approach chosen at the start live in the state; a new sitting begins without them.

use serde::{Deserialize, Serialize};

/// An exercise in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExerciseProgress {
    pub exercise: String,
    /// The last step that was given, from 0.
    pub step: usize,
    pub approach: String,
}

/// What the guidance says now, and its state afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guidance {
    pub text: &'static str,
    /// `None` when it is over.
    pub ongoing: Option<ExerciseProgress>,
}

struct Exercise {
    name: &'static str,
    approach: &'static str,
    /// Words that ask for it.
    asked_by: &'static [&'static str],
    steps: &'static [&'static str],
}

const EXERCISES: &[Exercise] = &[
    Exercise {
        name: "grounding",
        approach: "grounding",
        asked_by: &["grounding", "ground me", "5-4-3-2-1", "54321"],
        steps: &[
            "Let's ground ourselves. Look around and name five things that you can see.",
            "Good. Now four things that you can feel: the chair, your clothes, the air on your skin.",
            "Now three things that you can hear, near or far.",
            "Two things that you can smell, or two smells that you like.",
            "And one thing that you can taste. Take your time.",
            "That was the whole round. Notice how you are sitting here now. How do you feel?",
        ],
    },
    Exercise {
        name: "breathing",
        approach: "breathing",
        asked_by: &["breathing", "breathe with me", "box breathing"],
        steps: &[
            "Let's breathe together. Sit comfortably and let your shoulders drop. Say something when you are ready.",
            "Breathe in through your nose and count to four. Hold it and count to four.",
            "Breathe out slowly and count to four. Wait, and count to four again. How was that?",
            "Once more in your own time: in for four, hold for four, out for four, wait for four.",
            "Let your breath go as it likes now. What has changed?",
        ],
    },
];

/// Words that ask to do something rather than talk about it.
const WISHES: &[&str] =
    &["exercise", "can we", "could we", "let's", "lets", "do a", "try", "guide me", "start", "please"];
const STOPS: &[&str] = &["stop", "enough", "cancel", "no more", "quit", "not now"];

/// The guidance that a message asks for, given the exercise in progress.
pub fn guide(text: &str, ongoing: Option<&ExerciseProgress>) -> Option<Guidance> {
    let text = text.to_lowercase();
    let said = |phrase: &&str| contains_words(&text, phrase);
    if let Some(ongoing) = ongoing
        && let Some(exercise) = EXERCISES.iter().find(|exercise| exercise.name == ongoing.exercise)
    {
        if STOPS.iter().any(said) {
            let text = "We can leave it there. What would help you now?";
            return Some(Guidance { text, ongoing: None });
        }
        let step = ongoing.step + 1;
        let text = exercise.steps.get(step)?;
        let more = step + 1 < exercise.steps.len();
        let ongoing = more.then(|| ExerciseProgress { step, ..ongoing.clone() });
        return Some(Guidance { text, ongoing });
    }
    let asked = EXERCISES.iter().find(|exercise| exercise.asked_by.iter().any(said))?;
    if !WISHES.iter().any(said) {
        return None;
    }
    let ongoing =
        ExerciseProgress { exercise: asked.name.to_owned(), step: 0, approach: asked.approach.to_owned() };
    Some(Guidance { text: asked.steps[0], ongoing: Some(ongoing) })
}

/// Words of goodbye. They end nothing: they only suggest that the sitting may be ended.
const FAREWELLS: &[&str] = &[
    "bye", "goodbye", "good bye", "good night", "see you", "talk to you later", "that's all for today",
    "gotta go", "got to go", "have to go", "tschüss", "auf wiedersehen", "gute nacht", "bis bald",
    "au revoir", "bonne nuit", "à bientôt", "adiós", "hasta luego", "buenas noches", "arrivederci",
    "buona notte", "tot ziens",
];

/// Whether a message sounds like a goodbye.
pub fn is_farewell(text: &str) -> bool {
    let text = text.to_lowercase();
    let short = text.split_whitespace().count() <= 12;
    short && FAREWELLS.iter().any(|phrase| contains_words(&text, phrase))
}

/// Whether a text contains a phrase as whole words. Both are lower-case.
fn contains_words(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exercise_starts_when_it_is_asked_for_and_not_when_it_is_mentioned() {
        for (text, starts) in [
            ("Can we do a grounding exercise?", Some("grounding")),
            ("please guide me through box breathing", Some("breathing")),
            ("Let's try 5-4-3-2-1", Some("grounding")),
            ("My therapist talked about grounding", None),
            ("I have trouble breathing", None),
            ("Hello", None),
        ] {
            let found =
                guide(text, None).and_then(|guidance| guidance.ongoing).map(|ongoing| ongoing.exercise);
            assert_eq!(found.as_deref(), starts, "{text}");
        }
    }

    #[test]
    fn it_goes_on_step_by_step_to_its_end() {
        for exercise in EXERCISES {
            let mut said = Vec::new();
            let ask = format!("can we do {}", exercise.asked_by[0]);
            let mut guidance = guide(&ask, None).unwrap();
            loop {
                said.push(guidance.text);
                let Some(ongoing) = &guidance.ongoing else { break };
                guidance = guide("a lamp and a book", Some(ongoing)).unwrap();
            }
            assert_eq!(said, exercise.steps, "{}", exercise.name);
        }
    }

    #[test]
    fn it_stops_when_somebody_has_had_enough() {
        let ongoing = guide("let's do grounding", None).unwrap().ongoing.unwrap();
        assert_eq!(guide("Stop, please.", Some(&ongoing)).unwrap().ongoing, None);
        let unknown = ExerciseProgress { exercise: "yoga".into(), ..ongoing };
        assert_eq!(guide("a lamp", Some(&unknown)), None);
    }

    #[test]
    fn goodbyes_are_heard_in_several_languages_and_in_no_long_story() {
        for text in
            ["Bye!", "ok, good night", "Auf Wiedersehen", "Au revoir", "hasta luego", "I have to go now"]
        {
            assert!(is_farewell(text), "{text}");
        }
        for text in [
            "bystander",
            "hello",
            "When she said goodbye to me at the station that evening I could not stop thinking about it",
        ] {
            assert!(!is_farewell(text), "{text}");
        }
    }
}
