//! Retries a model call: tries again what may pass, waits in between, and gives up in time.
//!
//! A reply that a listener has begun to hear is never started anew: the listener would hear it twice. Waits grow by
//! doubling, with jitter, so that many callers do not come back at once; a provider's own wait is obeyed, unless it
//! is longer than the time left. Time is tokio's, and the random numbers are handed in, so every wait can be tested.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Delta, DeltaSink, Error, Model, ModelReply, Request, Wait};
use crate::limits;

/// How often and how long to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Calls in all, the first one included.
    pub attempts_max: u32,
    /// The wait before the second attempt; each further one is twice as long.
    pub wait_first: Duration,
    pub wait_max: Duration,
    /// The time for all attempts together.
    pub total: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 4,
            wait_first: Duration::from_millis(500),
            wait_max: Duration::from_secs(20),
            total: limits::MODEL_TOTAL_MAX,
        }
    }
}

impl RetryPolicy {
    /// The wait after a failed attempt (counted from 1). `roll` is between 0 and 1: between half of the wait and all
    /// of it. `None` when the provider asks for a longer wait than `limits::RETRY_AFTER_MAX`.
    pub fn wait(&self, attempt: u32, asked: Option<Duration>, roll: f64) -> Option<Duration> {
        if asked.is_some_and(|asked| asked > limits::RETRY_AFTER_MAX) {
            return None;
        }
        let doublings = attempt.saturating_sub(1).min(20);
        let wait = self.wait_first.saturating_mul(1 << doublings).min(self.wait_max);
        let wait = wait.mul_f64(0.5 + roll.clamp(0.0, 1.0) / 2.0);
        Some(asked.map_or(wait, |asked| asked.max(wait)))
    }
}

/// Rolls numbers between 0 and 1.
pub type Dice = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A model whose failed calls are retried.
#[derive(Clone)]
pub struct Retrying {
    model: Arc<dyn Model>,
    policy: RetryPolicy,
    dice: Dice,
}

impl std::fmt::Debug for Retrying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retrying").field("model", &self.model).field("policy", &self.policy).finish()
    }
}

impl Retrying {
    pub fn new(model: Arc<dyn Model>, policy: RetryPolicy) -> Self {
        Self::with_dice(model, policy, Arc::new(rand::random::<f64>))
    }

    pub fn with_dice(model: Arc<dyn Model>, policy: RetryPolicy, dice: Dice) -> Self {
        Self { model, policy, dice }
    }

    async fn persist(&self, request: &Request, heard: DeltaSink<'_>) -> Result<ModelReply, Error> {
        let deadline = Instant::now() + self.policy.total;
        let mut attempt = 1;
        loop {
            let mut was_heard = false;
            let mut listen = |delta: Delta| {
                was_heard = true;
                heard(delta);
            };
            let run = timeout_at(deadline, self.model.run(request, &mut listen)).await;
            let error = match run.map_err(|_| Error::TimedOut(Wait::Total))? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if was_heard || !error.retryable() || attempt >= self.policy.attempts_max {
                return Err(error);
            }
            let Some(wait) = self.policy.wait(attempt, error.retry_after(), (self.dice)()) else {
                return Err(error);
            };
            if Instant::now() + wait >= deadline {
                return Err(error);
            }
            sleep(wait).await;
            attempt += 1;
        }
    }
}

impl Model for Retrying {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, Error>> {
        Box::pin(self.persist(request, heard))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{StopReason, Usage};
    use super::*;

    /// Answers from its list, in order, and remembers when it was asked.
    #[derive(Debug)]
    struct Moody {
        answers: Mutex<Vec<MoodyAnswer>>,
        asked: Mutex<Vec<Instant>>,
    }

    #[derive(Clone, Debug)]
    enum MoodyAnswer {
        Well,
        Fails(Error),
        FailsAfterWords(Error),
        Hangs,
    }

    impl Model for Moody {
        fn run<'a>(
            &'a self,
            _: &'a Request,
            heard: DeltaSink<'a>,
        ) -> BoxFuture<'a, Result<ModelReply, Error>> {
            self.asked.lock().unwrap().push(Instant::now());
            let answer = self.answers.lock().unwrap().remove(0);
            Box::pin(async move {
                match answer {
                    MoodyAnswer::Well => {
                        heard(Delta::Text("ok".to_owned()));
                        Ok(ModelReply {
                            text: "ok".to_owned(),
                            thinking: String::new(),
                            calls: Vec::new(),
                            bad_calls: Vec::new(),
                            usage: Usage::default(),
                            stop: StopReason::End,
                        })
                    }
                    MoodyAnswer::Fails(error) => Err(error),
                    MoodyAnswer::FailsAfterWords(error) => {
                        heard(Delta::Text("o".to_owned()));
                        Err(error)
                    }
                    MoodyAnswer::Hangs => std::future::pending().await,
                }
            })
        }
    }

    const POLICY: RetryPolicy = RetryPolicy {
        attempts_max: 3,
        wait_first: Duration::from_secs(1),
        wait_max: Duration::from_secs(8),
        total: Duration::from_secs(60),
    };

    /// The outcome, and the milliseconds between the attempts.
    async fn ask(policy: RetryPolicy, answers: Vec<MoodyAnswer>) -> (Result<String, Error>, Vec<u128>) {
        let model = Arc::new(Moody { answers: Mutex::new(answers), asked: Mutex::default() });
        let patient = Retrying::with_dice(Arc::clone(&model) as _, policy, Arc::new(|| 1.0));
        let outcome = patient.run(&Request::default(), &mut |_| {}).await.map(|reply| reply.text);
        let asked = model.asked.lock().unwrap();
        (outcome, asked.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_and_nothing_else() {
        use MoodyAnswer::{Fails, FailsAfterWords, Hangs, Well};
        let limited = |seconds| Error::RateLimited { retry_after: Some(Duration::from_secs(seconds)) };
        let refused = || Error::Refused { status: 400, code: None };
        let ok = || Ok("ok".to_owned());
        let cases = [
            ("a good answer", vec![Well], ok(), vec![]),
            (
                "two faults",
                vec![Fails(Error::CutShort), Fails(Error::Unreachable), Well],
                ok(),
                vec![1000, 2000],
            ),
            ("a wait that is asked for", vec![Fails(limited(7)), Well], ok(), vec![7000]),
            ("a short wait", vec![Fails(limited(0)), Well], ok(), vec![1000]),
            ("a wait beyond patience", vec![Fails(limited(121))], Err(limited(121)), vec![]),
            ("a wait beyond the deadline", vec![Fails(limited(61))], Err(limited(61)), vec![]),
            ("a refusal", vec![Fails(refused())], Err(refused()), vec![]),
            ("after words", vec![FailsAfterWords(Error::CutShort)], Err(Error::CutShort), vec![]),
            ("too often", vec![Fails(Error::CutShort); 3], Err(Error::CutShort), vec![1000, 2000]),
            ("for ever", vec![Hangs], Err(Error::TimedOut(Wait::Total)), vec![]),
        ];
        for (name, answers, outcome, waits) in cases {
            assert_eq!(ask(POLICY, answers).await, (outcome, waits), "{name}");
        }
    }

    #[test]
    fn waits_double_up_to_a_bound_with_jitter_below() {
        let cases = [
            (1, None, 1.0, Some(1000)),
            (1, None, 0.0, Some(500)),
            (2, None, 1.0, Some(2000)),
            (3, None, 0.5, Some(3000)),
            (4, None, 1.0, Some(8000)),
            (40, None, 1.0, Some(8000)),
            (1, Some(5), 0.0, Some(5000)),
            (1, Some(121), 0.0, None),
        ];
        for (attempt, asked, roll, expected) in cases {
            let wait = POLICY.wait(attempt, asked.map(Duration::from_secs), roll);
            assert_eq!(wait.map(|wait| wait.as_millis()), expected, "{attempt} {asked:?} {roll}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_with_all_its_attempts_ends_at_the_default_time() {
        let began = Instant::now();
        let (outcome, _) = ask(RetryPolicy::default(), vec![MoodyAnswer::Hangs]).await;
        assert_eq!(outcome, Err(Error::TimedOut(Wait::Total)));
        assert_eq!(began.elapsed().as_secs(), limits::MODEL_TOTAL_MAX.as_secs());
    }
}
