//! The rules once more, as plainly as possible: maps, vectors and `if`s. No clock, no store, no code of the engine.

use std::collections::BTreeMap;

use crate::script::{Command, Epoch, SESSION_TYPES, TARGETS, TYPES, Who};

const LEASE: u64 = 600;
const WEEK: u64 = 7 * 86_400;
const THREE_DAYS: u64 = 3 * 86_400;

#[derive(Clone, Debug)]
pub struct Row {
    pub kind: &'static str,
    pub status: &'static str,
    pub inactive: bool,
    pub talk: bool,
    pub external: bool,
    pub holder: Option<Who>,
    pub people: Vec<Who>,
    pub log: Vec<(String, Option<u8>)>,
    pub epoch: u64,
    pub claim: Option<(Who, u64)>,
    pub attempts: u32,
    pub stop: bool,
    priority: i32,
    born: u64,
    last_at: u64,
    deadline: Option<u64>,
    retried: bool,
}

#[derive(Debug, Default)]
pub struct Model {
    pub rows: BTreeMap<String, Row>,
    now: u64,
    births: u64,
}

/// The answer of a command: `ok` or an error code, and what else is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: &'static str,
    /// Sequences, or sessions claimed in order.
    pub detail: Vec<String>,
}

fn ok() -> Answer {
    Answer { code: "ok", detail: Vec::new() }
}

fn no(code: &'static str) -> Answer {
    Answer { code, detail: Vec::new() }
}

fn terminal(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "expired" | "abandoned")
}

fn live(status: &str) -> bool {
    matches!(status, "pending" | "running" | "waiting_human" | "awaiting_tool")
}

/// The error for a caller that must hold a claim, on a session that does not exist: a worker learns no more than of
/// one that it does not hold.
fn unclaimed(who: Who) -> &'static str {
    if is_worker(who) { "fenced" } else { "not_found" }
}

/// Whether people fill sessions of this type in: silence ends them, and no worker gets them unasked.
fn has_form(kind: &str) -> bool {
    matches!(kind, "response" | "tool")
}

fn is_worker(who: Who) -> bool {
    matches!(who, Who::WorkerOne | Who::WorkerTwo)
}

fn user(who: Who) -> Option<Who> {
    matches!(who, Who::Ann | Who::Bob | Who::Guest).then_some(who)
}

impl Row {
    fn sees(&self, who: Who) -> bool {
        match who {
            Who::Owner => true,
            Who::Ann | Who::Bob | Who::Guest => self.holder == Some(who) || self.people.contains(&who),
            Who::WorkerOne | Who::WorkerTwo => self.claim.is_some_and(|(by, _)| by == who),
        }
    }

    fn holds_claim(&self, who: Who, epoch: Option<u64>, now: u64) -> bool {
        epoch == Some(self.epoch) && self.claim.is_some_and(|(by, until)| by == who && until > now)
    }

    fn enter(&mut self, status: &'static str, now: u64) {
        self.log.push(("session.status_change".into(), None));
        self.status = status;
        self.claim = None;
        if status != "running" {
            self.stop = false;
        }
        self.last_at = now;
        let form_open = has_form(self.kind) && matches!(status, "draft" | "running");
        let waits = matches!(status, "pending" | "waiting_human" | "awaiting_tool");
        self.deadline = (form_open || waits).then_some(now + WEEK);
    }
}

impl Model {
    pub fn epoch_of(&self, id: &str, epoch: Epoch) -> Option<u64> {
        let current = self.rows.get(id).map_or(1, |row| row.epoch);
        match epoch {
            Epoch::None => None,
            Epoch::Current => Some(current),
            Epoch::Old => Some(current.saturating_sub(1)),
        }
    }

    pub fn run(&mut self, command: &Command) -> Answer {
        match command {
            Command::Open { who, id, kind, pending, external, with_bob, priority } => {
                self.open(*who, *id, *kind, *pending, *external, *with_bob, *priority)
            }
            Command::Append { who, id, types, epoch, expected, external } => {
                self.append(*who, &name(*id), types, *epoch, *expected, *external)
            }
            Command::Read { who, id } => match self.rows.get(&name(*id)) {
                Some(row) if row.sees(*who) => {
                    Answer { code: "ok", detail: row.log.iter().map(|(kind, _)| kind.clone()).collect() }
                }
                _ => no("not_found"),
            },
            Command::Patch { who, id, .. } => match self.rows.get(&name(*id)) {
                Some(row) if row.sees(*who) => {
                    if is_worker(*who) {
                        no("denied")
                    } else {
                        ok()
                    }
                }
                _ => no("not_found"),
            },
            Command::Transition { who, id, to } => self.transition(*who, &name(*id), TARGETS[*to]),
            Command::Claim { who, limit } => self.claim(*who, *limit),
            Command::Heartbeat { who, id, epoch } => {
                let now = self.now;
                let epoch = self.epoch_of(&name(*id), *epoch);
                if !is_worker(*who) && *who != Who::Owner {
                    return no("denied");
                }
                match self.rows.get_mut(&name(*id)) {
                    None => no(unclaimed(*who)),
                    Some(row) if row.holds_claim(*who, epoch, now) => {
                        row.claim = Some((*who, now + LEASE));
                        Answer { code: "ok", detail: vec![row.stop.to_string()] }
                    }
                    Some(_) => no("fenced"),
                }
            }
            Command::Settle { who, id, epoch, how } => self.settle(*who, &name(*id), *epoch, *how),
            Command::Stop { who, id } => self.stop(*who, &name(*id)),
            Command::Retry { who, id } => match self.rows.get(&name(*id)) {
                Some(row) if row.sees(*who) => {
                    if is_worker(*who) || *who == Who::Guest {
                        no("denied")
                    } else if matches!(row.kind, "response" | "tool") {
                        no("type_mismatch")
                    } else if *who != Who::Owner && row.epoch == 0 {
                        // Without a task, an owner may queue a session that no worker has had.
                        no("denied")
                    } else if matches!(row.status, "failed" | "expired" | "abandoned") {
                        let mut again = row.clone();
                        again.status = "pending";
                        again.log = vec![("session.created".into(), None)];
                        again.claim = None;
                        again.epoch = 0;
                        again.attempts = 0;
                        again.stop = false;
                        again.inactive = false;
                        again.talk = false;
                        again.deadline = Some(self.now + WEEK);
                        again.last_at = self.now;
                        again.born = self.births;
                        again.retried = true;
                        self.births += 1;
                        let id = format!("retry-{}", again.born);
                        self.rows.insert(id, again);
                        ok()
                    } else {
                        no("invalid_transition")
                    }
                }
                _ => no("not_found"),
            },
            Command::Delete { who, id } => self.delete(*who, &name(*id)),
            Command::Advance { seconds } => {
                self.now += seconds;
                ok()
            }
            Command::Sweep => {
                self.sweep();
                ok()
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    fn open(
        &mut self,
        who: Who,
        id: usize,
        kind: usize,
        pending: bool,
        external: bool,
        with_bob: bool,
        priority: i32,
    ) -> Answer {
        if is_worker(who) || who == Who::Guest {
            return no("denied");
        }
        let kind = SESSION_TYPES[kind];
        if let Some(row) = self.rows.get_mut(&name(id)) {
            if !row.sees(who) {
                return no("not_found");
            }
            if row.kind != kind {
                return no("type_mismatch");
            }
            if !terminal(row.status) {
                row.inactive = false;
            }
            return Answer { code: "ok", detail: vec!["reopened".into()] };
        }
        if who != Who::Owner && (pending || external || priority != 0) {
            return no("denied");
        }
        if pending && kind == "tool" {
            return no("invalid");
        }
        let status = match (pending, kind) {
            (true, _) => "pending",
            (false, "mixed") => "idle",
            _ => "draft",
        };
        let mut people: Vec<Who> = if with_bob { vec![Who::Bob] } else { Vec::new() };
        people.extend(user(who));
        let mut row = Row {
            kind,
            status,
            inactive: false,
            talk: kind == "mixed" && status == "idle",
            external,
            holder: user(who),
            people,
            log: Vec::new(),
            epoch: 0,
            claim: None,
            attempts: 0,
            stop: false,
            priority,
            born: self.births,
            last_at: self.now,
            deadline: None,
            retried: false,
        };
        self.births += 1;
        row.enter(status, self.now);
        row.log = vec![("session.created".into(), None)];
        self.rows.insert(name(id), row);
        Answer { code: "ok", detail: vec!["created".into()] }
    }

    fn append(
        &mut self,
        who: Who,
        id: &str,
        types: &[usize],
        epoch: Epoch,
        expected: Option<i64>,
        external: Option<u8>,
    ) -> Answer {
        let now = self.now;
        let epoch = self.epoch_of(id, epoch);
        let Some(row) = self.rows.get_mut(id) else {
            return no(if epoch.is_some() { unclaimed(who) } else { "not_found" });
        };
        let types: Vec<&str> = types.iter().map(|n| TYPES[*n]).collect();
        let claim = row.holds_claim(who, epoch, now);
        let speaks = match who {
            Who::Owner => true,
            Who::Ann | Who::Bob | Who::Guest => row.holder == Some(who) || row.people.contains(&who),
            Who::WorkerOne | Who::WorkerTwo => false,
        };
        if !speaks && !claim {
            let had = row.claim.is_some_and(|(by, _)| by == who);
            return if is_worker(who) && (epoch.is_some() || had) { no("fenced") } else { no("not_found") };
        }
        if types.contains(&"session.error") {
            return no("denied");
        }
        if epoch.is_some() && !claim {
            return no("fenced");
        }
        if row.kind == "tool" && types.contains(&"tool.invocation_started") {
            return no("denied");
        }
        if terminal(row.status) && types.iter().any(|kind| *kind != "external.event") {
            return no("session_closed");
        }
        if types.iter().any(|kind| matches!(*kind, "agent.message" | "tool.invocation_started")) && !claim {
            if row.claim.is_some() {
                return no("fenced");
            }
            let holds = user(who).is_some() && row.holder == user(who);
            if !(row.external && (holds || who == Who::Owner)) {
                return no("denied");
            }
        }
        if types.contains(&"human.marker") {
            return no("denied");
        }
        if types.contains(&"user.message") && !speaks {
            return no("denied");
        }
        if let Some(off) = expected
            && off != 0
        {
            return no("sequence_mismatch");
        }
        let mut sequences = Vec::new();
        for (n, kind) in types.iter().enumerate() {
            let external = external.filter(|_| n == 0);
            if let Some(external) = external
                && let Some(first) = row.log.iter().position(|(_, known)| *known == Some(external))
            {
                sequences.push((first + 1).to_string());
                continue;
            }
            row.log.push(((*kind).into(), external));
            row.last_at = now;
            if has_form(row.kind) && row.claim.is_none() && matches!(row.status, "draft" | "running") {
                row.deadline = Some(now + WEEK);
            }
            sequences.push(row.log.len().to_string());
        }
        if claim && row.stop {
            sequences.push("stop".into());
        }
        Answer { code: "ok", detail: sequences }
    }

    fn transition(&mut self, who: Who, id: &str, to: &'static str) -> Answer {
        let now = self.now;
        let Some(row) = self.rows.get_mut(id).filter(|row| row.sees(who)) else { return no("not_found") };
        if is_worker(who) {
            return no("denied");
        }
        let owner = who == Who::Owner;
        let holds = user(who).is_some() && row.holder == user(who);
        let from = row.status;
        match (from, to) {
            ("draft", "pending") if has_form(row.kind) => return no("type_mismatch"),
            ("draft", "pending") if !owner => return no("denied"),
            ("draft", "pending") => {}
            ("idle", "running") | ("running", "idle") if row.external => {
                if !(owner || holds) {
                    return no("denied");
                }
                if row.claim.is_some() {
                    return no("invalid_transition");
                }
            }
            (_, "expired") if !owner => return no("denied"),
            ("pending", "abandoned") if !owner => {
                return if holds { no("invalid_transition") } else { no("denied") };
            }
            (_, "abandoned") if !(owner || holds) => return no("denied"),
            (_, "expired" | "abandoned") => {}
            _ => return no("invalid_transition"),
        }
        if terminal(from) || (row.talk && (terminal(to) || to == "pending")) {
            return no("invalid_transition");
        }
        row.enter(to, now);
        ok()
    }

    fn claim(&mut self, who: Who, limit: usize) -> Answer {
        if !is_worker(who) && who != Who::Owner {
            return no("denied");
        }
        let now = self.now;
        let mut pending: Vec<(&String, &mut Row)> =
            self.rows.iter_mut().filter(|(_, row)| row.status == "pending" && !has_form(row.kind)).collect();
        pending.sort_by_key(|(_, row)| (-row.priority, row.born));
        let mut taken = Vec::new();
        for (id, row) in pending.into_iter().take(limit) {
            let stop = row.stop;
            row.log.push(("session.claimed".into(), None));
            row.enter("running", now);
            row.deadline = None;
            row.stop = stop;
            row.epoch += 1;
            row.attempts += 1;
            row.claim = Some((who, now + LEASE));
            taken.push(if row.retried {
                format!("retry {}", row.epoch)
            } else {
                format!("{id} {}", row.epoch)
            });
        }
        Answer { code: "ok", detail: taken }
    }

    fn settle(&mut self, who: Who, id: &str, epoch: Epoch, how: usize) -> Answer {
        let now = self.now;
        let epoch = self.epoch_of(id, epoch);
        if !is_worker(who) && who != Who::Owner {
            return no("denied");
        }
        let Some(row) = self.rows.get_mut(id) else { return no(unclaimed(who)) };
        if !row.holds_claim(who, epoch, now) {
            return no("fenced");
        }
        let stop = row.stop;
        match how {
            0 => {
                row.enter("completed", now);
                row.log.push(("session.completed".into(), None));
            }
            _ if stop => row.enter("abandoned", now),
            1 | 2 => {
                row.log.push(("session.error".into(), None));
                let again = how == 1 && row.attempts < 3;
                row.enter(if again { "pending" } else { "failed" }, now);
            }
            3 => row.enter("awaiting_tool", now),
            4 => row.enter("waiting_human", now),
            _ => row.enter("idle", now),
        }
        Answer { code: "ok", detail: vec![row.status.into()] }
    }

    fn stop(&mut self, who: Who, id: &str) -> Answer {
        let now = self.now;
        let Some(row) = self.rows.get_mut(id).filter(|row| row.sees(who)) else { return no("not_found") };
        if is_worker(who) || who == Who::Guest {
            return no("denied");
        }
        if terminal(row.status) {
            return no("session_closed");
        }
        if row.status == "pending" && who != Who::Owner {
            return no("denied");
        }
        if row.claim.is_some() {
            row.stop = true;
        } else if row.talk {
            if row.status != "idle" {
                row.enter("idle", now);
            }
        } else {
            row.enter("abandoned", now);
        }
        ok()
    }

    fn delete(&mut self, who: Who, id: &str) -> Answer {
        let Some(row) = self.rows.get(id).filter(|row| row.sees(who)) else { return no("not_found") };
        let holds = user(who).is_some() && row.holder == user(who);
        if !(who == Who::Owner || (holds && who != Who::Guest)) {
            return no("denied");
        }
        if matches!(row.status, "running" | "waiting_human" | "awaiting_tool") {
            return no("session_running");
        }
        self.rows.remove(id);
        ok()
    }

    fn sweep(&mut self) {
        let now = self.now;
        for row in self.rows.values_mut() {
            if let Some((_, until)) = row.claim {
                if until > now {
                    continue;
                }
                if row.stop {
                    row.enter("abandoned", now);
                } else if row.attempts < 3 {
                    row.enter("pending", now);
                } else {
                    row.log.push(("session.error".into(), None));
                    row.enter("failed", now);
                }
                continue;
            }
            if row.deadline.is_some_and(|deadline| deadline <= now) {
                let form_open = has_form(row.kind) && matches!(row.status, "draft" | "running");
                let to = if form_open {
                    "abandoned"
                } else if row.talk {
                    "idle"
                } else {
                    "expired"
                };
                row.enter(to, now);
            }
            if !row.inactive && !live(row.status) && row.last_at + THREE_DAYS < now {
                row.inactive = true;
            }
        }
    }
}

pub fn name(id: usize) -> String {
    format!("s{id}")
}
