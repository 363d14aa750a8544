//! Feedback statistics: rates, windows, trends, the best and worst tags and skills, and recommendations.

use crate::feedback::RatingCounts;
use crate::feedback::capture::{FeedbackEvent, Signal};
use crate::memory::clip;
use crate::safety::codes::codes;

/// Thumbs up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThumbTotals {
    pub up: u64,
    pub down: u64,
}

impl ThumbTotals {
    pub fn total(self) -> u64 {
        self.up + self.down
    }

    /// The share of thumbs up, to three places; `None` without thumbs.
    pub fn rate(self) -> Option<f64> {
        (self.total() > 0).then(|| (self.up as f64 / self.total() as f64 * 1000.0).round() / 1000.0)
    }
}

/// The counts that a store returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub lifetime: ThumbTotals,
    pub days_7: ThumbTotals,
    pub days_30: ThumbTotals,
    /// Most frequent first.
    pub tags: Vec<(String, ThumbTotals)>,
    pub skills: Vec<(String, ThumbTotals)>,
    /// Failures of all runs; zero in a tally of one user's feedback.
    pub failures: Failures,
}

/// Failed runs. They are no opinions, and count for no rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    pub lifetime: u64,
    pub days_7: u64,
    pub days_30: u64,
    /// Most frequent first.
    pub codes: Vec<(String, u64)>,
}

codes!(Trend { Improving = "improving", Declining = "declining", Stable = "stable", Unknown = "unknown" });

/// The statistics as people read them.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    pub tally: Tally,
    /// Counts of the newest [`RECENT`] thumbs.
    pub recent: ThumbTotals,
    pub trend: Trend,
    pub recommendations: Vec<Recommendation>,
    /// Ratings of sittings, counted apart from the thumbs.
    pub ratings: RatingCounts,
}

/// Advice about a tag or skill that does badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// `tag` or `skill`.
    pub about: &'static str,
    pub name: String,
    pub counts: ThumbTotals,
    pub advice: String,
}

/// How many of the newest thumbs are "recent".
pub const RECENT: usize = 20;
/// A smaller change counts as stable.
const TREND_MIN: f64 = 0.05;
/// Fewer thumbs give no recommendation.
const ADVICE_THUMBS_MIN: u64 = 3;
const ADVICE_MAX: usize = 5;

pub fn stats(tally: Tally, ratings: RatingCounts, newest: &[FeedbackEvent]) -> Stats {
    let mut recent = ThumbTotals::default();
    for event in newest.iter().take(RECENT) {
        match event.signal {
            Signal::Up => recent.up += 1,
            Signal::Down => recent.down += 1,
        }
    }
    let trend = match (tally.lifetime.rate(), recent.rate()) {
        (Some(all), Some(now)) if now - all >= TREND_MIN => Trend::Improving,
        (Some(all), Some(now)) if all - now >= TREND_MIN => Trend::Declining,
        (Some(_), Some(_)) => Trend::Stable,
        _ => Trend::Unknown,
    };
    let named = |about: &'static str, list: &[(String, ThumbTotals)]| {
        list.iter()
            .filter(|(_, counts)| counts.total() >= ADVICE_THUMBS_MIN && counts.down > counts.up)
            .map(|(name, counts)| Recommendation {
                about,
                name: name.clone(),
                counts: *counts,
                advice: format!(
                    "{} of {} thumbs on the {about} `{name}` are down: read its lessons and change the instructions",
                    counts.down,
                    counts.total()
                ),
            })
            .collect::<Vec<_>>()
    };
    let mut recommendations = named("skill", &tally.skills);
    recommendations.extend(named("tag", &tally.tags));
    recommendations.truncate(ADVICE_MAX);
    Stats { tally, recent, trend, recommendations, ratings }
}

/// The newest thumbs as a page of Markdown.
pub fn summary(stats: &Stats, newest: &[FeedbackEvent]) -> String {
    let rate = |counts: ThumbTotals| match counts.rate() {
        Some(rate) => format!("{} up, {} down ({:.0} % up)", counts.up, counts.down, rate * 100.0),
        None => "none".to_owned(),
    };
    let mut page = format!(
        "# Feedback\n\n- In all: {}\n- 30 days: {}\n- 7 days: {}\n- Newest {}: {}, {}\n",
        rate(stats.tally.lifetime),
        rate(stats.tally.days_30),
        rate(stats.tally.days_7),
        stats.recent.total(),
        rate(stats.recent),
        stats.trend.as_str(),
    );
    let failures = &stats.tally.failures;
    if failures.lifetime > 0 {
        let codes: Vec<String> =
            failures.codes.iter().map(|(code, count)| format!("{} {count}", one_line(code))).collect();
        page.push_str(&format!(
            "- Failed runs: {} in all, {} in 30 days, {} in 7 days ({})\n",
            failures.lifetime,
            failures.days_30,
            failures.days_7,
            codes.join(", ")
        ));
    }
    for advice in &stats.recommendations {
        page.push_str(&format!("- {}\n", one_line(&advice.advice)));
    }
    if !newest.is_empty() {
        page.push_str("\n## Newest\n\n");
    }
    for event in newest {
        let words = &event.body.words;
        let said = [&words.what_to_change, &words.what_went_wrong, &words.what_worked, &words.context];
        let said =
            said.into_iter().flatten().next().map_or_else(|| "(no words)".to_owned(), |text| one_line(text));
        let tags = if event.body.tags.is_empty() {
            String::new()
        } else {
            format!(" [{}]", event.body.tags.join(", "))
        };
        page.push_str(&format!("- {} {}: {said}{tags}\n", event.at, event.signal.as_str()));
    }
    page
}

/// A text on one line, so that it cannot begin a line of its own in Markdown.
fn one_line(text: &str) -> String {
    clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::capture::{EventBody, FeedbackText, Guardrails};
    use crate::time::Timestamp;

    fn event(signal: Signal, context: &str) -> FeedbackEvent {
        FeedbackEvent {
            id: "fb_0".into(),
            at: Timestamp::from_micros(0),
            signal,
            author: None,
            session: None,
            body: EventBody {
                words: FeedbackText { context: Some(context.into()), ..FeedbackText::default() },
                tags: vec!["git".into()],
                skill: None,
                failure_type: None,
                related: None,
                history: Vec::new(),
                rubric: Vec::new(),
                guardrails: Guardrails::default(),
                sequences: Vec::new(),
                agent: None,
                trusted: true,
                vague: false,
                failure: None,
            },
        }
    }

    #[test]
    fn rates_have_three_places_and_the_trend_is_that_of_the_newest() {
        let table = [
            ((1, 2), Signal::Up, Some(0.333), Trend::Improving),
            ((2, 1), Signal::Down, Some(0.667), Trend::Declining),
            ((1, 0), Signal::Up, Some(1.0), Trend::Stable),
            ((0, 0), Signal::Up, None, Trend::Unknown),
        ];
        for ((up, down), newest, rate, trend) in table {
            let tally = Tally { lifetime: ThumbTotals { up, down }, ..Tally::default() };
            assert_eq!(tally.lifetime.rate(), rate);
            assert_eq!(
                stats(tally, RatingCounts::default(), &[event(newest, "x")]).trend,
                trend,
                "{up} {down}"
            );
        }
    }

    #[test]
    fn failed_runs_have_a_line_of_their_own_and_move_no_rate() {
        let failures =
            Failures { lifetime: 3, days_7: 1, days_30: 2, codes: vec![("a\nb".into(), 2), ("c".into(), 1)] };
        let tally = Tally { lifetime: ThumbTotals { up: 1, down: 0 }, failures, ..Tally::default() };
        let page = summary(&stats(tally, RatingCounts::default(), &[]), &[]);
        assert!(page.contains("- In all: 1 up, 0 down (100 % up)\n"), "{page}");
        assert!(page.contains("- Failed runs: 3 in all, 2 in 30 days, 1 in 7 days (a b 2, c 1)\n"), "{page}");
        assert!(!summary(&stats(Tally::default(), RatingCounts::default(), &[]), &[]).contains("Failed"));
    }

    #[test]
    fn what_goes_badly_often_enough_is_named_with_advice() {
        let counts = |up, down| ThumbTotals { up, down };
        let tags =
            vec![("git".into(), counts(1, 3)), ("css".into(), counts(0, 2)), ("sql".into(), counts(2, 2))];
        let stats = stats(Tally { tags, ..Tally::default() }, RatingCounts::default(), &[]);
        let named: Vec<&str> = stats.recommendations.iter().map(|advice| advice.name.as_str()).collect();
        assert_eq!(named, ["git"]);
    }

    #[test]
    fn a_summary_keeps_each_thumb_on_its_line() {
        let newest = [event(Signal::Down, "a\n# b\n- c")];
        let page = summary(&stats(Tally::default(), RatingCounts::default(), &newest), &newest);
        assert!(page.ends_with("down: a # b - c [git]\n"), "{page}");
    }
}
