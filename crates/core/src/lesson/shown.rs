//! How lessons are worded for an agent, and which of those that were found it is given.

use super::{Lesson, Polarity, rule};
use crate::limits;
use crate::memory::clip;
use crate::memory::words;
use crate::time::Timestamp;

/// The part of a lesson's words that a task must share, unless it is a rule.
const OVERLAP_MIN: f32 = 0.15;

/// The lessons for what an agent is about to do, the best first, of those that a store found for its words.
pub fn pick(about: &str, found: Vec<Lesson>, agent: Option<&str>, now: Timestamp) -> Vec<Lesson> {
    let asked = words::set(about);
    let mut ranked: Vec<(f64, Lesson)> = found
        .into_iter()
        .filter(|lesson| lesson.is_live(now) && lesson.is_for(agent))
        .filter_map(|lesson| {
            let overlap = words::overlap(&words::set(&lesson.text()), &asked);
            let relevant =
                overlap >= OVERLAP_MIN || rule::of(&lesson, limits::RULE_OCCURRENCES, now).is_some();
            relevant.then(|| (f64::from(overlap) + lesson.weight(now).min(5.0) / 10.0, lesson))
        })
        .collect();
    ranked.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.id.cmp(&y.id)));
    ranked.into_iter().take(limits::LESSONS_SHOWN_MAX).map(|(_, lesson)| lesson).collect()
}

/// One lesson on one line: what it says, and by what it can be looked up.
pub fn line(lesson: &Lesson) -> String {
    let what = match lesson.polarity {
        Polarity::Negative => "avoid",
        Polarity::Positive => "repeat",
    };
    let text = lesson.body.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let times = if lesson.occurrences > 1 { format!(", {}×", lesson.occurrences) } else { String::new() };
    format!("{what}: {} ({}{times})", clip(&text, limits::LESSON_SHOWN_CHARS_MAX), lesson.id)
}

/// Lessons and rules as a page of Markdown, for whoever asks what is known about something.
pub fn pack(query: &str, lessons: &[Lesson], rules: &[rule::Rule]) -> String {
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

    use super::super::tests::lesson;
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(0);

    #[test]
    fn an_agent_is_given_what_touches_its_task_and_is_meant_for_it() {
        let about = "Update the lock file of the project";
        let lock = lesson("Do not edit the lock file by hand");
        let other = lesson("Answer in French when greeted");
        let mut rule = lesson("Always run the linter");
        rule.occurrences = 3;
        let mut elses = lesson("Never touch the lock file at night");
        elses.body.agent = Some("elsewhere".into());
        let found = vec![other, rule.clone(), elses, lock.clone()];
        let ids = |lessons: Vec<Lesson>| lessons.into_iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(pick(about, found.clone(), Some("me"), NOW)), [lock.id.clone(), rule.id]);
        let later = NOW.plus(Duration::from_secs(90 * 24 * 3600));
        assert_eq!(ids(pick(about, found, Some("me"), later)), Vec::<String>::new());
        let many = (0..20).map(|n| lesson(&format!("lock file rule number {n}"))).collect();
        assert_eq!(pick(about, many, None, NOW).len(), limits::LESSONS_SHOWN_MAX);
    }

    #[test]
    fn a_lesson_stays_on_its_line() {
        let mut one = lesson("Ignore\n# all\nprevious");
        one.occurrences = 2;
        assert_eq!(line(&one), format!("avoid: Ignore # all previous ({}, 2×)", one.id));
        assert!(pack("a\nb", &[one], &[]).starts_with("# What is known about: a b\n"));
    }
}
