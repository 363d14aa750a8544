//! What a conversation reads from the memory and writes to it. The rules are core's; this room only loads what they
//! need and turns their decisions into records.

use sederunt_core::engine::{Engine, RunningTurn};
use sederunt_core::event::Event;
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::lesson::{Lesson, shown};
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::memory::control::{
    self, Command, ControlReply, ForgetTarget, MemoryCounts, MemoryDeletion, MemorySelector, PendingDeletion,
};
use sederunt_core::memory::owner::check_memory_act;
use sederunt_core::memory::promote::{self, Promotion, ReviewedTurn, SittingReview};
use sederunt_core::memory::recall::{self, RecallOccasion, RecalledMemories};
use sederunt_core::memory::summary::{self, SittingFacts, Summary};
use sederunt_core::memory::{
    Fact, Memory, MemoryBody, MemoryKind, Owner, command, derived_id, profile_id, reconcile, words,
};
use sederunt_core::safety::Level;
use sederunt_core::session::MemoryMode;
use sederunt_core::store::{MemoryQuery, Record};
use sederunt_core::talk::Sitting;
use sederunt_core::{Error, Session, Timestamp, limits as core_limits};
use serde_json::Value;

use super::Talker;
use super::likeness::Likeness;
use crate::limits;

/// The memory of one owner, as one conversation sees it.
pub(super) struct Memories<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    session: &'a Session,
    owner: Owner,
    likeness: Option<&'a Likeness>,
}

/// The result of a command to the memory.
pub(super) struct Controlled {
    pub text: String,
    pub pending: Option<PendingDeletion>,
    pub records: Vec<Record>,
}

/// What a sitting leaves in the memory.
#[derive(Default)]
pub(super) struct Kept {
    pub arc: Option<String>,
    pub records: Vec<Record>,
}

/// The memories and lessons that enter a prompt.
#[derive(Default)]
pub(super) struct Recalled {
    picked: RecalledMemories,
    /// The person has a profile, which says whether the past may be brought up.
    has_profile: bool,
    now: Timestamp,
    /// How memories were searched.
    path: &'static str,
    /// Lessons from feedback about similar talk.
    pub lessons: Vec<Lesson>,
}

impl<'a> Memories<'a> {
    pub(super) fn of(talker: &'a Talker, begun: &'a RunningTurn) -> Self {
        Self::owned(talker, &begun.session, begun.owner())
    }

    pub(super) fn new(talker: &'a Talker, session: &'a Session, open: &Sitting) -> Self {
        Self::owned(talker, session, open.owner.clone())
    }

    pub(super) fn owned(talker: &'a Talker, session: &'a Session, owner: Owner) -> Self {
        let likeness = talker.settings.likeness.as_deref();
        Self { engine: &talker.engine, tenant: &session.tenant, session, owner, likeness }
    }

    async fn profile(&self) -> Result<Option<Memory>, Error> {
        self.engine.session_store().memory(self.tenant, &profile_id(&self.owner)).await
    }

    async fn find(&self, kind: MemoryKind, words: Vec<String>, limit: usize) -> Result<Vec<Memory>, Error> {
        let query = MemoryQuery {
            owner: self.owner.clone(),
            kind: Some(kind),
            words,
            since: None,
            dormant: false,
            after: None,
            limit,
        };
        Ok(self.engine.session_store().memories(self.tenant, query).await?.items)
    }

    /// Facts and arcs for a list: by words where there are any, newest first otherwise.
    async fn listed(&self, query: &str) -> Result<Vec<Memory>, Error> {
        let words: Vec<String> = words::set(query).into_iter().collect();
        let mut found = self.find(MemoryKind::Fact, words.clone(), core_limits::KNOWN_LISTED_MAX).await?;
        found.extend(self.find(MemoryKind::Arc, words.clone(), core_limits::RECALLED_ARCS_MAX).await?);
        if !words.is_empty() {
            let hits: Vec<String> =
                recall::rank(query, &found).into_iter().map(|memory| memory.id.clone()).collect();
            found.retain(|memory| hits.contains(&memory.id));
        }
        Ok(found)
    }

    /// Carries out a command to the memory, if the message is one.
    pub(super) async fn control(
        &self,
        text: &str,
        begun: &RunningTurn,
        buffer: &mut Buffer,
    ) -> Result<Option<Controlled>, Error> {
        let pending = pending_of(begun);
        let Some(mut command) = command::read(text, pending.as_ref()) else { return Ok(None) };
        if let Err(refusal) = check_memory_act(self.session, &begun.speaker, command.act()) {
            return Ok(Some(Controlled {
                text: refusal.text().to_owned(),
                pending: None,
                records: Vec::new(),
            }));
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
        let now = self.engine.tenant_store().now().await?;
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
                let found = self.engine.session_store().memory(self.tenant, &id).await?;
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
        Ok(Some(Controlled { text: reply.text(), pending: outcome.pending, records }))
    }

    /// How many memories there are to forget.
    async fn counts(&self, buffer: &Buffer) -> Result<MemoryCounts, Error> {
        let store = self.engine.session_store();
        let profile = self.profile().await?;
        Ok(MemoryCounts {
            facts: store.count_memories(self.tenant, &self.owner, MemoryKind::Fact).await?,
            arcs: store.count_memories(self.tenant, &self.owner, MemoryKind::Arc).await?,
            rules: profile.as_ref().and_then(Memory::profile).map_or(0, |profile| profile.rules.len() as u64),
            held: buffer.candidates.len() as u64,
        })
    }

    /// The user's message before this turn.
    async fn last_said(&self, begun: &RunningTurn) -> Result<Option<Event>, Error> {
        let before = self.engine.said_before(self.session, begun.turn, 4).await?;
        Ok(before.into_iter().rfind(|event| event.kind.as_str() == "user.message"))
    }

    /// What belongs into the prompt of a turn.
    pub(super) async fn recall(&self, text: &str, begun: &RunningTurn) -> Result<Recalled, Error> {
        let now = begun.session.head.last_at;
        let words: Vec<String> = words::set(text).into_iter().collect();
        let (by_words, like) = tokio::join!(self.by_words(words, begun.opened), self.like(text));
        let mut memories = by_words?;
        let like = like?;
        let known = |id: &String| memories.iter().any(|memory| memory.id == *id);
        let unread: Vec<String> = like.iter().flatten().filter(|id| !known(id)).cloned().collect();
        if !unread.is_empty() {
            let found = self.engine.session_store().memories_at(self.tenant, &unread).await?;
            memories.extend(found.into_iter().filter(|memory| memory.owner == self.owner));
        }
        let has_profile = memories.iter().any(|memory| memory.profile().is_some());
        let occasion = RecallOccasion { message: text, first_turn: begun.opened, now };
        let path = if like.is_some() { "hybrid" } else { "lexical" };
        let picked = recall::recall(&occasion, &memories, &like.unwrap_or_default());
        let agent = self.session.details.agent_slug.as_deref();
        let lessons = self.engine.lessons_for(self.tenant, agent, text).await?;
        Ok(Recalled { picked, has_profile, now, path, lessons })
    }

    /// The memories that match the words of a message, with those that every turn gets.
    async fn by_words(&self, words: Vec<String>, opened: bool) -> Result<Vec<Memory>, Error> {
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

    /// Memories similar to a message, most similar first. `None`: no embedding is available.
    async fn like(&self, text: &str) -> Result<Option<Vec<String>>, Error> {
        match self.likeness {
            Some(likeness) => {
                likeness.like(&**self.engine.session_store(), self.tenant, &self.owner, text).await
            }
            None => Ok(None),
        }
    }

    /// What a sitting leaves: its arc, and what was said often enough to be kept. Nothing, if the person asked for
    /// that.
    pub(super) async fn harvest(
        &self,
        open: &Sitting,
        said: &[Event],
        summary: Option<&Summary>,
    ) -> Result<Kept, Error> {
        let now = self.engine.tenant_store().now().await?;
        let mine: Vec<(u64, String)> = said
            .iter()
            .filter(|event| event.kind.as_str() == "user.message")
            .filter_map(|event| Some((event.sequence, event.text()?)))
            .collect();
        let mut kept = Kept::default();
        if open.buffer.emptied {
            return Ok(kept);
        }
        let turns: Vec<ReviewedTurn<'_>> =
            mine.iter().map(|(sequence, text)| ReviewedTurn { sequence: *sequence, text }).collect();
        let texts: Vec<String> =
            open.buffer.candidates.iter().map(|candidate| candidate.what.text()).collect();
        let known = self.known_like(&texts).await?;
        let arcs = match texts.is_empty() {
            true => Vec::new(),
            false => self.find(MemoryKind::Arc, Vec::new(), limits::EARLIER_ARCS_MAX).await?,
        };
        let earlier: Vec<&str> = arcs
            .iter()
            .filter_map(Memory::arc)
            .flat_map(|arc| arc.mentioned.iter().map(String::as_str))
            .collect();
        let evidence = SittingReview {
            owner: &self.owner,
            session: self.session.id.as_str(),
            turns: &turns,
            memories: &known,
            earlier: &earlier,
        };
        let promoted = promote::promote(&open.buffer, &evidence);
        if let Some(summary) = summary {
            let number = open.number.to_string();
            let id = derived_id(&["arc", &self.session.head.incarnation.0.to_string(), &number]);
            let frame = SittingFacts {
                session: self.session.id.to_string(),
                started_at: open.opened_at.unwrap_or(now),
                ended_at: open.active_at.unwrap_or(now),
                turn_count: u32::try_from(open.turns).unwrap_or(u32::MAX),
                approach: open.buffer.main_approach().map(str::to_owned),
                crisis_level_max: open.crisis_max,
                mentioned: promote::unkept(&open.buffer, &promoted),
                sequences: mine.iter().map(|(sequence, _)| *sequence).collect(),
            };
            let arc = Memory {
                id: id.clone(),
                owner: self.owner.clone(),
                body: MemoryBody::Arc(summary.clone().into_arc(frame)),
                created_at: now,
                last_referenced_at: now,
                dormant_at: None,
            };
            kept.arc = Some(id);
            kept.records.push(Record::PutMemory(Box::new(arc)));
        }
        kept.records.extend(self.reconciled(promoted, now).await?);
        Ok(kept)
    }

    /// The owner's facts that share a word with any of these, and the profile.
    async fn known_like(&self, texts: &[String]) -> Result<Vec<Memory>, Error> {
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

    async fn reconciled(&self, promoted: Promotion, now: Timestamp) -> Result<Vec<Record>, Error> {
        let texts: Vec<String> = promoted.facts.iter().map(|fact| fact.sentence()).collect();
        let known = self.known_like(&texts).await?;
        let put = reconcile::reconcile(&self.owner, promoted, &known, now);
        Ok(put.into_iter().map(|memory| Record::PutMemory(Box::new(memory))).collect())
    }

    /// What a spoken conversation is told of its person: how they want to be talked to, and nothing else unasked.
    pub(super) async fn rules_text(&self) -> Result<String, Error> {
        let profile = self.profile().await?;
        let picked = RecalledMemories {
            rules: profile
                .as_ref()
                .and_then(Memory::profile)
                .map(|one| one.rules.clone())
                .unwrap_or_default(),
            ..RecalledMemories::default()
        };
        let mut text = picked.text(limits::VOICE_MEMORY_CHARS_MAX);
        let on = profile.as_ref().and_then(Memory::profile).is_some_and(|profile| profile.recall_enabled);
        if !on && !text.is_empty() {
            let note = "\nDo not bring up the past unless the person does.";
            if text.chars().count() + note.chars().count() <= limits::VOICE_MEMORY_CHARS_MAX {
                text.push_str(note);
            }
        }
        Ok(text)
    }

    /// Memories about a subject that the person explicitly asks for.
    pub(super) async fn asked_for(&self, query: &str) -> Result<Vec<String>, Error> {
        let found = self.listed(query).await?;
        Ok(found.iter().filter_map(ForgetTarget::of).map(|target| target.label).collect())
    }
}

/// The deletion that waits for a yes, if the speaker is the person who was asked. Another person's yes does not
/// count.
fn pending_of(begun: &RunningTurn) -> Option<PendingDeletion> {
    let at = |key| begun.talk.state.at("memory_control", key);
    let asked = at("asked_by").and_then(Value::as_str);
    let speaks = begun.speaker.user.as_ref().map(UserId::as_str);
    let pending = at("pending_action").filter(|_| asked == speaks)?;
    serde_json::from_value(pending.clone()).ok()
}

impl Recalled {
    pub(super) fn lines(&self) -> Vec<String> {
        self.picked.lines()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.picked.memories().map(|memory| memory.id.as_str())
    }

    /// The facts, each in the person's own words.
    pub(super) fn facts_as_told(&self) -> Vec<String> {
        self.picked.facts.iter().filter_map(Memory::fact).map(Fact::label).collect()
    }

    /// A sentence about the last sitting, for a model that cannot mention it itself. `None` if the person has
    /// switched recall off.
    pub(super) fn opening(&self) -> Option<String> {
        if self.has_profile && !self.picked.may_bring_up {
            return None;
        }
        let arc = self.picked.catch_up.as_ref().and_then(Memory::arc)?;
        // A sitting with a crisis is not mentioned in passing.
        if arc.themes.is_empty() || arc.crisis_level_max >= Level::Serious.number() {
            return None;
        }
        Some(format!("Last time we talked about {}. ", summary::listed(&arc.themes)))
    }

    /// How the memories were found.
    pub(super) fn path(&self) -> Option<&'static str> {
        (self.picked.memories().next().is_some()).then_some(self.path)
    }

    /// The ids for the event that says what entered the prompt.
    pub(super) fn injected(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut said = Vec::new();
        let ids: Vec<String> = self.ids().map(str::to_owned).collect();
        if !ids.is_empty() {
            said.push(("memory", ids));
        }
        if !self.picked.rules.is_empty() {
            said.push(("rules", self.picked.rules.iter().map(|rule| rule.id.clone()).collect()));
        }
        if !self.lessons.is_empty() {
            said.push((shown::INJECTED, self.lessons.iter().map(|lesson| lesson.id.clone()).collect()));
        }
        said
    }

    /// Notes that these were used; memories at most once a day each: a turn is not worth a write for every one it reads.
    pub(super) fn touched(&self) -> Vec<Record> {
        let taught = (!self.lessons.is_empty()).then(|| shown::counted(&self.lessons));
        let remembered = self
            .picked
            .memories()
            .filter(|memory| memory.last_referenced_at.plus(limits::REFERENCED_GRAIN) <= self.now)
            .map(|memory| {
                Record::PutMemory(Box::new(Memory { last_referenced_at: self.now, ..memory.clone() }))
            });
        remembered.chain(taught).collect()
    }
}
