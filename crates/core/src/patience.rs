//! Whether it pays to wait a moment for others. Whoever gathers callers asks before, and says afterwards how it went.

/// Turns without a wait, at most, after one that was in vain.
const TURNS_MAX: u32 = 64;

/// What was learned of waiting. A wait that was in vain is followed by turns without one, twice as many each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// Turns to go without a wait.
    left: u32,
    /// How many they were, the last time.
    turns: u32,
}

impl Patience {
    /// Whether to wait, this turn.
    pub fn waits(&mut self) -> bool {
        let waits = self.left == 0;
        self.left = self.left.saturating_sub(1);
        waits
    }

    /// Takes note whether those who were waited for have come.
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
