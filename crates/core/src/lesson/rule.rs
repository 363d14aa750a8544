//! Rules: lessons that came up often enough to be prevented from recurring. A rule is derived from its lesson, and
//! fades with it.

use std::collections::BTreeSet;

use super::{Lesson, LessonState, Polarity};
use crate::confidence::Confidence;
use crate::limits;
use crate::memory::clip;
use crate::time::Timestamp;

/// A rule, with the lesson that it is derived from.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonRule {
    pub lesson: Lesson,
    /// When it applies.
    pub when: String,
    /// What to do then.
    pub then: String,
    /// From 0 to 0.95: never certain.
    pub confidence: Confidence,
    pub weight: f64,
}

/// The weight that a rule keeps to stay one: three occurrences last two months and a half.
const WEIGHT_MIN: f64 = 0.5;

/// The rule of a lesson, if it came up in at least `occurrences_min` feedbacks of more than one person.
pub fn of(lesson: &Lesson, occurrences_min: u64, now: Timestamp) -> Option<LessonRule> {
    let weight = lesson.weight(now);
    let is_rule = lesson.state == LessonState::Active
        && lesson.polarity == Polarity::Negative
        && lesson.occurrences >= occurrences_min.max(1)
        && voices(lesson) >= occurrences_min.clamp(1, limits::RULE_VOICES)
        && weight >= WEIGHT_MIN;
    is_rule.then(|| LessonRule {
        when: when(lesson),
        then: lesson.body.text.clone(),
        confidence: Confidence::new((0.5 + 0.1 * lesson.occurrences as f64).min(0.95)),
        weight,
        lesson: lesson.clone(),
    })
}

/// The occasion of a rule that names none.
const ALWAYS: &str = "always";

/// How many people have said it: every named user counts once, and so does every feedback that names no user. In
/// local mode feedback names no user, so the one owner's repeated feedback makes rules there. Words of guests and
/// workers are not trusted and do not count.
fn voices(lesson: &Lesson) -> u64 {
    let trusted = lesson.body.sources.iter().filter(|source| source.trusted);
    let (named, nameless): (Vec<_>, Vec<_>) =
        trusted.map(|source| source.author.as_deref()).partition(Option::is_some);
    let named: BTreeSet<_> = named.into_iter().flatten().collect();
    (named.len() + nameless.len()) as u64
}

fn when(lesson: &Lesson) -> String {
    let body = &lesson.body;
    // A lesson without a subject is tagged `general`, which says nothing about when.
    let tags: Vec<&str> = body.tags.iter().map(String::as_str).filter(|tag| *tag != "general").collect();
    match (&body.action, &body.trigger) {
        (Some(action), _) => format!("about to {} {}", action.family.as_str(), clip(&action.target, 100)),
        (None, _) if !tags.is_empty() => format!("working on {}", tags.join(", ")),
        (None, Some(trigger)) => format!("about to say or do something like: {}", clip(trigger, 100)),
        (None, None) => ALWAYS.to_owned(),
    }
}

/// The rules as a page of Markdown.
pub fn page(rules: &[LessonRule]) -> String {
    if rules.is_empty() {
        return "# Rules\n\nNone yet: a rule is made when the same thing came up several times.\n".to_owned();
    }
    let mut page = "# Rules\n\n".to_owned();
    for rule in rules {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let occasion = match rule.when.as_str() {
            ALWAYS => "Always:".to_owned(),
            when => format!("IF {} THEN", line(when)),
        };
        page.push_str(&format!(
            "- {occasion} {} ({}×, {:.2}; {})\n",
            line(&rule.then),
            rule.lesson.occurrences,
            rule.confidence.value(),
            rule.lesson.id
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::said_by;
    use super::super::{Action, ActionFamily, LessonTouch};
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(0);

    #[test]
    fn one_member_alone_makes_no_rule_however_often_they_say_it() {
        let table: [(&[Option<&str>], bool); 5] = [
            (&[Some("ann"), Some("ann"), Some("ann")], false),
            (&[Some("ann"), Some("ann"), Some("bob")], true),
            (&[Some("ann"), Some("bob")], false),
            // Without named users, as in local mode, every feedback counts.
            (&[None, None, None], true),
            (&[Some("ann"), Some("ann"), None], true),
        ];
        for (authors, is_rule) in table {
            assert_eq!(of(&said_by("x", authors), 3, NOW).is_some(), is_rule, "{authors:?}");
        }
        let mut with_guest = said_by("x", &[Some("ann"), Some("ann"), Some("guest")]);
        with_guest.body.sources[2].trusted = false;
        assert!(of(&with_guest, 3, NOW).is_none(), "a guest's word counts for nobody");
        assert!(of(&said_by("x", &[Some("ann")]), 1, NOW).is_some(), "whoever asks for less is told of less");
    }

    #[test]
    fn three_occurrences_make_a_rule_while_they_are_fresh() {
        let mut one = said_by("Run the package manager instead", &[Some("ann"), Some("bob")]);
        for (occurrences, days, is_rule) in
            [(2, 0, false), (3, 0, true), (3, 77, true), (3, 78, false), (8, 119, true)]
        {
            one.occurrences = occurrences;
            let now = NOW.plus(Duration::from_secs(days * 24 * 3600));
            assert_eq!(of(&one, 3, now).is_some(), is_rule, "{occurrences} after {days}");
        }
        assert!(of(&one, 9, NOW).is_none());
        one.body.accepted = Some(LessonTouch { by: None, at: NOW });
        assert!(of(&one, 3, NOW.plus(Duration::from_secs(400 * 24 * 3600))).is_some());
    }

    #[test]
    fn only_active_lessons_of_what_to_avoid_are_rules() {
        let mut one = said_by("x", &[Some("ann"), Some("bob"), Some("cy")]);
        for (state, polarity, is_rule) in [
            (LessonState::Active, Polarity::Negative, true),
            (LessonState::Active, Polarity::Positive, false),
            (LessonState::Proposed, Polarity::Negative, false),
            (LessonState::Retired, Polarity::Negative, false),
        ] {
            (one.state, one.polarity) = (state, polarity);
            assert_eq!(of(&one, 3, NOW).is_some(), is_rule);
        }
    }

    #[test]
    fn a_rule_says_when_and_what_on_one_line_and_is_never_sure() {
        let mut one = said_by("Run\nthe tests", &[Some("ann"), Some("bob")]);
        one.occurrences = 9;
        one.body.action = Some(Action { family: ActionFamily::Deploy, target: "the site".into() });
        let rule = of(&one, 3, NOW).unwrap();
        assert_eq!(rule.confidence, Confidence::new(0.95));
        assert_eq!(
            page(&[rule]).lines().last().unwrap(),
            format!("- IF about to deploy the site THEN Run the tests (9×, 0.95; {})", one.id)
        );
        one.body.action = None;
        assert_eq!(of(&one, 3, NOW).unwrap().when, "working on git");
        one.body.tags = vec!["general".to_owned()];
        one.body.trigger = None;
        let rule = of(&one, 3, NOW).unwrap();
        assert_eq!(rule.when, "always");
        assert!(page(&[rule]).contains("- Always: Run the tests ("), "no occasion is made up");
        one.body.tags.clear();
        assert_eq!(of(&one, 3, NOW).unwrap().when, "always");
    }
}
