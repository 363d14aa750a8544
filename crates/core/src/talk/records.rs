//! The records that a turn or the end of a sitting writes beside its session.

use crate::store::Record;

/// Records that are committed together with a turn or with the end of a sitting. Only this crate makes them: the runner
/// of a turn carries them from the engine method that decided them to the one that commits the turn.
#[derive(Clone, Debug, Default)]
pub struct TurnRecords(Vec<Record>);

impl TurnRecords {
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn of(records: impl IntoIterator<Item = Record>) -> Self {
        Self(records.into_iter().collect())
    }

    pub(crate) fn into_records(self) -> Vec<Record> {
        self.0
    }
}
