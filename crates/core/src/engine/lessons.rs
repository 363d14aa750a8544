//! Commands on lessons: finding them, giving them to agents, and people's decisions on them.

use std::collections::HashMap;
use std::time::Instant;

use dashmap::DashMap;
use smallvec::smallvec;

use super::people::audit;
use super::sessions::check_limit;
use super::work::fence;
use super::{Decided, Engine};
use crate::access::{self, Actor, Right, Role, Verb, right};
use crate::error::{Error, Result};
use crate::feedback::capture::{self, EventBody};
use crate::feedback::secret;
use crate::ids::{SessionId, TenantId, check_text};
use crate::lesson::rule::{self, LessonRule};
use crate::lesson::shown::{self, LessonAudience};
use crate::lesson::{
    Lesson, LessonCategory, LessonGround, LessonQuery, LessonSource, LessonState, LessonTouch, Polarity,
};
use crate::limits;
use crate::memory::words;
use crate::session::query::Page;
use crate::store::{Change, ChangePart, Guard, PartTarget, Record, Write};
use crate::time::Timestamp;

/// A caller's search for lessons.
#[derive(Clone, Debug, Default)]
pub struct LessonSearch {
    pub query: Option<String>,
    pub states: Vec<LessonState>,
    pub polarity: Option<Polarity>,
    pub category: Option<LessonCategory>,
    pub tags: Vec<String>,
    pub after: Option<i64>,
    pub limit: usize,
}

/// A person's decision on a lesson.
#[derive(Clone, Debug, Default)]
pub struct LessonPatch {
    /// Active accepts it, retired takes it out of use.
    pub state: Option<LessonState>,
    pub text: Option<String>,
    pub tags: Option<Vec<String>>,
}

/// Candidates that are ranked to find the lessons for a task.
const CANDIDATES_MAX: usize = 50;
const NEWEST_MAX: usize = 20;

/// Tenants that had no lesson for agents a moment ago: most tenants have none, and are not asked again for a while.
#[derive(Debug, Default)]
pub(super) struct LessonlessTenants(DashMap<TenantId, Instant>);

impl LessonlessTenants {
    fn holds(&self, tenant: &TenantId) -> bool {
        self.0.get(tenant).is_some_and(|since| since.elapsed() < limits::LESSONS_LOOK_AGAIN)
    }

    fn note(&self, tenant: &TenantId) {
        self.0.insert(tenant.clone(), Instant::now());
    }

    pub(super) fn forget(&self, tenant: &TenantId) {
        self.0.remove(tenant);
    }
}

impl Engine {
    /// Matching lessons, the best first, or the newest where no words are given. Provenance is left out where the
    /// caller may not read the session.
    pub async fn search_lessons(&self, actor: &Actor, search: LessonSearch) -> Result<Page<Lesson, i64>> {
        access::check_general(actor, Verb::Learn)?;
        check_limit(search.limit)?;
        let words = search.query.unwrap_or_default();
        check_text("q", &words, limits::QUERY_CHARS_MAX)?;
        let query = LessonQuery {
            words: Some(words).filter(|words| !words.trim().is_empty()).into_iter().collect(),
            states: search.states,
            polarity: search.polarity,
            category: search.category,
            tags: search.tags.iter().map(|tag| tag.trim().to_lowercase()).collect(),
            after: search.after,
            limit: search.limit,
            ..LessonQuery::default()
        };
        let found = self.tenant.lessons(&actor.tenant, query).await?;
        Ok(Page { items: self.seen_by(actor, found.items).await?, next: found.next })
    }

    /// One lesson, if the caller may see it.
    pub async fn lesson(&self, actor: &Actor, id: &str) -> Result<Lesson> {
        access::check_general(actor, Verb::Learn)?;
        let found = self.tenant.lesson(&actor.tenant, id).await?;
        self.seen_by(actor, found.into_iter().collect()).await?.pop().ok_or(Error::NotFound)
    }

    /// The lessons for what the caller is about to do; counted as shown.
    pub async fn retrieve_lessons(&self, actor: &Actor, about: &str, most: usize) -> Result<Vec<Lesson>> {
        access::check_general(actor, Verb::Learn)?;
        check_limit(most)?;
        check_text("query", about, limits::EXTRACT_CHARS_MAX)?;
        let query = LessonQuery {
            words: vec![about.to_owned()],
            states: vec![LessonState::Active],
            limit: CANDIDATES_MAX.max(most),
            ..LessonQuery::default()
        };
        let found = self.tenant.lessons(&actor.tenant, query).await?.items;
        let found = self.seen_by(actor, found).await?;
        let picked = shown::pick(about, found, LessonAudience::Asker, most, self.tenant.now().await?);
        self.count_shown(&actor.tenant, &picked).await?;
        Ok(picked)
    }

    /// What is known about a subject, lessons and rules, as a page of Markdown.
    pub async fn recall_lessons(&self, actor: &Actor, query: &str, most: usize) -> Result<String> {
        let lessons = self.retrieve_lessons(actor, query, most).await?;
        let rules = self.prevention_rules(actor, limits::RULE_OCCURRENCES).await?;
        Ok(shown::pack(query, &lessons, &rules))
    }

    /// The rules that came up in at least `occurrences_min` feedbacks, the weightiest first.
    pub async fn prevention_rules(&self, actor: &Actor, occurrences_min: u64) -> Result<Vec<LessonRule>> {
        access::check_general(actor, Verb::Learn)?;
        let query = LessonQuery {
            states: vec![LessonState::Active],
            polarity: Some(Polarity::Negative),
            occurrences_min: occurrences_min.max(1),
            limit: limits::PAGE_ROWS_MAX,
            ..LessonQuery::default()
        };
        let now = self.tenant.now().await?;
        let found = self.seen_by(actor, self.tenant.lessons(&actor.tenant, query).await?.items).await?;
        let mut rules: Vec<LessonRule> =
            found.iter().filter_map(|lesson| rule::of(lesson, occurrences_min, now)).collect();
        rules.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.lesson.id.cmp(&b.lesson.id)));
        rules.truncate(limits::RULES_LISTED_MAX);
        Ok(rules)
    }

    /// Applies a person's decision to a lesson: accepts, rewords or retires it.
    pub async fn change_lesson(&self, actor: &Actor, id: &str, patch: LessonPatch) -> Result<Lesson> {
        access::check_general(actor, Verb::Learn)?;
        let (text, tags) = checked(&patch)?;
        self.decide_and_commit(|| {
            Box::pin(async {
                let found = self.tenant.lesson(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
                if self.seen_by(actor, vec![found.clone()]).await?.is_empty() {
                    return Err(Error::NotFound);
                }
                access::check_general(actor, Verb::Teach)?;
                let by = actor.user.as_ref().map(ToString::to_string);
                let touch = LessonTouch { by, at: self.tenant.now().await? };
                let expects = Some(found.version);
                let changed = changed(found, patch.state, text.as_deref(), tags.as_deref(), &touch);
                let change = Change::new(actor.tenant.clone())
                    .record(Record::PutLesson { lesson: Box::new(changed), expects })
                    .audited(audit(actor, "lesson.change", id));
                Ok(Decided::<()>::change(change))
            })
        })
        .await?;
        self.untaught.forget(&actor.tenant);
        self.lesson(actor, id).await
    }

    /// The lessons that an agent is given for what it is about to do. Costs next to nothing where there are none.
    pub async fn lessons_for(
        &self,
        tenant: &TenantId,
        agent: Option<&str>,
        about: &str,
    ) -> Result<Vec<Lesson>> {
        if self.untaught.holds(tenant) {
            return Ok(Vec::new());
        }
        let query = LessonQuery {
            states: vec![LessonState::Active],
            agent: Some(agent.map(str::to_owned)),
            limit: NEWEST_MAX,
            ..LessonQuery::default()
        };
        let mut found = self.tenant.lessons(tenant, query.clone()).await?.items;
        if found.is_empty() {
            self.untaught.note(tenant);
            return Ok(found);
        }
        if found.len() == NEWEST_MAX && !words::set(about).is_empty() {
            let about: String = about.chars().take(limits::EXTRACT_CHARS_MAX).collect();
            let more = LessonQuery { words: vec![about], limit: CANDIDATES_MAX, ..query };
            let more = self.tenant.lessons(tenant, more).await?.items;
            found.retain(|lesson| more.iter().all(|other| other.id != lesson.id));
            found.extend(more);
        }
        let now = self.tenant.now().await?;
        Ok(shown::pick(about, found, LessonAudience::Agent(agent), limits::LESSONS_SHOWN_MAX, now))
    }

    /// Records in the log that a run was given these lessons, and counts them as shown.
    pub async fn show_lessons(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        lessons: &[Lesson],
    ) -> Result<()> {
        access::check_general(actor, Verb::Work)?;
        let part = ChangePart {
            on: PartTarget::Session(id.clone()),
            guard: Guard { fence: Some(fence(actor, epoch)), ..Guard::default() },
            writes: smallvec![Write::Append(vec![shown::injected(lessons)?])],
        };
        let change = Change::new(actor.tenant.clone()).part(part).record(shown::counted(lessons));
        self.commit(change).await.map(drop)
    }

    async fn count_shown(&self, tenant: &TenantId, lessons: &[Lesson]) -> Result<()> {
        if lessons.is_empty() {
            return Ok(());
        }
        let change = Change::new(tenant.clone()).record(shown::counted(lessons));
        self.commit(change).await.map(drop)
    }

    /// Lessons about the same subject as a feedback.
    pub(super) async fn known_about(
        &self,
        actor: &Actor,
        body: &EventBody,
        most: usize,
    ) -> Result<Vec<Lesson>> {
        let about = body.words.fields().map(|(_, text)| text).chain(body.tags.iter().map(String::as_str));
        let about = about.collect::<Vec<_>>().join(" ");
        let query = LessonQuery {
            words: vec![about.clone()],
            states: vec![LessonState::Active],
            limit: CANDIDATES_MAX,
            ..LessonQuery::default()
        };
        let found = self.tenant.lessons(&actor.tenant, query).await?.items;
        let found = self.seen_by(actor, found).await?;
        Ok(shown::pick(&about, found, LessonAudience::Asker, most, self.tenant.now().await?))
    }

    /// The lessons that the caller may see, with the provenance that it may see.
    async fn seen_by(&self, actor: &Actor, lessons: Vec<Lesson>) -> Result<Vec<Lesson>> {
        if actor.role == Role::Owner {
            return Ok(lessons);
        }
        let all = right(actor.role, Verb::Learn) == Right::All;
        let mut readable: HashMap<SessionId, bool> = HashMap::new();
        let mut seen = Vec::with_capacity(lessons.len());
        for mut lesson in lessons {
            let mut kept: Vec<LessonSource> = Vec::new();
            for source in std::mem::take(&mut lesson.body.sources) {
                if self.may_trace(actor, &source, &mut readable).await? {
                    kept.push(source);
                }
            }
            if all || !kept.is_empty() {
                lesson.body.sources = kept;
                seen.push(lesson);
            }
        }
        Ok(seen)
    }

    /// Whether a caller may see where a lesson came up: it wrote the feedback itself, or may read the session.
    async fn may_trace(
        &self,
        actor: &Actor,
        source: &LessonSource,
        readable: &mut HashMap<SessionId, bool>,
    ) -> Result<bool> {
        if source.author.is_some()
            && source.author.as_deref() == actor.user.as_ref().map(crate::UserId::as_str)
        {
            return Ok(true);
        }
        let Some(id) = source.session.as_deref().map(SessionId::stored) else { return Ok(false) };
        self.may_read(actor, &id, readable).await
    }

    /// Whether a caller may read a session; looked up once per session.
    pub(super) async fn may_read(
        &self,
        actor: &Actor,
        id: &SessionId,
        readable: &mut HashMap<SessionId, bool>,
    ) -> Result<bool> {
        if let Some(known) = readable.get(id) {
            return Ok(*known);
        }
        let may = match self.load(actor, Verb::Read, id).await {
            Ok(_) => true,
            Err(Error::NotFound | Error::Denied(_)) => false,
            Err(error) => return Err(error),
        };
        readable.insert(id.clone(), may);
        Ok(may)
    }
}

fn checked(patch: &LessonPatch) -> Result<(Option<String>, Option<Vec<String>>)> {
    if patch.state == Some(LessonState::Proposed) {
        return Err(Error::invalid("state", "must be active or retired"));
    }
    let text = patch.text.as_ref().map(|text| text.trim().to_owned());
    if let Some(text) = &text {
        check_text("text", text, limits::LESSON_CHARS_MAX)?;
        if words::set(text).is_empty() {
            return Err(Error::invalid("text", "must say something"));
        }
    }
    let tags = patch.tags.clone().map(capture::tags).transpose()?;
    let texts = text.iter().chain(tags.iter().flatten());
    if texts.into_iter().any(|text| secret::found(text).is_some()) {
        return Err(Error::invalid("text", "carries a secret; leave it out"));
    }
    Ok((text, tags))
}

fn changed(
    mut lesson: Lesson,
    state: Option<LessonState>,
    text: Option<&str>,
    tags: Option<&[String]>,
    touch: &LessonTouch,
) -> Lesson {
    let at: Timestamp = touch.at;
    if let Some(text) = text.filter(|text| *text != lesson.body.text) {
        lesson.body.text = text.to_owned();
        lesson.body.edited = Some(touch.clone());
    }
    if let Some(tags) = tags {
        lesson.body.tags = tags.to_vec();
    }
    match state {
        Some(LessonState::Active) => {
            lesson.state = LessonState::Active;
            lesson.body.accepted = Some(touch.clone());
            lesson.body.retired = None;
            lesson.believe(LessonGround::AcceptedByAPerson);
        }
        Some(LessonState::Retired) => {
            lesson.state = LessonState::Retired;
            lesson.body.retired = Some(touch.clone());
        }
        Some(LessonState::Proposed) | None => {}
    }
    lesson.updated_at = lesson.updated_at.max(at);
    lesson
}
