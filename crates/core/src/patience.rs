//! Whether a batcher should wait a moment for more callers. The batcher asks before a batch and reports afterwards
//! whether the wait brought any.

/// The most batches that are sent without waiting after a useless wait.
const TURNS_MAX: u32 = 64;

/// Backs off: each useless wait is followed by batches without one, twice as many as the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// Batches left to send without waiting.
    left: u32,
    /// How many they were after the last useless wait.
    turns: u32,
}

impl Patience {
    /// Whether to wait before this batch.
    pub fn waits(&mut self) -> bool {
        let waits = self.left == 0;
        self.left = self.left.saturating_sub(1);
        waits
    }

    /// Notes whether the last wait brought more callers.
    pub fn learn(&mut self, came: bool) {
        self.turns = if came { 0 } else { (self.turns * 2).clamp(1, TURNS_MAX) };
        self.left = self.turns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many turns pass until the next wait.
    fn turns(patience: &mut Patience) -> u32 {
        (0..).take_while(|_| !patience.waits()).count() as u32
    }

    #[test]
    fn waiting_goes_on_while_it_pays_and_is_tried_less_and_less_while_it_does_not() {
        let mut patience = Patience::default();
        for (came, then) in
            [(true, 0), (true, 0), (false, 1), (false, 2), (false, 4), (true, 0), (false, 1), (false, 2)]
        {
            patience.learn(came);
            assert_eq!(turns(&mut patience), then);
        }
    }

    #[test]
    fn it_is_tried_again_however_often_it_was_in_vain() {
        let mut patience = Patience::default();
        for _ in 0..40 {
            patience.learn(false);
            assert!(turns(&mut patience) <= TURNS_MAX);
        }
    }
}
