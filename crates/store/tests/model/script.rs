//! The commands, and how they are drawn: few ids and few callers, so that they collide.

use proptest::prelude::*;

/// Ids are drawn from `s0` … `s4`.
pub const IDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    Owner,
    Ann,
    Bob,
    Guest,
    WorkerOne,
    WorkerTwo,
}

#[derive(Clone, Debug)]
pub enum Command {
    Open {
        who: Who,
        id: usize,
        kind: usize,
        pending: bool,
        external: bool,
        with_bob: bool,
        priority: i32,
    },
    Append {
        who: Who,
        id: usize,
        types: Vec<usize>,
        epoch: Epoch,
        expected: Option<i64>,
        external: Option<u8>,
    },
    Read {
        who: Who,
        id: usize,
    },
    Patch {
        who: Who,
        id: usize,
        title: u8,
    },
    Transition {
        who: Who,
        id: usize,
        to: usize,
    },
    Claim {
        who: Who,
        limit: usize,
    },
    Heartbeat {
        who: Who,
        id: usize,
        epoch: Epoch,
    },
    Settle {
        who: Who,
        id: usize,
        epoch: Epoch,
        how: usize,
    },
    Stop {
        who: Who,
        id: usize,
    },
    Retry {
        who: Who,
        id: usize,
    },
    Delete {
        who: Who,
        id: usize,
    },
    /// Seconds; leases last 600.
    Advance {
        seconds: u64,
    },
    Sweep,
}

/// Which epoch a caller presents.
#[derive(Clone, Copy, Debug)]
pub enum Epoch {
    None,
    Current,
    Old,
}

pub const TYPES: [&str; 7] = [
    "user.message", "agent.message", "external.event", "billing.charged", "session.error", "human.marker",
    "tool.invocation_started",
];
pub const SESSION_TYPES: [&str; 4] = ["agent", "response", "tool", "mixed"];
pub const TARGETS: [&str; 6] = ["pending", "running", "idle", "abandoned", "expired", "completed"];

pub fn script() -> impl Strategy<Value = Vec<Command>> {
    proptest::collection::vec(command(), 1..60)
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        4 => Just(Who::Owner),
        2 => Just(Who::Ann),
        1 => Just(Who::Bob),
        1 => Just(Who::Guest),
        2 => Just(Who::WorkerOne),
        1 => Just(Who::WorkerTwo),
    ]
}

fn worker() -> impl Strategy<Value = Who> {
    prop_oneof![4 => Just(Who::WorkerOne), 2 => Just(Who::WorkerTwo), 1 => who()]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![2 => Just(Epoch::None), 5 => Just(Epoch::Current), 1 => Just(Epoch::Old)]
}

fn settled_epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![5 => Just(Epoch::Current), 1 => Just(Epoch::Old)]
}

fn command() -> impl Strategy<Value = Command> {
    let id = 0..IDS;
    prop_oneof![
        5 => (who(), id.clone(), 0usize..4, prop::bool::weighted(0.5), prop::bool::weighted(0.1), any::<bool>(), -1i32..2)
            .prop_map(|(who, id, kind, pending, external, with_bob, priority)| Command::Open {
                who, id, kind, pending, external, with_bob, priority,
            }),
        8 => (
            who(),
            id.clone(),
            proptest::collection::vec(0..TYPES.len(), 1..3),
            epoch(),
            prop::option::weighted(0.2, -1i64..2),
            prop::option::weighted(0.2, 0u8..3),
        )
            .prop_map(|(who, id, types, epoch, expected, external)| Command::Append {
                who, id, types, epoch, expected, external,
            }),
        2 => (who(), id.clone()).prop_map(|(who, id)| Command::Read { who, id }),
        1 => (who(), id.clone(), any::<u8>()).prop_map(|(who, id, title)| Command::Patch { who, id, title }),
        3 => (who(), id.clone(), 0..TARGETS.len()).prop_map(|(who, id, to)| Command::Transition { who, id, to }),
        5 => (worker(), 1usize..3).prop_map(|(who, limit)| Command::Claim { who, limit }),
        3 => (worker(), id.clone(), settled_epoch())
            .prop_map(|(who, id, epoch)| Command::Heartbeat { who, id, epoch }),
        5 => (worker(), id.clone(), settled_epoch(), 0usize..6)
            .prop_map(|(who, id, epoch, how)| Command::Settle { who, id, epoch, how }),
        2 => (who(), id.clone()).prop_map(|(who, id)| Command::Stop { who, id }),
        1 => (who(), id.clone()).prop_map(|(who, id)| Command::Retry { who, id }),
        1 => (who(), id).prop_map(|(who, id)| Command::Delete { who, id }),
        2 => prop_oneof![4 => Just(400u64), 4 => Just(1_000), 1 => Just(4 * 86_400), 1 => Just(8 * 86_400)]
            .prop_map(|seconds| Command::Advance { seconds }),
        2 => Just(Command::Sweep),
    ]
}
