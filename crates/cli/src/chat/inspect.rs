//! Read-only commands: help, the state of a conversation, its messages, its fields.

use std::time::Instant;

use serde_json::{Value, json};

use super::commands::{COMMANDS, Length, MemoryKind, Scope};
use super::memory::words;
use super::render::{one_line, width, wrapped};
use super::repl::{Repl, patiently};
use crate::exit::{Exit, Failure, Result};
use crate::output::{Column, column, plain, table, time, visible};

const STATUS: &[Column] = &[
    column("conversation", |status| plain(&status["thread_id"])),
    column("user", |status| plain(&status["user_id"])),
    column("mode", |status| plain(&status["mode"])),
    column("tier", |status| plain(&status["tier"])),
    column(
        "sitting",
        |status| if status["has_active_session"] == true { "open".into() } else { "none open".into() },
    ),
    column("turns", |status| plain(&status["session"]["turn_count"])),
    column("messages", |status| plain(&status["session"]["message_count"])),
    column("last activity", |status| time(&status["session"]["last_activity_at"])),
];

const THREADS: &[Column] = &[
    column("CONVERSATION", |thread| plain(&thread["thread_id"])),
    column("TURNS", |thread| plain(&thread["turn_count"])),
    column("MESSAGES", |thread| plain(&thread["message_count"])),
    column("LAST", |thread| time(&thread["last_activity_at"])),
    column("TITLE", title),
];

/// The title of a conversation, or its description or last message.
fn title(thread: &Value) -> String {
    let named = ["title", "description", "preview"].iter().map(|field| plain(&thread[field]));
    named.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// Fields of an arc beside its summary.
const ARC_DETAILS: [(&str, &str); 5] = [
    ("Themes", "themes"),
    ("Mood at the beginning", "mood_opened"),
    ("Mood at the end", "mood_closed"),
    ("Still open", "open_loops"),
    ("Settled", "resolved_threads"),
];

/// State fields of a conversation, with names for people.
const CARRIED: [(&str, &str, &str); 6] = [
    ("Summary", "session_memory", "summary"),
    ("Concerns", "session_memory", "active_concerns"),
    ("Still open", "session_memory", "open_loops"),
    ("Exercise", "exercise_state", "exercise"),
    ("Waits for a yes", "memory_control", "pending_action"),
    ("Turns", "session_progress", "turn_count"),
];

/// What the keys do.
const KEYS: [(&str, &str); 8] = [
    ("Enter", "send"),
    ("Alt-Enter, or \\ and Enter", "begin another line"),
    ("Tab", "complete a command"),
    ("Up, Down", "go through what you typed before"),
    ("Ctrl-R", "search what you typed before"),
    ("Ctrl-C", "stop the reply; drop the line"),
    ("Ctrl-D", "leave, as /exit does"),
    ("//", "begin a message with a slash"),
];

impl Repl {
    pub fn help(&self) -> Result<()> {
        for entry in COMMANDS {
            let alias = entry.alias.map(|alias| format!(" (/{alias})")).unwrap_or_default();
            self.out.line(format!("{}{alias}", self.paint.bold(entry.usage)))?;
            self.out.line(format!("    {}", entry.about))?;
        }
        Ok(())
    }

    pub fn keys(&self) -> Result<()> {
        let rows: Vec<Vec<String>> =
            KEYS.iter().map(|(key, what)| vec![(*key).into(), (*what).into()]).collect();
        self.out.raw(table(&rows, None).as_bytes())
    }

    pub async fn status(&mut self) -> Result<()> {
        let mut status =
            patiently(&mut self.interrupts, self.talk.standing(&self.thread)).await.unwrap_or_default();
        if !status.is_object() {
            status = json!({});
        }
        let session = patiently(&mut self.interrupts, self.talk.session(&self.thread)).await;
        status["session"] = match session {
            Err(failure) if failure.exit() == Exit::NotFound => Value::Null,
            session => session?,
        };
        status["thread_id"] = self.thread.as_str().into();
        status["user_id"] = self.talk.user().into();
        status["mode"] = self.mode_name().into();
        status["tier"] = self.tier.as_str().into();
        self.out.thing(&status, STATUS)
    }

    pub fn mode(&self) -> Result<()> {
        if self.out.is_json() {
            return self.out.value(&json!({ "mode": self.mode_name() }));
        }
        self.out.line(if self.talk.is_incognito() {
            "incognito: this conversation lives in memory and is gone when you leave."
        } else {
            "persistent: this conversation and what is remembered of it are kept. Start with --incognito for one that is not."
        })
    }

    fn mode_name(&self) -> &'static str {
        if self.talk.is_incognito() { "incognito" } else { "persistent" }
    }

    /// Times each step of the way to the server.
    pub async fn doctor(&mut self) -> Result<()> {
        let mut ill = 0;
        for (what, at) in [("the server lives", 0), ("its store answers", 1), ("conversations are served", 2)]
        {
            let since = Instant::now();
            let checked = match at {
                0 => patiently(&mut self.interrupts, self.talk.health()).await,
                1 => patiently(&mut self.interrupts, self.talk.readiness()).await,
                _ => {
                    patiently(&mut self.interrupts, async { self.talk.threads(1).await.map(Value::from) })
                        .await
                }
            };
            let took = since.elapsed().as_millis();
            match checked {
                Ok(_) => self.out.line(format!("ok    {what} ({took} ms)"))?,
                Err(failure) => {
                    ill += 1;
                    self.out.line(format!("ill   {what}: {}", visible(failure.sentence())))?;
                }
            }
        }
        if ill == 0 {
            return Ok(());
        }
        Err(Failure::unavailable(format!("{ill} of 3 checks failed")))
    }

    pub async fn history(&mut self, count: usize) -> Result<()> {
        let said = patiently(&mut self.interrupts, self.talk.history(&self.thread, count)).await?;
        if self.out.is_json() {
            return self.out.value(&Value::Array(said));
        }
        if said.is_empty() {
            return self.aside("Nothing was said yet.");
        }
        for message in &said {
            let who = if message["role"] == "user" { "you" } else { "reply" };
            self.out.line(self.paint.dim(who))?;
            self.out.raw(wrapped(&plain(&message["text"]), width(), "  ").as_bytes())?;
        }
        Ok(())
    }

    pub async fn context(&mut self) -> Result<()> {
        let state = self.state().await?;
        if self.out.is_json() {
            return self.out.value(&state);
        }
        let mut rows = Vec::new();
        for (title, field, part) in CARRIED {
            let value = plain(&state[field][part]);
            if !value.is_empty() {
                rows.push(vec![title.to_owned(), value]);
            }
        }
        if rows.is_empty() {
            return self.aside("This conversation carries nothing along yet.");
        }
        for row in rows {
            self.out.raw(wrapped(&row.join(": "), width(), "").as_bytes())?;
        }
        Ok(())
    }

    pub async fn summary(&mut self, length: Length) -> Result<()> {
        let arcs = patiently(&mut self.interrupts, self.talk.memories(&self.thread, MemoryKind::Arc)).await?;
        if self.out.is_json() {
            return self.out.value(&Value::Array(arcs));
        }
        if arcs.is_empty() {
            return self.aside("No sitting was summed up yet. /end sums up this one.");
        }
        for arc in &arcs {
            self.out.raw(wrapped(&words(MemoryKind::Arc, arc), width(), "").as_bytes())?;
            for (name, field) in ARC_DETAILS.iter().filter(|_| length == Length::Full) {
                let value = plain(&arc[*field]);
                if !value.is_empty() {
                    self.out.raw(wrapped(&format!("{name}: {value}"), width(), "  ").as_bytes())?;
                }
            }
        }
        Ok(())
    }

    pub async fn debug_state(&mut self) -> Result<()> {
        let state = self.state().await?;
        self.out.value(&state)
    }

    /// The state; empty for a conversation that has not begun.
    async fn state(&mut self) -> Result<Value> {
        match patiently(&mut self.interrupts, self.talk.state(&self.thread)).await {
            Err(failure) if failure.exit() == Exit::NotFound => Ok(json!({})),
            state => state,
        }
    }

    pub async fn search(&mut self, scope: Scope, text: &str) -> Result<()> {
        let mut hits: Vec<Value> = Vec::new();
        if scope != Scope::Memory {
            let found = patiently(&mut self.interrupts, self.talk.search(text)).await?;
            hits.extend(
                found
                    .into_iter()
                    .filter(|hit| scope == Scope::All || hit["session_id"] == self.thread.as_str()),
            );
        }
        if scope != Scope::History {
            for kind in MemoryKind::ALL {
                let memories =
                    patiently(&mut self.interrupts, self.talk.memories(&self.thread, kind)).await?;
                let found =
                    memories.iter().map(|memory| words(kind, memory)).filter(|words| has_all(words, text));
                hits.extend(found.map(|words| json!({ "memory": kind.one(), "snippet": words })));
            }
        }
        if self.out.is_json() {
            return self.out.value(&Value::Array(hits));
        }
        if hits.is_empty() {
            return self.aside("Nothing was found.");
        }
        for hit in &hits {
            let place = match hit["memory"].as_str() {
                Some(kind) => kind.to_owned(),
                None if scope == Scope::History => format!("#{}", plain(&hit["sequence"])),
                None => format!("{} #{}", plain(&hit["session_id"]), plain(&hit["sequence"])),
            };
            let line = format!("{}  {}", visible(&place), plain(&hit["snippet"]));
            self.out.line(one_line(&line, width()))?;
        }
        Ok(())
    }

    pub async fn export(&mut self, format: &str, all: bool, file: Option<&str>) -> Result<()> {
        let asked = self.talk.export(&self.thread, format, all);
        let mut pieces = patiently(&mut self.interrupts, asked).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = patiently(&mut self.interrupts, pieces.next()).await? {
            bytes.extend_from_slice(&piece);
        }
        let Some(file) = file else {
            let text = String::from_utf8_lossy(&bytes);
            let shown = if self.is_terminal() { wrapped(&text, width(), "") } else { text.into_owned() };
            return self.out.raw(shown.as_bytes());
        };
        // An existing file is not overwritten.
        let made = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
        made.and_then(|mut made| std::io::Write::write_all(&mut made, &bytes))
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", visible(file))))?;
        self.aside(&format!("Written to {}.", visible(file)))
    }

    pub async fn list_threads(&mut self, count: usize) -> Result<()> {
        let threads = patiently(&mut self.interrupts, self.talk.threads(count)).await?;
        if threads.is_empty() && !self.out.is_json() {
            return self.aside("There are no conversations yet.");
        }
        self.remember_names(&threads);
        self.out.list(&threads, THREADS)
    }

    /// Adds these conversations to completion.
    pub fn remember_names(&self, threads: &[Value]) {
        let names = threads.iter().map(|thread| plain(&thread["thread_id"])).collect();
        *self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = names;
    }

    pub async fn resume(&mut self, thread: String) -> Result<()> {
        patiently(&mut self.interrupts, self.talk.session(&thread)).await?;
        self.switch(thread);
        self.aside(&format!("This is conversation {}.", self.thread))?;
        self.history(2).await
    }
}

/// Whether a text contains all the words, in any case.
fn has_all(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_found_by_all_its_words() {
        assert!(has_all("user lives in Oslo", "oslo LIVES"));
        assert!(!has_all("user lives in Oslo", "oslo bergen"));
    }
}
