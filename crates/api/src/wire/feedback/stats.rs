//! What feedback and ratings add up to.

use sederunt_core::feedback::RatingCounts;
use sederunt_core::feedback::stats::{self, ThumbTotals};
use sederunt_core::limits;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::failure::FailureCounts;
use crate::query::params;
use crate::wire::Count;

/// Counts of thumbs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThumbCounts {
    pub total: Count,
    pub up: Count,
    pub down: Count,
    /// The share of thumbs up, to three places; null if there are none.
    pub approval_rate: Option<f64>,
}

impl From<ThumbTotals> for ThumbCounts {
    fn from(counts: ThumbTotals) -> Self {
        Self {
            total: Count(counts.total()),
            up: Count(counts.up),
            down: Count(counts.down),
            approval_rate: counts.rate(),
        }
    }
}

/// Thumbs under one name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedCounts {
    pub name: String,
    #[serde(flatten)]
    pub counts: ThumbCounts,
}

/// A tag or skill with bad ratings, and advice.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Recommendation {
    /// `tag` or `skill`.
    pub about: String,
    pub name: String,
    pub counts: ThumbCounts,
    pub advice: String,
}

/// Statistics of feedback.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedbackStats {
    #[serde(flatten)]
    pub lifetime: ThumbCounts,
    pub last_7_days: ThumbCounts,
    pub last_30_days: ThumbCounts,
    /// The newest twenty.
    pub recent: ThumbCounts,
    /// How the newest compare with all: `improving`, `declining`, `stable` or `unknown`.
    pub trend: String,
    pub tags: Vec<NamedCounts>,
    pub skills: Vec<NamedCounts>,
    pub recommendations: Vec<Recommendation>,
    /// Runs that failed; for owners and workers, none otherwise.
    pub failures: FailureCounts,
    /// Sittings that were rated: of the tenant for owners and workers, the caller's own otherwise.
    pub ratings: LabelCounts,
}

/// Ratings of sittings by their labels.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabelCounts {
    pub positive: Count,
    pub negative: Count,
    pub skip: Count,
    pub total: Count,
}

impl From<RatingCounts> for LabelCounts {
    fn from(counts: RatingCounts) -> Self {
        Self {
            positive: Count(counts.positive),
            negative: Count(counts.negative),
            skip: Count(counts.skip),
            total: Count(counts.total()),
        }
    }
}

impl From<stats::Stats> for FeedbackStats {
    fn from(stats: stats::Stats) -> Self {
        let named = |list: Vec<(String, ThumbTotals)>| {
            list.into_iter().map(|(name, counts)| NamedCounts { name, counts: counts.into() }).collect()
        };
        Self {
            lifetime: stats.tally.lifetime.into(),
            last_7_days: stats.tally.days_7.into(),
            last_30_days: stats.tally.days_30.into(),
            recent: stats.recent.into(),
            trend: stats.trend.as_str().to_owned(),
            tags: named(stats.tally.tags),
            skills: named(stats.tally.skills),
            failures: stats.tally.failures.into(),
            ratings: stats.ratings.into(),
            recommendations: stats
                .recommendations
                .into_iter()
                .map(|one| Recommendation {
                    about: one.about.to_owned(),
                    name: one.name,
                    counts: one.counts.into(),
                    advice: one.advice,
                })
                .collect(),
        }
    }
}

/// A page for people.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Markdown {
    pub markdown: String,
}

params! {
    /// How many of the newest thumbs.
    pub struct SummaryQuery {
        recent: u64 = number().min(1).max(limits::PAGE_ROWS_MAX).or(stats::RECENT as u64),
    }
}
