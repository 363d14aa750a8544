//! Feedback and lessons, by either way. Bodies are those of the interface: a server reads them, or they are read here as
//! a server would.

use std::sync::Arc;

use sederunt::{Actor, Error, Sederunt};
use sederunt_agents::teacher::Teacher;
use sederunt_core::engine::LessonSearch;
use sederunt_core::feedback::capture::Speaker;
use sederunt_core::feedback::session::State;
use sederunt_core::{SessionId, lesson, strict};
use sederunt_server::client::{self, Client};
use sederunt_server::wire::feedback::{
    AppendFeedback, CaptureDone, CaptureRequest, FailureList, FeedbackAppended, FeedbackFinalized,
    FeedbackOpened, FeedbackSession, FeedbackSessionList, FeedbackStats, Markdown, OpenFeedback,
};
use sederunt_server::wire::lesson::{Lesson, LessonList, PatchLesson, PreventionRules};
use sederunt_server::wire::thread::RatingList;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::server::{page, path, query};
use super::store::{row, rows, shown};
use crate::agents;
use crate::config::Config;
use crate::exit::Result;

/// What can be asked about feedback.
#[derive(Clone, Debug)]
pub enum FeedbackAsk {
    Give {
        body: Value,
    },
    Open {
        body: Value,
    },
    Add {
        session: String,
        body: Value,
    },
    Finalize {
        session: String,
    },
    Show {
        session: String,
    },
    List {
        is_open: bool,
        limit: u32,
        cursor: Option<String>,
    },
    Failures {
        task: Option<String>,
        session: Option<String>,
        limit: u32,
        cursor: Option<String>,
    },
    Stats,
    /// The ratings of a conversation.
    Ratings {
        thread: String,
    },
    Summary {
        recent: u32,
    },
}

/// What can be asked about lessons.
#[derive(Clone, Debug)]
pub enum LessonAsk {
    List { words: Option<String>, states: Vec<String>, tags: Vec<String>, limit: u32, cursor: Option<String> },
    Show { id: String },
    Change { id: String, body: Value },
    Rules { occurrences_min: u64 },
}

pub async fn there(client: &Client, ask: FeedbackAsk) -> Result<Value, client::Error> {
    let at = |rest: &[&str]| path(&[&["feedback"], rest].concat(), &[]);
    match ask {
        FeedbackAsk::Give { body } => client.post(&at(&[]), &body).await,
        FeedbackAsk::Open { body } => client.post(&at(&["sessions"]), &body).await,
        FeedbackAsk::Add { session, body } => {
            client.post(&at(&["sessions", &session, "append"]), &body).await
        }
        FeedbackAsk::Finalize { session } => {
            client.post(&at(&["sessions", &session, "finalize"]), &json!({})).await
        }
        FeedbackAsk::Show { session } => client.get(&at(&["sessions", &session])).await,
        FeedbackAsk::List { is_open, limit, cursor } => {
            let state = [("state", is_open.then(|| "open".to_owned()))].into_iter();
            client.get(&path(&["feedback", "sessions"], &query(state.chain(page(limit, cursor))))).await
        }
        FeedbackAsk::Failures { task, session, limit, cursor } => {
            let of = [("task_id", task), ("session_id", session)].into_iter();
            client.get(&path(&["feedback", "failures"], &query(of.chain(page(limit, cursor))))).await
        }
        FeedbackAsk::Ratings { thread } => client.get(&path(&["threads", &thread, "ratings"], &[])).await,
        FeedbackAsk::Stats => client.get(&at(&["stats"])).await,
        FeedbackAsk::Summary { recent } => {
            let recent = [("recent", Some(recent.to_string()))].into_iter();
            client.get(&path(&["feedback", "summary"], &query(recent))).await
        }
    }
}

pub async fn lessons_there(client: &Client, ask: LessonAsk) -> Result<Value, client::Error> {
    match ask {
        LessonAsk::List { words, states, tags, limit, cursor } => {
            let list = |words: Vec<String>| (!words.is_empty()).then(|| words.join(","));
            let filters = [("q", words), ("state", list(states)), ("tags", list(tags))].into_iter();
            client.get(&path(&["lessons"], &query(filters.chain(page(limit, cursor))))).await
        }
        LessonAsk::Show { id } => client.get(&path(&["lessons", &id], &[])).await,
        LessonAsk::Change { id, body } => client.patch(&path(&["lessons", &id], &[]), &body).await,
        LessonAsk::Rules { occurrences_min } => {
            let least = [("min_occurrences", Some(occurrences_min.to_string()))].into_iter();
            client.get(&path(&["lessons", "rules"], &query(least))).await
        }
    }
}

pub async fn here(store: &Sederunt, actor: &Actor, config: &Config, ask: FeedbackAsk) -> Result<Value> {
    let engine = store.engine();
    match ask {
        FeedbackAsk::Give { body } => {
            let wish = read::<CaptureRequest>(&body)?.try_into()?;
            shown(&CaptureDone::from(engine.capture_feedback(actor, wish, None).await?))
        }
        FeedbackAsk::Open { body } => {
            let OpenFeedback { feedback_event_id, signal, initial_context } = read(&body)?;
            let opened =
                engine.open_feedback(actor, &feedback_event_id, signal.into(), initial_context, None).await?;
            shown(&FeedbackOpened::from(opened))
        }
        FeedbackAsk::Add { session, body } => {
            let AppendFeedback { message, role } = read(&body)?;
            let role = role.map_or(Speaker::User, Into::into);
            let added = engine.append_feedback(actor, &session, role, &message, None).await?;
            shown(&FeedbackAppended::of(&session, added))
        }
        FeedbackAsk::Finalize { session } => {
            let done = caught_up(store, config).await?.finalize(actor, &session).await?;
            shown(&FeedbackFinalized::of(&session, done))
        }
        FeedbackAsk::Show { session } => {
            caught_up(store, config).await?;
            shown(&FeedbackSession::from(engine.feedback_session(actor, &session).await?))
        }
        FeedbackAsk::List { is_open, limit, cursor } => {
            caught_up(store, config).await?;
            let state = is_open.then_some(State::Open);
            let page = engine.feedback_sessions(actor, state, row(cursor)?, rows(limit)).await?;
            shown(&FeedbackSessionList::from(page))
        }
        FeedbackAsk::Failures { task, session, limit, cursor } => {
            let session = session.as_deref().map(SessionId::parse).transpose();
            let session = session.map_err(|_| Error::invalid("session_id", "is no id of a session"))?;
            let page = engine.failures(actor, task.as_deref(), session, row(cursor)?, rows(limit)).await?;
            shown(&FailureList::from(page))
        }
        FeedbackAsk::Ratings { thread } => {
            shown(&RatingList::from(engine.ratings(actor, &SessionId::parse(&thread)?).await?))
        }
        FeedbackAsk::Stats => shown(&FeedbackStats::from(engine.feedback_stats(actor).await?)),
        FeedbackAsk::Summary { recent } => {
            shown(&Markdown { markdown: engine.feedback_summary(actor, rows(recent)).await? })
        }
    }
}

pub async fn lessons_here(store: &Sederunt, actor: &Actor, config: &Config, ask: LessonAsk) -> Result<Value> {
    caught_up(store, config).await?;
    let engine = store.engine();
    match ask {
        LessonAsk::List { words, states, tags, limit, cursor } => {
            let states: Option<Vec<_>> = states.iter().map(|word| lesson::State::parse(word)).collect();
            let search = LessonSearch {
                query: words,
                states: states
                    .ok_or_else(|| Error::invalid("state", "must be proposed, active or retired"))?,
                tags,
                after: row(cursor)?,
                limit: rows(limit),
                ..LessonSearch::default()
            };
            shown(&LessonList::from(engine.search_lessons(actor, search).await?))
        }
        LessonAsk::Show { id } => shown(&Lesson::from(engine.lesson(actor, &id).await?)),
        LessonAsk::Change { id, body } => {
            let patch = read::<PatchLesson>(&body)?.into();
            shown(&Lesson::from(engine.change_lesson(actor, &id, patch).await?))
        }
        LessonAsk::Rules { occurrences_min } => {
            shown(&PreventionRules::from(engine.prevention_rules(actor, occurrences_min).await?))
        }
    }
}

/// Who draws lessons, once those are drawn that a running server would have drawn by now.
async fn caught_up(store: &Sederunt, config: &Config) -> Result<Teacher> {
    let teacher = Teacher::new(store.engine().clone(), Arc::new(agents::kit(config)?));
    teacher.finalize_silent().await?;
    Ok(teacher)
}

fn read<T: DeserializeOwned>(body: &Value) -> Result<T, Error> {
    strict::read(&body.to_string())
}
