//! Reads rows: heads, whole sessions, events. The order of columns is the contract between a statement and its
//! reader.

use std::sync::Arc;

use sederunt_core::error::Error;
use sederunt_core::event::{AppendOutcome, Event, EventType};
use sederunt_core::ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::session::row::Turn;
use sederunt_core::session::source::Company;
use sederunt_core::session::{
    Claim, DescriptionSource, Details, Head, MemoryMode, Session, SessionSource, SessionType, SourceKind,
    Status,
};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::fault::Result;
use super::tx::count;

/// The head, with the key before it. Read by [`Columns::head`].
pub(super) const HEAD: &str = "h.tk, h.sk, h.id, h.incarnation, h.session_type, h.is_talk, h.is_bridge, h.is_external, \
     h.is_group, h.holder, h.status, h.inactive, h.version, h.last_sequence, h.last_at, h.message_count, \
     h.turn_count, h.turn_sequence, h.turn_answered, h.described, h.claim_worker, h.claim_credential, \
     h.lease_until, h.epoch, h.attempts, h.stop_requested, h.priority, h.deadline_at, h.bytes";

/// The wide half, after the head and its preview. Read by [`Columns::details`].
pub(super) const DETAILS: &str = "s.source_kind, s.source_interactive, s.source_platform, s.source_trigger_id, \
     s.source_is_group, s.metadata, h.task_id, h.agent_slug, h.entity_id, s.parent_id, s.root_id, s.retry_of, s.title, \
     s.description, s.description_source, s.working_memory, s.input, s.draft_values, s.run, s.result, s.usage, \
     s.error_message, s.end_reason, s.memory_mode, s.is_anonymous, s.created_at, h.started_at, s.completed_at, \
     ARRAY(SELECT p.user_id FROM participants p WHERE p.tk = h.tk AND p.sk = h.sk ORDER BY p.user_id)";

/// A session's value with its keys.
#[derive(Clone, Debug)]
pub(super) struct Keyed<T> {
    pub(super) tk: i32,
    pub(super) sk: i64,
    pub(super) id: SessionId,
    pub(super) value: T,
}

/// Reads the columns of a row one after another.
pub(super) struct Columns<'a> {
    row: &'a Row,
    at: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row) -> Self {
        Self { row, at: 0 }
    }

    pub(super) fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    pub(super) fn take<T: FromSql<'a>>(&mut self) -> Result<T> {
        let value = self.row.try_get(self.at)?;
        self.at += 1;
        Ok(value)
    }

    pub(super) fn word<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        let text: &str = self.take()?;
        read(text).ok_or_else(|| Error::internal(format!("the word `{text}` in a row means nothing")).into())
    }

    pub(super) fn text(&mut self) -> Result<Option<Box<str>>> {
        Ok(self.take::<Option<&str>>()?.map(Into::into))
    }

    fn json(&mut self) -> Result<Option<Json>> {
        Ok(self.take::<Option<&str>>()?.map(Json::stored))
    }

    pub(super) fn time(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(self.take()?))
    }

    pub(super) fn time_if(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.take::<Option<i64>>()?.map(Timestamp::from_micros))
    }

    pub(super) fn user(&mut self) -> Result<Option<UserId>> {
        Ok(self.take::<Option<&str>>()?.map(UserId::stored))
    }

    fn session(&mut self) -> Result<Option<SessionId>> {
        Ok(self.take::<Option<&str>>()?.map(SessionId::stored))
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        Ok(count(self.take()?))
    }

    /// [`HEAD`]; the preview is left out, since not every role may see it.
    pub(super) fn head(&mut self) -> Result<Keyed<Head>> {
        let (tk, sk, id) = (self.take()?, self.take()?, SessionId::stored(self.take::<&str>()?));
        let mut head = Head {
            incarnation: Incarnation(self.take()?),
            session_type: self.word(|text| SessionType::parse(text).ok())?,
            is_talk: self.take()?,
            is_bridge: self.take()?,
            is_external: self.take()?,
            is_group: self.take()?,
            holder: self.user()?,
            status: self.word(Status::parse)?,
            inactive: self.take()?,
            version: self.number()?,
            last_sequence: self.number()?,
            last_at: self.time()?,
            message_count: self.number()?,
            bytes: 0,
            turn_count: self.number()?,
            turn: None,
            preview: None,
            described: false,
            claim: None,
            epoch: 0,
            attempts: 0,
            stop_requested: false,
            priority: 0,
            deadline_at: None,
        };
        let turn: Option<i64> = self.take()?;
        let answered = self.take()?;
        head.turn = turn.map(|sequence| Turn { sequence: count(sequence), answered });
        head.described = self.take()?;
        let (worker, credential, lease) = (self.text()?, self.take::<Option<&str>>()?, self.time_if()?);
        if let (Some(worker), Some(credential), Some(lease_until)) = (worker, credential, lease) {
            head.claim = Some(Claim { worker, credential: CredentialId::stored(credential), lease_until });
        }
        head.epoch = self.number()?;
        head.attempts = u32::try_from(self.take::<i32>()?).unwrap_or(0);
        head.stop_requested = self.take()?;
        head.priority = self.take()?;
        head.deadline_at = self.time_if()?;
        head.bytes = self.number()?;
        Ok(Keyed { tk, sk, id, value: head })
    }

    pub(super) fn preview(&mut self) -> Result<Option<Box<str>>> {
        self.text()
    }

    /// [`DETAILS`], and the participants after them.
    fn details(&mut self) -> Result<(Details, Vec<UserId>)> {
        let source = SessionSource {
            kind: self.word(|text| SourceKind::parse(text).ok())?,
            interactive: self.take()?,
            platform: self.take::<Option<String>>()?.map(Into::into),
            trigger_id: self.take()?,
            company: if self.take()? { Company::Group } else { Company::Direct },
        };
        let details = Details {
            source,
            metadata: Json::stored(self.take::<&str>()?),
            task_id: self.text()?,
            agent_slug: self.text()?,
            entity_id: self.text()?,
            parent_id: self.session()?,
            root_id: self.session()?,
            retry_of: self.session()?,
            title: self.text()?,
            description: self.text()?,
            description_source: self.take::<Option<&str>>()?.and_then(DescriptionSource::stored),
            working_memory: self.json()?,
            input: self.json()?,
            draft_values: self.json()?,
            run: self.json()?,
            result: self.json()?,
            usage: self.json()?,
            error_message: self.text()?,
            end_reason: self.text()?,
            memory_mode: self.word(|text| MemoryMode::parse(text).ok())?,
            is_anonymous: self.take()?,
            created_at: self.time()?,
            started_at: self.time_if()?,
            completed_at: self.time_if()?,
        };
        let participants = self.take::<Vec<&str>>()?.into_iter().map(UserId::stored).collect();
        Ok((details, participants))
    }

    /// [`HEAD`], the preview and [`DETAILS`].
    pub(super) fn whole(&mut self, tenant: &TenantId) -> Result<Keyed<Session>> {
        let Keyed { tk, sk, id, value: mut head } = self.head()?;
        head.preview = self.preview()?;
        let (details, participants) = self.details()?;
        let session = Session { tenant: tenant.clone(), id: id.clone(), head, details, participants };
        Ok(Keyed { tk, sk, id, value: session })
    }

    /// Sequence, type, content, metadata, subthread, external id, turn, author and time, in this order.
    pub(super) fn event(&mut self, session: &SessionId) -> Result<Event> {
        Ok(Event {
            session_id: session.clone(),
            sequence: self.number()?,
            kind: EventType::stored(self.take::<&str>()?),
            content: self.json()?,
            metadata: self.json()?,
            subthread_id: self.text()?,
            external_event_id: self.text()?,
            turn: self.take::<Option<i64>>()?.map(count),
            author: self.text()?,
            at: self.time()?,
        })
    }
}

/// The events that an append added, without repeats.
pub(super) fn new_events(appended: &[AppendOutcome]) -> impl Iterator<Item = &Arc<Event>> {
    appended.iter().filter_map(|slot| match slot {
        AppendOutcome::New(event) => Some(event),
        AppendOutcome::Repeat(_) => None,
    })
}
