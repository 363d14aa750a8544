//! `/memory`: memories, shown by position and deleted by id.
//!
//! A position refers to the list that the person saw last. It is turned into an id before anything is asked or
//! deleted, so if the list has changed meanwhile, the wrong memory is not deleted.

use serde_json::{Value, json};

use super::commands::{MemoryKind, MemoryRequest};
use super::leave::{is_sure, writes};
use super::render::{one_line, width, wrapped};
use super::repl::{Repl, patiently};
use crate::commands::memory::{STATUS, on_off};
use crate::exit::{Exit, Failure, Result};
use crate::output::{plain, visible};

/// The word that deletes many things.
const WORD: &str = "clear";

/// The last shown lists, by kind and position. A deleted entry leaves its position empty.
#[derive(Debug, Default)]
pub struct Lists([Vec<Option<Value>>; 3]);

impl Lists {
    fn of(&mut self, kind: MemoryKind) -> &mut Vec<Option<Value>> {
        &mut self.0[kind as usize]
    }

    /// The entry at a position, from 1.
    fn at(&self, kind: MemoryKind, position: usize) -> Option<&Value> {
        self.0[kind as usize].get(position.checked_sub(1)?)?.as_ref()
    }
}

impl Repl {
    pub async fn memory(&mut self, command: MemoryRequest) -> Result<()> {
        match command {
            MemoryRequest::Status => self.memory_status().await,
            MemoryRequest::List(kind) => self.list_memories(kind).await,
            MemoryRequest::Recall(enabled) => self.recall(enabled).await,
            MemoryRequest::Forget(kind, position) => self.forget(kind, position).await,
            MemoryRequest::Clear(kind) => self.clear_memories(kind).await,
        }
    }

    async fn memory_status(&mut self) -> Result<()> {
        let status = patiently(&mut self.interrupts, self.talk.memory_status(&self.thread)).await?;
        self.out.thing(&status, STATUS)
    }

    async fn list_memories(&mut self, kind: Option<MemoryKind>) -> Result<()> {
        let kinds = kind.map_or_else(|| MemoryKind::ALL.to_vec(), |kind| vec![kind]);
        let mut all = serde_json::Map::new();
        for kind in kinds {
            let found = patiently(&mut self.interrupts, self.talk.memories(&self.thread, kind)).await?;
            if self.out.is_json() {
                all.insert(kind.many().to_owned(), found.clone().into());
            } else {
                self.show_memories(kind, &found)?;
            }
            *self.shown.of(kind) = found.into_iter().map(Some).collect();
        }
        if self.out.is_json() { self.out.value(&Value::Object(all)) } else { Ok(()) }
    }

    fn show_memories(&self, kind: MemoryKind, found: &[Value]) -> Result<()> {
        self.out.line(self.paint.bold(&format!("{} ({})", kind.many(), found.len())))?;
        for (at, memory) in found.iter().enumerate() {
            let line =
                format!("{:>4}  {}", at + 1, one_line(&words(kind, memory), width().saturating_sub(8)));
            self.out.line(line)?;
        }
        Ok(())
    }

    async fn recall(&mut self, enabled: Option<bool>) -> Result<()> {
        let Some(enabled) = enabled else {
            let status = patiently(&mut self.interrupts, self.talk.memory_status(&self.thread)).await?;
            let on = on_off(&status["recall_enabled"]);
            return if self.out.is_json() {
                self.out.value(&json!({ "recall_enabled": status["recall_enabled"] }))
            } else {
                self.out.line(format!("Recall is {on}."))
            };
        };
        patiently(&mut self.interrupts, self.talk.set_recall(&self.thread, enabled)).await?;
        self.aside(if enabled {
            "Recall is on: what is remembered may be brought up."
        } else {
            "Recall is off: the past is not brought up unasked. Rules still apply."
        })
    }

    async fn forget(&mut self, kind: MemoryKind, position: usize) -> Result<()> {
        let (one, many) = (kind.one(), kind.many());
        let Some(memory) = self.shown.at(kind, position) else {
            let sentence = format!("there is no {one} {position} in the list that was shown last");
            return Err(Failure::new(Exit::NotFound, "not_found", sentence)
                .hint(format!("/memory list {many} shows them")));
        };
        let id = plain(&memory["id"]);
        self.out.raw(wrapped(&details(kind, memory), width(), "  ").as_bytes())?;
        if !is_sure(self, &format!("Forget this {one} for good? [y/N] ")).await? {
            return self.aside("Nothing was deleted.");
        }
        patiently(&mut self.interrupts, self.talk.forget(&self.thread, kind, &id)).await?;
        self.shown.of(kind)[position - 1] = None;
        self.aside(&format!("The {one} is forgotten."))
    }

    async fn clear_memories(&mut self, kind: Option<MemoryKind>) -> Result<()> {
        let kinds = kind.map_or_else(|| MemoryKind::ALL.to_vec(), |kind| vec![kind]);
        let mut found = Vec::new();
        let mut counts = Vec::new();
        for kind in kinds {
            let rows = patiently(&mut self.interrupts, self.talk.memories(&self.thread, kind)).await?;
            if !rows.is_empty() {
                counts.push(format!(
                    "{} {}",
                    rows.len(),
                    if rows.len() == 1 { kind.one() } else { kind.many() }
                ));
            }
            found.extend(rows.iter().map(|row| (kind, plain(&row["id"]))));
        }
        if found.is_empty() {
            return self.aside("There is nothing to delete.");
        }
        let question =
            format!("This deletes {} for good. Type the word \"{WORD}\" to confirm: ", counts.join(", "));
        if !writes(self, &question, WORD).await? {
            return self.aside("Nothing was deleted.");
        }
        let mut gone = 0;
        for (kind, id) in &found {
            match patiently(&mut self.interrupts, self.talk.forget(&self.thread, *kind, id)).await {
                // It was deleted already.
                Err(failure) if failure.exit() == Exit::NotFound => {}
                done => {
                    done?;
                    gone += 1;
                }
            }
        }
        self.shown = Lists::default();
        self.aside(&format!("Deleted: {gone}."))
    }
}

/// A memory in one line.
pub fn words(kind: MemoryKind, memory: &Value) -> String {
    let field = |name: &str| plain(&memory[name]);
    match kind {
        MemoryKind::Fact => {
            format!("{} · {} · {}", field("subject"), field("predicate").replace('_', " "), field("object"))
        }
        MemoryKind::Arc => {
            let day = field("ended_at").chars().take(10).collect::<String>();
            format!("{day}  {}", field("summary")).trim().to_owned()
        }
        MemoryKind::Rule => field("text"),
    }
}

/// A memory with its sources.
fn details(kind: MemoryKind, memory: &Value) -> String {
    let mut text = visible(&words(kind, memory));
    let quotes = match &memory["quotes"] {
        Value::Array(quotes) => quotes.iter().map(plain).collect(),
        _ => vec![plain(&memory["quote"])],
    };
    for quote in quotes.iter().filter(|quote| !quote.is_empty()) {
        text.push_str(&format!("\n“{}”", visible(quote)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_read_as_sentences() {
        let fact = json!({"id": "1", "subject": "user", "predicate": "lives_in", "object": "Oslo", "quote": "I live in Oslo"});
        let arc = json!({"id": "2", "ended_at": "2026-11-15T22:19:00Z", "summary": "About work."});
        let rule = json!({"id": "3", "text": "Be brief", "quotes": ["keep it short", "briefly please"]});
        assert_eq!(words(MemoryKind::Fact, &fact), "user · lives in · Oslo");
        assert_eq!(words(MemoryKind::Arc, &arc), "2026-11-15  About work.");
        assert_eq!(words(MemoryKind::Rule, &rule), "Be brief");
        assert_eq!(details(MemoryKind::Fact, &fact), "user · lives in · Oslo\n“I live in Oslo”");
        assert_eq!(details(MemoryKind::Rule, &rule), "Be brief\n“keep it short”\n“briefly please”");
        assert_eq!(details(MemoryKind::Arc, &arc), "2026-11-15  About work.");
    }

    #[test]
    fn a_position_means_what_was_shown_and_nothing_else() {
        let mut lists = Lists::default();
        *lists.of(MemoryKind::Fact) = vec![Some(json!("a")), None, Some(json!("c"))];
        assert_eq!(lists.at(MemoryKind::Fact, 1), Some(&json!("a")));
        assert_eq!(lists.at(MemoryKind::Fact, 2), None, "deleted since");
        assert_eq!(lists.at(MemoryKind::Fact, 3), Some(&json!("c")));
        assert_eq!(lists.at(MemoryKind::Fact, 4), None);
        assert_eq!(lists.at(MemoryKind::Fact, 0), None);
        assert_eq!(lists.at(MemoryKind::Rule, 1), None, "never shown");
    }
}
