//! Writers that go on through refusals, as clients do that were told to come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{Client, PATIENCE, within};
use crate::ledger::{Outcome, Writer};

/// How soon a refused writer comes back: not so soon that refusals are all that the server does.
const BACK_AFTER: Duration = Duration::from_millis(20);

/// What a writer does with a post that was refused.
#[derive(Clone, Copy, PartialEq)]
pub enum Doubt {
    TryAgain,
    GiveUp,
}

/// How many posts were answered, and how.
#[derive(Clone, Copy, Default)]
struct Tally {
    acked: usize,
    refused: usize,
}

pub struct Load {
    tally: watch::Receiver<Tally>,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Writer>>,
}

impl Load {
    pub fn start(client: &Client, crew: Vec<Writer>, doubt: Doubt) -> Self {
        let (tell, tally) = watch::channel(Tally::default());
        let (tell, stop) = (Arc::new(tell), Arc::new(AtomicBool::new(false)));
        let writers = crew
            .into_iter()
            .map(|writer| tokio::spawn(write(writer, client.clone(), doubt, tell.clone(), stop.clone())))
            .collect();
        Self { tally, stop, writers }
    }

    /// Waits until so many further posts are acknowledged.
    pub async fn proceeds(&self, by: usize) {
        self.advance("writers are acknowledged", by, |tally| tally.acked).await;
    }

    /// Waits until so many further posts are refused.
    pub async fn is_refused(&self, by: usize) {
        self.advance("writers are refused", by, |tally| tally.refused).await;
    }

    async fn advance(&self, what: &str, by: usize, of: impl Fn(&Tally) -> usize) {
        let mut tally = self.tally.clone();
        let before = of(&tally.borrow_and_update());
        let reached = tally.wait_for(|tally| of(tally) >= before + by);
        within(what, PATIENCE, reached).await.expect("every writer gave up");
        assert!(!self.writers.iter().any(JoinHandle::is_finished), "a writer gave up");
    }

    pub async fn stop(self) -> Vec<Writer> {
        self.stop.store(true, Ordering::Relaxed);
        let mut writers = Vec::new();
        for task in self.writers {
            writers.push(within("the writers end", PATIENCE, task).await.unwrap());
        }
        writers
    }
}

async fn write(
    mut writer: Writer,
    client: Client,
    doubt: Doubt,
    tell: Arc<watch::Sender<Tally>>,
    stop: Arc<AtomicBool>,
) -> Writer {
    while !stop.load(Ordering::Relaxed) {
        match writer.append(&client).await {
            Outcome::Acked => tell.send_modify(|tally| tally.acked += 1),
            Outcome::Refused(answer) if answer.is_unavailable() => {
                if doubt == Doubt::GiveUp {
                    writer.give_up_doubt();
                }
                tokio::time::sleep(BACK_AFTER).await;
                tell.send_modify(|tally| tally.refused += 1);
            }
            other => panic!("neither acknowledged nor unavailable: {other:?}"),
        }
    }
    writer
}
