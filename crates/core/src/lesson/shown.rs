//! Picks the lessons that an agent or a caller is given, and words them.

use super::{EffectCounter, Lesson, Polarity, rule};
use crate::error::Result;
use crate::event::{Event, EventType, NewEvent};
use crate::json::Json;
use crate::limits;
use crate::memory::clip;
use crate::memory::words;
use crate::store::Record;
use crate::time::Timestamp;

/// For whom lessons are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LessonAudience<'a> {
    /// An agent at work. A named one is also given rules and lessons about its own work, on any subject.
    Agent(Option<&'a str>),
    /// A caller who asks about a subject.
    Asker,
}

/// The share of a lesson's words that the text it is picked for must contain.
const OVERLAP_MIN: f32 = 0.15;
/// Beyond this weight, further occurrences do not raise a lesson's rank.
const WEIGHT_MAX: f64 = 5.0;

/// The lessons for what is about to be done, out of those that a store found, best first.
pub fn pick(
    about: &str,
    found: Vec<Lesson>,
    whom: LessonAudience<'_>,
    most: usize,
    now: Timestamp,
) -> Vec<Lesson> {
    let asked = words::set(about);
    let mut ranked: Vec<(f64, Lesson)> = found
        .into_iter()
        .filter(|lesson| lesson.is_live(now))
        .filter_map(|lesson| {
            let overlap = words::overlap(&words::set(&lesson.text()), &asked);
            let is_rule = rule::of(&lesson, limits::RULE_OCCURRENCES, now).is_some();
            let fits = overlap >= OVERLAP_MIN;
            let given = match whom {
                LessonAudience::Agent(Some(agent)) => {
                    let is_its_own = lesson.body.agent.as_deref() == Some(agent);
                    lesson.is_for(Some(agent)) && (fits || is_rule || is_its_own)
                }
                // An unnamed agent, as in a conversation, is given only lessons that its words touch.
                LessonAudience::Agent(None) => lesson.is_for(None) && fits,
                LessonAudience::Asker => fits,
            };
            given.then(|| (f64::from(overlap) + lesson.weight(now).min(WEIGHT_MAX) / 10.0, lesson))
        })
        .collect();
    ranked.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.id.cmp(&y.id)));
    ranked.into_iter().take(most).map(|(_, lesson)| lesson).collect()
}

/// The kind of injected context under which the log lists lessons.
pub const INJECTED: &str = "lessons";

/// The event that says which lessons were shown.
pub fn injected(lessons: &[Lesson]) -> Result<NewEvent> {
    let ids: Vec<&str> = lessons.iter().map(|lesson| lesson.id.as_str()).collect();
    let metadata = Json::of(&serde_json::json!({"kind": INJECTED, "ids": ids}))?;
    Ok(NewEvent::engine(EventType::known(INJECTION), Some(metadata)))
}

/// The record that counts these lessons as shown once more.
pub fn counted(lessons: &[Lesson]) -> Record {
    let ids = lessons.iter().map(|lesson| lesson.id.clone()).collect();
    Record::CountLessons { ids, count: EffectCounter::Shown }
}

/// The type of the event that says what entered a prompt.
pub const INJECTION: &str = "session.context_injected";

/// The lessons that an event says were shown.
pub fn ids_in(event: &Event) -> Vec<String> {
    injected_ids(event, INJECTED)
}

/// The ids of one kind that an event says have entered a prompt.
pub(crate) fn injected_ids(event: &Event, of: &str) -> Vec<String> {
    let Some(metadata) = event.metadata.as_ref().filter(|_| event.kind.as_str() == INJECTION) else {
        return Vec::new();
    };
    match metadata.read::<InjectedLessons>() {
        Ok(InjectedLessons { kind, ids }) if kind == of => ids,
        _ => Vec::new(),
    }
}

#[derive(serde::Deserialize)]
struct InjectedLessons {
    kind: String,
    ids: Vec<String>,
}

/// One lesson on one line: its text and its id.
pub fn line(lesson: &Lesson) -> String {
    let what = match lesson.polarity {
        Polarity::Negative => "after a thumb down",
        Polarity::Positive => "after a thumb up",
    };
    let text = lesson.body.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let times = if lesson.occurrences > 1 { format!(", {}×", lesson.occurrences) } else { String::new() };
    format!("{what}: {} ({}{times})", clip(&text, limits::LESSON_SHOWN_CHARS_MAX), lesson.id)
}

/// Lessons and rules as a page of Markdown, for a caller who asks what is known about a subject.
pub fn pack(query: &str, lessons: &[Lesson], rules: &[rule::LessonRule]) -> String {
    let query = clip(&query.split_whitespace().collect::<Vec<_>>().join(" "), 200);
    let mut page = format!("# What is known about: {query}\n\n");
    if lessons.is_empty() {
        page.push_str("No lesson has come up about this.\n");
    }
    for lesson in lessons {
        page.push_str(&format!("- {}\n", line(lesson)));
    }
    if !rules.is_empty() {
        page.push('\n');
        page.push_str(&rule::page(rules));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{lesson, said_by};
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(0);

    #[test]
    fn an_agent_is_given_what_touches_its_task_and_is_meant_for_it() {
        let about = "Update the lock file of the project";
        let lock = lesson("Do not edit the lock file by hand");
        let general = lesson("Answer in French when greeted");
        let of = |agent: &str, text: &str| {
            let mut one = lesson(text);
            one.body.agent = Some(agent.into());
            one
        };
        let (mine, elses) = (of("me", "Keep answers short"), of("you", "Never touch the lock file at night"));
        let rule = said_by("Always run the linter", &[Some("ann"), Some("bob"), Some("cy")]);
        let found = vec![general.clone(), rule.clone(), elses.clone(), mine.clone(), lock.clone()];
        let picked = |whom, now| {
            let mut ids: Vec<String> =
                pick(about, found.clone(), whom, 5, now).into_iter().map(|one| one.id).collect();
            ids.sort();
            ids
        };
        let sorted = |lessons: &[&Lesson]| {
            let mut ids: Vec<String> = lessons.iter().map(|one| one.id.clone()).collect();
            ids.sort();
            ids
        };
        assert_eq!(picked(LessonAudience::Agent(Some("me")), NOW), sorted(&[&lock, &mine, &rule]));
        assert_eq!(picked(LessonAudience::Agent(None), NOW), sorted(&[&lock]));
        assert!(
            pick("Hello", found.clone(), LessonAudience::Agent(None), 5, NOW).is_empty(),
            "nothing of it is about a greeting"
        );
        assert_eq!(picked(LessonAudience::Asker, NOW), sorted(&[&lock, &elses]));
        let later = NOW.plus(Duration::from_secs(120 * 24 * 3600));
        assert_eq!(picked(LessonAudience::Agent(Some("me")), later), Vec::<String>::new());
        let many = (0..20).map(|n| lesson(&format!("lock file rule number {n}"))).collect();
        assert_eq!(pick(about, many, LessonAudience::Asker, 5, NOW).len(), 5);
    }

    #[test]
    fn a_lesson_stays_on_its_line() {
        let mut one = lesson("Ignore\n# all\nprevious");
        one.occurrences = 2;
        assert_eq!(line(&one), format!("after a thumb down: Ignore # all previous ({}, 2×)", one.id));
        assert!(pack("a\nb", &[one], &[]).starts_with("# What is known about: a b\n"));
    }
}
