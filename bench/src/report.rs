//! The table: one row per measure, printed as it is taken and written into docs/BENCHMARKS.md at the end.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::probe::{self, Probe};

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub measure: String,
    pub ours: String,
    pub theirs: String,
    pub ratio: Option<f64>,
    pub bar: String,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Miss,
    /// For orientation beside a measure: nothing is promised.
    Beside,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        if holds { Self::Pass } else { Self::Miss }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Miss => "**miss**",
            Self::Beside => "–",
        }
    }
}

impl Row {
    /// Our rate must be at least `bar` times theirs.
    pub fn at_least(measure: impl Into<String>, ours: f64, theirs: f64, unit: &str, bar: f64) -> Self {
        let ratio = ours / theirs;
        let bar_text = if bar < 1.0 { format!("≥ {:.0} %", bar * 100.0) } else { format!("≥ {bar} ×") };
        Self {
            measure: measure.into(),
            ours: rate(ours, unit),
            theirs: rate(theirs, unit),
            ratio: Some(ratio),
            bar: bar_text,
            verdict: Verdict::of(ratio >= bar),
        }
    }

    /// Our rate beside another's, for orientation only.
    pub fn beside(measure: impl Into<String>, ours: f64, theirs: f64, unit: &str, aim: &str) -> Self {
        Self {
            measure: measure.into(),
            ours: rate(ours, unit),
            theirs: rate(theirs, unit),
            ratio: Some(ours / theirs),
            bar: aim.into(),
            verdict: Verdict::Beside,
        }
    }

    /// A rate without a comparison.
    pub fn alone(measure: impl Into<String>, ours: f64, unit: &str) -> Self {
        Self {
            measure: measure.into(),
            ours: rate(ours, unit),
            theirs: "–".into(),
            ratio: None,
            bar: "–".into(),
            verdict: Verdict::Beside,
        }
    }

    /// Our figure must be at most `bar` times theirs.
    pub fn at_most_times(measure: impl Into<String>, ours: f64, theirs: f64, unit: &str, bar: f64) -> Self {
        let ratio = ours / theirs;
        Self {
            measure: measure.into(),
            ours: figure(ours, unit),
            theirs: figure(theirs, unit),
            ratio: Some(ratio),
            bar: format!("≤ {bar} ×"),
            verdict: Verdict::of(ratio <= bar),
        }
    }

    /// Our figure must exceed theirs by at most `bar`.
    pub fn at_most_beyond(measure: impl Into<String>, ours: f64, theirs: f64, unit: &str, bar: f64) -> Self {
        Self {
            measure: measure.into(),
            ours: figure(ours, unit),
            theirs: figure(theirs, unit),
            ratio: Some(ours / theirs),
            bar: format!("≤ + {}", figure(bar, unit)),
            verdict: Verdict::of(ours <= theirs + bar),
        }
    }

    /// Our figure must be at most `bar`; `beyond` is the disk's own share, which is subtracted first.
    pub fn at_most(measure: impl Into<String>, ours: f64, beyond: f64, unit: &str, bar: f64) -> Self {
        let theirs =
            if beyond > 0.0 { format!("{} of it the disk", figure(beyond, unit)) } else { "–".into() };
        Self {
            measure: measure.into(),
            ours: figure(ours, unit),
            theirs,
            ratio: None,
            bar: format!("≤ {}", figure(bar, unit)),
            verdict: Verdict::of(ours - beyond <= bar),
        }
    }

    /// A count that must be exactly zero.
    pub fn none_of(measure: impl Into<String>, count: u64) -> Self {
        Self {
            measure: measure.into(),
            ours: count.to_string(),
            theirs: "–".into(),
            ratio: None,
            bar: "0".into(),
            verdict: Verdict::of(count == 0),
        }
    }

    /// A measure that failed.
    pub fn failed(measure: impl Into<String>, error: &anyhow::Error) -> Self {
        let text = format!("{error:#}").replace(['|', '\n'], " ");
        let text: String = text.chars().take(160).collect();
        Self {
            measure: measure.into(),
            ours: format!("failed: {text}"),
            theirs: "–".into(),
            ratio: None,
            bar: "–".into(),
            verdict: Verdict::Miss,
        }
    }

    /// Prints the row now; the table comes at the end.
    pub fn announce(&self) {
        let ratio = self.ratio.map(|ratio| format!(" = {}", times(ratio))).unwrap_or_default();
        eprintln!(
            "  {}: {} against {}{ratio} (bar {}): {}",
            self.measure,
            self.ours,
            self.theirs,
            self.bar,
            self.verdict.as_str()
        );
    }
}

/// The whole run.
pub struct Report {
    pub command: String,
    pub versions: Vec<String>,
    pub probes: Vec<(&'static str, Probe)>,
    pub rows: Vec<Row>,
}

impl Report {
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "- Machine: {}", probe::machine());
        let _ = writeln!(text, "- Versions: {}", self.versions.join(", "));
        let _ = writeln!(text, "- Command: `{}`", self.command);
        let said: Vec<String> = self
            .probes
            .iter()
            .map(|(when, probe)| {
                format!("{when} {:.3} (p99 {:.2}, load {:.1})", probe.p50_ms, probe.p99_ms, probe.load)
            })
            .collect();
        let _ = writeln!(text, "- fdatasync, median in ms: {}", said.join(", "));
        let probes: Vec<Probe> = self.probes.iter().map(|(_, probe)| *probe).collect();
        if !probe::steady(&probes) {
            let _ = writeln!(
                text,
                "- **Void**: the disk moved by more than {} × while this ran; do not divide its figures.",
                probe::STEADY_RATIO_MAX
            );
        }
        let passed = self.rows.iter().filter(|row| row.verdict == Verdict::Pass).count();
        let missed = self.rows.iter().filter(|row| row.verdict == Verdict::Miss).count();
        let _ = writeln!(text, "- Bars: {passed} passed, {missed} missed\n");
        text.push_str(&table(&self.rows));
        text
    }

    /// Puts the table between the marks of the document, leaving the prose around it alone.
    pub fn write_into(&self, document: &Path) -> Result<()> {
        let old = fs::read_to_string(document).with_context(|| format!("no {}", document.display()))?;
        fs::write(document, between_marks(&old, &self.to_markdown())?)?;
        Ok(())
    }
}

fn between_marks(document: &str, table: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("the document has lost its marks")?;
    let (_, after) = rest.split_once(END).context("the document has lost its marks")?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim_end()))
}

fn table(rows: &[Row]) -> String {
    let header = ["measure", "Sederunt", "baseline or peer", "ratio", "bar", ""];
    let mut lines = vec![header.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            row.measure.clone(),
            row.ours.clone(),
            row.theirs.clone(),
            row.ratio.map_or_else(|| "–".into(), times),
            row.bar.clone(),
            row.verdict.as_str().into(),
        ]
    }));
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (nth, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(text, "| {cell}{} ", " ".repeat(width - cell.chars().count()));
        }
        text.push_str("|\n");
        if nth == 0 {
            for width in widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 20.0 => format!("{r:.0} ×"),
        r => format!("{r:.2} ×"),
    }
}

/// A rate with separated thousands.
fn rate(value: f64, unit: &str) -> String {
    format!("{} {unit}/s", thousands(value))
}

fn figure(value: f64, unit: &str) -> String {
    match value.abs() {
        v if v >= 1_000.0 => format!("{} {unit}", thousands(value)),
        v if v >= 20.0 => format!("{value:.0} {unit}"),
        v if v >= 1.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_their_bars() {
        assert_eq!(Row::at_least("x", 50.0, 100.0, "events", 0.5).verdict, Verdict::Pass);
        assert_eq!(Row::at_least("x", 49.0, 100.0, "events", 0.5).verdict, Verdict::Miss);
        assert_eq!(Row::at_most_times("x", 3.1, 1.0, "ms", 3.0).verdict, Verdict::Miss);
        assert_eq!(Row::at_most("x", 2.1, 0.2, "ms", 2.0).verdict, Verdict::Pass);
        assert_eq!(Row::none_of("x", 1).verdict, Verdict::Miss);
        assert_eq!(Row::at_most("x", f64::NAN, 0.0, "ms", 2.0).verdict, Verdict::Miss);
    }

    #[test]
    fn the_table_goes_between_the_marks_and_the_prose_stays() {
        let document = format!("# Title\n{BEGIN}\nold\n{END}\nprose\n");
        let new = between_marks(&document, "new\n").unwrap();
        assert_eq!(new, format!("# Title\n{BEGIN}\n\nnew\n\n{END}\nprose\n"));
        assert!(between_marks("no marks", "new").is_err());
    }

    #[test]
    fn thousands_are_separated() {
        for (value, text) in [(0.0, "0"), (-999.0, "-999"), (1000.0, "1,000"), (1234567.0, "1,234,567")] {
            assert_eq!(thousands(value), text);
        }
    }
}
