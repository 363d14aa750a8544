//! The SQLite files: one snapshot, read table by table.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use sederunt_core::{Error, Result};
use serde_json::Value;
use tokio::sync::mpsc;

use super::tables::{ColumnKind, CopiedTable, TABLES, TableDigest};
use crate::sqlite;

/// A chunk is sent when it has this many rows, or this many bytes.
const PIECE_ROWS: u64 = 1_000;
const PIECE_BYTES: usize = 1024 * 1024;

/// The side files, and the names under which they are attached.
const BESIDE: [(&str, &str); 3] =
    [("memory", "memory.sqlite3"), ("crisis", "crisis.sqlite3"), ("feedback", "session_feedback.sqlite3")];

/// What the reader sends.
pub(super) enum CopyChunk {
    /// The rows that follow are this tenant's.
    Tenant(i32),
    Rows {
        /// Its index in [`TABLES`].
        table: usize,
        json: String,
        digest: TableDigest,
    },
}

/// A snapshot of a store's files.
pub(super) struct CopySource(Connection);

impl CopySource {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        sqlite::copy_side_files(directory)?;
        let path = directory.join("threads.sqlite3");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let db = Connection::open_with_flags(&path, flags)?;
            for (name, file) in BESIDE {
                let file = directory.join(file);
                db.execute(&format!("ATTACH ?1 AS {name}"), [file.to_string_lossy()])?;
            }
            db.pragma_update(None, "query_only", "ON")?;
            // The first read fixes the snapshot.
            db.execute_batch("BEGIN")?;
            for name in BESIDE.iter().map(|(name, _)| *name).chain(["main"]) {
                db.query_row(&format!("SELECT count(*) FROM {name}.sqlite_schema"), [], |row| {
                    row.get::<_, i64>(0)
                })?;
            }
            Ok::<_, rusqlite::Error>(db)
        };
        open()
            .map(Self)
            .map_err(|error| Error::invalid("from", format!("{} cannot be read: {error}", path.display())))
    }

    /// How many rows there are to copy.
    pub(super) fn rows(&self) -> rusqlite::Result<u64> {
        let mut rows = 0;
        for tk in self.tenants()? {
            for table in TABLES {
                rows += self.0.query_row(&table.count(), [tk], |row| row.get::<_, i64>(0))?.unsigned_abs();
            }
        }
        Ok(rows)
    }

    /// The highest number that was given to a row of a table, whether the row still exists or not.
    pub(super) fn last_key(&self, file: &str, table: &str) -> rusqlite::Result<i64> {
        let sql = format!("SELECT coalesce(max(seq), 0) FROM {file}.sqlite_sequence WHERE name = ?1");
        self.0.query_row(&sql, [table], |row| row.get(0))
    }

    /// The secret key of the installation: pseudonyms that were derived from it must stay valid.
    pub(super) fn installation_key(&self) -> rusqlite::Result<Vec<u8>> {
        self.0.query_row("SELECT key FROM installation", [], |row| row.get(0))
    }

    /// A tenant without a name is being removed and is not copied.
    fn tenants(&self) -> rusqlite::Result<Vec<i32>> {
        let mut statement = self.0.prepare("SELECT tk FROM tenants WHERE id IS NOT NULL ORDER BY tk")?;
        statement.query_map([], |row| row.get(0))?.collect()
    }

    /// Sends all rows, tenant by tenant. Ends early if the receiver is gone.
    pub(super) fn read(&self, to: &mpsc::Sender<CopyChunk>) -> rusqlite::Result<()> {
        for tk in self.tenants()? {
            if to.blocking_send(CopyChunk::Tenant(tk)).is_err() {
                return Ok(());
            }
            for (at, table) in TABLES.iter().enumerate() {
                let mut statement = self.0.prepare(&table.select())?;
                let mut rows = statement.query([tk])?;
                let mut gathered = ChunkBuilder::default();
                loop {
                    let row = rows.next()?;
                    if let Some(row) = row {
                        gathered.take(table, row)?;
                    }
                    let full = gathered.digest.rows >= PIECE_ROWS || gathered.json.len() >= PIECE_BYTES;
                    if (full || row.is_none()) && gathered.digest.rows > 0 {
                        let ChunkBuilder { json, digest } = std::mem::take(&mut gathered);
                        let json = format!("[{json}]");
                        if to.blocking_send(CopyChunk::Rows { table: at, json, digest }).is_err() {
                            return Ok(());
                        }
                    }
                    if row.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The rows of the next chunk.
#[derive(Default)]
struct ChunkBuilder {
    json: String,
    digest: TableDigest,
}

impl ChunkBuilder {
    fn take(&mut self, table: &CopiedTable, row: &Row<'_>) -> rusqlite::Result<()> {
        let mut fields: Vec<Option<String>> = Vec::with_capacity(table.columns.len());
        let mut object = serde_json::Map::with_capacity(table.columns.len());
        for (at, (name, _, kind)) in table.columns.iter().enumerate() {
            let text = text_of(row.get_ref(at)?, *kind)?;
            object.insert(
                (*name).to_owned(),
                text.as_deref().map_or(Value::Null, |text| value_of(text, *kind)),
            );
            fields.push(text);
        }
        let fields: Vec<Option<&str>> = fields.iter().map(Option::as_deref).collect();
        self.digest.row(&fields);
        if !self.json.is_empty() {
            self.json.push(',');
        }
        self.json.push_str(&Value::Object(object).to_string());
        Ok(())
    }
}

/// A stored value as the text by which rows are compared.
fn text_of(value: ValueRef<'_>, kind: ColumnKind) -> rusqlite::Result<Option<String>> {
    Ok(match (value, kind) {
        (ValueRef::Null, _) => None,
        (ValueRef::Integer(number), _) => Some(number.to_string()),
        (ValueRef::Blob(bytes), ColumnKind::Bytes | ColumnKind::Uuid) => Some(hex::encode(bytes)),
        (other, _) => Some(other.as_str()?.to_owned()),
    })
}

/// The same text as the value that the database gets.
fn value_of(text: &str, kind: ColumnKind) -> Value {
    match kind {
        ColumnKind::Number => text.parse::<i64>().map_or(Value::Null, Value::from),
        ColumnKind::Flag => Value::Bool(text != "0"),
        ColumnKind::Bytes => format!("\\x{text}").into(),
        ColumnKind::Text | ColumnKind::Uuid | ColumnKind::List => text.into(),
    }
}
