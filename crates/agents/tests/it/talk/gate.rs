//! A model that a test lets speak.

use std::sync::Arc;

use sederunt_agents::model::{self, Delta, DeltaSink, Model, ModelReply, Request, Usage};
use tokio::sync::{Semaphore, mpsc};

use crate::stand_ins::{Saying, spoken};
use crate::wire::SOON;

/// A model that says what it is told, when it is let.
#[derive(Debug)]
pub struct Gated {
    begun: mpsc::UnboundedSender<Request>,
    leave: Arc<Semaphore>,
    fails: bool,
}

impl Model for Gated {
    fn run<'a>(&'a self, request: &'a Request, heard: DeltaSink<'a>) -> Saying<'a> {
        Box::pin(async move {
            heard(Delta::Text("I hear ".to_owned()));
            let _ = self.begun.send(request.clone());
            self.leave.acquire().await.unwrap().forget();
            if self.fails {
                return Err(model::Error::TooLong);
            }
            let said = request.messages.last().map(|message| message.text().to_owned()).unwrap_or_default();
            heard(Delta::Text(said.clone()));
            let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
            Ok(ModelReply { usage, ..spoken(&format!("I hear {said}")) })
        })
    }
}

/// What a test holds of a [`Gated`] model.
pub struct Gate {
    begun: mpsc::UnboundedReceiver<Request>,
    leave: Arc<Semaphore>,
}

impl Gated {
    /// The model, and what a test holds of it.
    pub fn new(fails: bool) -> (Self, Gate) {
        let (tell, begun) = mpsc::unbounded_channel();
        let leave = Arc::new(Semaphore::new(0));
        (Self { begun: tell, leave: leave.clone(), fails }, Gate { begun, leave })
    }
}

impl Gate {
    pub async fn begins(&mut self) -> Request {
        tokio::time::timeout(SOON, self.begun.recv()).await.unwrap().unwrap()
    }

    pub fn let_go(&self) {
        self.leave.add_permits(1);
    }
}
