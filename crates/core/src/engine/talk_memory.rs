//! The memory in a conversation: what a turn is given of it, what a command to it does, and what a sitting leaves in it.
//!
//! Every method works on the memory of the owner for whom the turn or the sitting was opened ([`crate::memory::owner`]),
//! or on one that it checks the caller for: the runner of a turn cannot name another owner.

use futures_util::future::join;

use super::{Engine, RunningTurn};
use crate::access::{Actor, Verb};
use crate::error::Result;
use crate::event::Event;
use crate::ids::{SessionId, TenantId};
use crate::limits;
use crate::memory::candidate::Buffer;
use crate::memory::control::{
    self, Command, ControlReply, ForgetTarget, MemoryCounts, MemoryDeletion, MemorySelector,
};
use crate::memory::harvest::{self, SittingContent};
use crate::memory::owner::{MemoryAct, TurnSpeaker, check_memory_act, memory_owner};
use crate::memory::promote::{self, Promotion, SittingReview};
use crate::memory::recall::{self, RecallOccasion};
use crate::memory::vector::Vector;
use crate::memory::{Memory, MemoryKind, Owner, command, profile_id, reconcile, words};
use crate::session::{MemoryMode, Session};
use crate::store::{MemoryQuery, Record, VectorQuery, Vectors};
use crate::talk::turn_memory::{self, MemoryReply, TurnRecall};
use crate::talk::{Sitting, TurnRecords};
use crate::time::Timestamp;

/// What a sitting leaves: the id of its arc, and the records to commit with its end.
#[derive(Debug, Default)]
pub(super) struct Harvest {
    pub arc: Option<String>,
    pub records: Vec<Record>,
}

impl Engine {
    /// Carries out a command to the memory, if the message of a turn is one. What it changes is committed with the turn.
    pub async fn control_memory(
        &self,
        begun: &RunningTurn,
        text: &str,
        buffer: &mut Buffer,
    ) -> Result<Option<MemoryReply>> {
        MemoryView::of_turn(self, begun).control(text, begun, buffer).await
    }

    /// The memories and lessons that belong into the prompt of a turn. `similar` gives the ids of memories that are
    /// similar to the message, most similar first, or `None` if no embedding is available; it runs talk_change the search by
    /// words.
    pub async fn recall_for_turn(
        &self,
        begun: &RunningTurn,
        text: &str,
        similar: impl Future<Output = Result<Option<Vec<String>>>>,
    ) -> Result<TurnRecall> {
        MemoryView::of_turn(self, begun).recall(text, begun, similar).await
    }

    /// The rules that a spoken conversation is told of its person: how they want to be talked to, and nothing else
    /// unasked.
    pub async fn voice_rules(&self, actor: &Actor, id: &SessionId, user: Option<&str>) -> Result<String> {
        let (session, _) = self.conversation(actor, Verb::Talk, id).await?;
        let owner = memory_owner(&session, &TurnSpeaker::of(actor, user)?);
        if session.details.memory_mode == MemoryMode::Incognito {
            return Ok(String::new());
        }
        let profile = MemoryView::new(self, &session, owner).profile().await?;
        Ok(profile.as_ref().and_then(Memory::profile).map(recall::voice_rules).unwrap_or_default())
    }

    /// Memories about a subject that the person of a spoken conversation explicitly asks for.
    pub async fn voice_recall(
        &self,
        actor: &Actor,
        id: &SessionId,
        user: Option<&str>,
        query: &str,
    ) -> Result<Vec<String>> {
        let (session, _) = self.conversation(actor, Verb::Talk, id).await?;
        let scope = self.memory_scope(actor, Some(id), user, MemoryAct::Read).await?;
        let found = MemoryView::new(self, &session, scope.owner()?.clone()).listed(query).await?;
        Ok(found.iter().filter_map(ForgetTarget::of).map(|target| target.label).collect())
    }

    /// The vectors that an embedding model made of the memories that a turn uses, those after a number.
    pub async fn vectors_for_turn(&self, begun: &RunningTurn, model: &str, after: i64) -> Result<Vectors> {
        let query = VectorQuery {
            owner: begun.owner(),
            model: model.to_owned(),
            after,
            limit: limits::VECTORS_COMPARED_MAX,
        };
        self.sessions.vectors(begun.tenant(), query).await
    }

    /// Memories of all tenants that have no vector of this model yet, for the background task that makes them.
    pub async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<(TenantId, Memory)>> {
        self.sessions.unembedded(model, limit).await
    }

    /// Stores the vectors that an embedding model made of memories; `None` where it refused the text.
    pub async fn keep_vectors(
        &self,
        tenant: &TenantId,
        model: &str,
        made: Vec<(Memory, Option<Vector>)>,
    ) -> Result<()> {
        self.sessions.keep_vectors(tenant, model, made).await
    }

    /// What a sitting leaves: its arc, and what was said often enough to be kept. Nothing, if the person asked for
    /// that.
    pub(super) async fn harvest(
        &self,
        session: &Session,
        open: &Sitting,
        content: SittingContent<'_>,
        now: Timestamp,
    ) -> Result<Harvest> {
        if open.buffer.emptied {
            return Ok(Harvest::default());
        }
        MemoryView::new(self, session, open.owner.clone()).harvest(open, content, now).await
    }
}

/// The memory of one owner, as one conversation sees it.
struct MemoryView<'e> {
    engine: &'e Engine,
    session: &'e Session,
    owner: Owner,
}

impl<'e> MemoryView<'e> {
    fn of_turn(engine: &'e Engine, begun: &'e RunningTurn) -> Self {
        Self::new(engine, &begun.session, begun.owner())
    }

    fn new(engine: &'e Engine, session: &'e Session, owner: Owner) -> Self {
        Self { engine, session, owner }
    }

    fn tenant(&self) -> &'e TenantId {
        &self.session.tenant
    }

    async fn profile(&self) -> Result<Option<Memory>> {
        self.engine.sessions.memory(self.tenant(), &profile_id(&self.owner)).await
    }

    async fn find(&self, kind: MemoryKind, words: Vec<String>, limit: usize) -> Result<Vec<Memory>> {
        let query = MemoryQuery {
            owner: self.owner.clone(),
            kind: Some(kind),
            words,
            since: None,
            dormant: false,
            after: None,
            limit,
        };
        Ok(self.engine.sessions.memories(self.tenant(), query).await?.items)
    }

    /// Facts and arcs for a list: by words where there are any, newest first otherwise.
    async fn listed(&self, query: &str) -> Result<Vec<Memory>> {
        let words: Vec<String> = words::set(query).into_iter().collect();
        let mut found = self.find(MemoryKind::Fact, words.clone(), limits::KNOWN_LISTED_MAX).await?;
        found.extend(self.find(MemoryKind::Arc, words.clone(), limits::RECALLED_ARCS_MAX).await?);
        if !words.is_empty() {
            let hits: Vec<String> =
                recall::rank(query, &found).into_iter().map(|memory| memory.id.clone()).collect();
            found.retain(|memory| hits.contains(&memory.id));
        }
        Ok(found)
    }

    async fn control(
        &self,
        text: &str,
        begun: &RunningTurn,
        buffer: &mut Buffer,
    ) -> Result<Option<MemoryReply>> {
        let pending = turn_memory::pending_deletion(&begun.talk.state, &begun.speaker);
        let Some(mut command) = command::read(text, pending.as_ref()) else { return Ok(None) };
        if let Err(refusal) = check_memory_act(self.session, &begun.speaker, command.act()) {
            return Ok(Some(MemoryReply::refused(refusal.text())));
        }
        let mut turn = begun.turn;
        if command == (Command::RememberThis { text: None })
            && let Some(said) = self.last_said(begun).await?
        {
            turn = said.sequence;
            command = Command::RememberThis { text: said.text() };
        }
        if command == Command::ForgetEverything(MemoryCounts::default()) {
            command = Command::ForgetEverything(self.counts(buffer).await?);
        }
        let matches = match &command {
            Command::WhatDoYouKnow | Command::Forget(MemorySelector::Ordinal(_)) => self.listed("").await?,
            Command::Forget(MemorySelector::Query(query)) => self.listed(query).await?,
            _ => Vec::new(),
        };
        let targets: Vec<ForgetTarget> = matches.iter().filter_map(ForgetTarget::of).collect();
        let outcome = control::decide(pending.as_ref(), Some(&command), &targets);
        let Some(mut reply) = outcome.reply else { return Ok(None) };
        if reply == ControlReply::Remembered && self.session.details.memory_mode == MemoryMode::Incognito {
            reply = ControlReply::RememberedUntilYouLeave;
        }
        let now = self.engine.tenant.now().await?;
        let mut records = Vec::new();
        match &command {
            Command::RememberThis { text: Some(text) } => {
                let promoted = promote::remember(text, &self.owner, self.session.id.as_str(), turn);
                records.extend(self.reconciled(promoted, now).await?);
            }
            Command::DontSave => buffer.empty(),
            Command::RecallOn | Command::RecallOff => {
                let on = command == Command::RecallOn;
                let profile = self.profile().await?;
                let changed = reconcile::with_recall(&self.owner, profile.as_ref(), on, now);
                records.extend(changed.map(|memory| Record::PutMemory(Box::new(memory))));
            }
            _ => {}
        }
        match outcome.delete {
            // The question may be old: check that the memory still belongs to this owner.
            Some(MemoryDeletion::One(id)) => {
                let found = self.engine.sessions.memory(self.tenant(), &id).await?;
                if found.is_some_and(|memory| memory.owner == self.owner) {
                    records.push(Record::DropMemory { id: id.into() });
                }
            }
            Some(MemoryDeletion::Everything) => {
                records.push(Record::DropMemories { owner: self.owner.clone() });
                buffer.empty();
            }
            None => {}
        }
        let records = TurnRecords::of(records);
        Ok(Some(MemoryReply { text: reply.text(), pending: outcome.pending, records }))
    }

    /// How many memories there are to forget.
    async fn counts(&self, buffer: &Buffer) -> Result<MemoryCounts> {
        let store = &self.engine.sessions;
        let profile = self.profile().await?;
        Ok(MemoryCounts {
            facts: store.count_memories(self.tenant(), &self.owner, MemoryKind::Fact).await?,
            arcs: store.count_memories(self.tenant(), &self.owner, MemoryKind::Arc).await?,
            rules: profile.as_ref().and_then(Memory::profile).map_or(0, |profile| profile.rules.len() as u64),
            held: buffer.candidates.len() as u64,
        })
    }

    /// The user's message before this turn.
    async fn last_said(&self, begun: &RunningTurn) -> Result<Option<Event>> {
        let before = self.engine.said_before(self.session, begun.turn, 4).await?;
        Ok(before.into_iter().rfind(|event| event.kind.as_str() == "user.message"))
    }

    async fn recall(
        &self,
        text: &str,
        begun: &RunningTurn,
        similar: impl Future<Output = Result<Option<Vec<String>>>>,
    ) -> Result<TurnRecall> {
        let words: Vec<String> = words::set(text).into_iter().collect();
        let (by_words, similar) = join(self.by_words(words, begun.opened), similar).await;
        let mut memories = by_words?;
        let similar = similar?;
        let known = |id: &String| memories.iter().any(|memory| memory.id == *id);
        let unread: Vec<String> = similar.iter().flatten().filter(|id| !known(id)).cloned().collect();
        if !unread.is_empty() {
            let found = self.engine.sessions.memories_at(self.tenant(), &unread).await?;
            memories.extend(found.into_iter().filter(|memory| memory.owner == self.owner));
        }
        let agent = self.session.details.agent_slug.as_deref();
        let lessons = self.engine.lessons_for(self.tenant(), agent, text).await?;
        let occasion =
            RecallOccasion { message: text, first_turn: begun.opened, now: begun.session.head.last_at };
        Ok(TurnRecall::pick(&occasion, &memories, similar.as_deref(), lessons))
    }

    /// The memories that match the words of a message, with those that every turn gets.
    async fn by_words(&self, words: Vec<String>, opened: bool) -> Result<Vec<Memory>> {
        let mut memories: Vec<Memory> = self.profile().await?.into_iter().collect();
        if !words.is_empty() {
            memories.extend(self.find(MemoryKind::Fact, words.clone(), limits::RECALL_CANDIDATES).await?);
            memories.extend(self.find(MemoryKind::Arc, words, limits::RECALL_CANDIDATES).await?);
        }
        if opened {
            for arc in self.find(MemoryKind::Arc, Vec::new(), 1).await? {
                if !memories.iter().any(|known| known.id == arc.id) {
                    memories.push(arc);
                }
            }
        }
        Ok(memories)
    }

    async fn harvest(&self, open: &Sitting, content: SittingContent<'_>, now: Timestamp) -> Result<Harvest> {
        let texts: Vec<String> =
            open.buffer.candidates.iter().map(|candidate| candidate.what.text()).collect();
        let known = self.known_like(&texts).await?;
        let arcs = match texts.is_empty() {
            true => Vec::new(),
            false => self.find(MemoryKind::Arc, Vec::new(), limits::EARLIER_ARCS_MAX).await?,
        };
        let messages = harvest::user_messages(content.said);
        let earlier: Vec<&str> = arcs
            .iter()
            .filter_map(Memory::arc)
            .flat_map(|arc| arc.mentioned.iter().map(String::as_str))
            .collect();
        let review = SittingReview {
            owner: &self.owner,
            session: self.session.id.as_str(),
            turns: &harvest::evidence_turns(&messages),
            memories: &known,
            earlier: &earlier,
        };
        let promoted = promote::promote(&open.buffer, &review);
        let arc = content
            .summary
            .cloned()
            .map(|summary| harvest::arc_of(self.session, open, summary, &messages, &promoted, now));
        let id = arc.as_ref().map(|arc| arc.id.clone());
        let mut records: Vec<Record> = arc.into_iter().map(|arc| Record::PutMemory(Box::new(arc))).collect();
        records.extend(self.reconciled(promoted, now).await?);
        Ok(Harvest { arc: id, records })
    }

    /// The owner's facts that share a word with any of these, and the profile.
    async fn known_like(&self, texts: &[String]) -> Result<Vec<Memory>> {
        let mut known: Vec<Memory> = self.profile().await?.into_iter().collect();
        for text in texts {
            let words: Vec<String> = words::set(text).into_iter().collect();
            if words.is_empty() {
                continue;
            }
            for memory in self.find(MemoryKind::Fact, words, limits::KNOWN_LIKE_MAX).await? {
                if !known.iter().any(|one| one.id == memory.id) {
                    known.push(memory);
                }
            }
        }
        Ok(known)
    }

    async fn reconciled(&self, promoted: Promotion, now: Timestamp) -> Result<Vec<Record>> {
        let texts: Vec<String> = promoted.facts.iter().map(|fact| fact.sentence()).collect();
        let known = self.known_like(&texts).await?;
        let put = reconcile::reconcile(&self.owner, promoted, &known, now);
        Ok(put.into_iter().map(|memory| Record::PutMemory(Box::new(memory))).collect())
    }
}
