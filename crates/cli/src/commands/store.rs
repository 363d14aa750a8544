//! `migrate`, `backup`, `restore` and `copy`: the store as a whole.

use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use sederunt::{Engine, Place, Settings};
use sederunt_core::live::Hub;
use sederunt_core::store::UpkeepStore as _;
use sederunt_store::postgres;
use sederunt_store::sqlite::SqliteStore;
use serde_json::{Value, json};

use super::CommandContext;
use crate::api::server_file::{self, StoreUser};
use crate::api::{Missing, Request};
use crate::args;
use crate::doctor::schema;
use crate::exit::{Exit, Failure, Result};
use crate::output::note;

pub async fn migrate(context: &CommandContext) -> Result<()> {
    let config = &context.config;
    if let Some(directory) = config.directory() {
        let holder = server_file::holder(directory).await;
        if holder != StoreUser::None {
            return Err(server_file::in_use(directory, &holder));
        }
    }
    if let Some(owner) = &config.migrate_store {
        let Place::Postgres(url) = &owner.0 else {
            return Err(Failure::usage(format!(
                "`migrate_store` is {}, which is no database; write postgres://…",
                owner.0
            )));
        };
        let from = schema::found_at(&owner.0, config).await?;
        let to = postgres::migrate(url, &config.postgres.schema).await?;
        return migrated(context, &owner.0, from, to);
    }
    let from = schema::found(config).await?;
    let store = config.opener(true)?.open_place(&config.store.0).await?;
    let vitals = store.vitals().await;
    store.close().await;
    migrated(context, &config.store.0, from, vitals?.schema_version)
}

fn migrated(context: &CommandContext, place: &Place, from: u32, to: u32) -> Result<()> {
    if context.out.is_json() {
        return context.out.value(&json!({ "store": place.to_string(), "from": from, "to": to }));
    }
    if from == to {
        return context.out.line(format!("{place} has schema {to} already"));
    }
    context.out.line(format!("{place}: schema {from} → {to}"))
}

pub async fn backup(context: &CommandContext, to: &Path) -> Result<()> {
    let directory = sqlite_directory(context)?.to_owned();
    if !directory.join("threads.sqlite3").exists() {
        return Err(no_store(&directory));
    }
    let in_use = server_file::holder(&directory).await != StoreUser::None;
    let (bar, target) = (progress("pages"), to.to_owned());
    let shown = bar.clone();
    let opened = off_the_runtime(move || {
        if in_use {
            // The files of an open store may still be read, and a restore is a copy of them as they
            // are at one moment.
            return SqliteStore::restore(&directory, &target).map(|()| None);
        }
        let hub = Arc::new(Hub::default());
        let options = sederunt_store::sqlite::SqliteOptions {
            place: sederunt_store::sqlite::Place::Directory(directory),
            clock: Arc::default(),
            hub: hub.clone(),
        };
        let store = SqliteStore::open(options)?;
        store.backup(&target, &mut |done, total| {
            shown.set_length(total);
            shown.set_position(done);
        })?;
        Ok(Some((store, hub)))
    })
    .await?;
    bar.finish_and_clear();
    if let Err(failure) = note_backup(context, opened, to).await {
        note(format!("The backup is made, but the audit trail does not say so: {}", failure.sentence()));
    }
    said(context, "backup", &context.config.store.0.to_string(), &to.display().to_string())
}

/// Writes down that a backup was made: in the store that was opened for it, or through the server that has it open.
async fn note_backup(
    context: &CommandContext,
    opened: Option<(Arc<SqliteStore>, Arc<Hub>)>,
    to: &Path,
) -> Result<()> {
    let name = to.file_name().unwrap_or(to.as_os_str()).to_string_lossy().into_owned();
    let Some((store, hub)) = opened else {
        let request = Request::post(&["audit", "backup"], json!({ "name": name }));
        return context.send(Missing::Refuse, request).await.map(drop);
    };
    let engine = Engine::new(store.clone(), hub, Settings::default());
    let noted = engine.operator().note_backup(&name).await;
    store.close().await;
    Ok(noted?)
}

pub async fn restore(context: &CommandContext, from: &Path) -> Result<()> {
    let directory = sqlite_directory(context)?.to_owned();
    if directory.join("threads.sqlite3").exists() {
        let sentence = format!("there is a store in {} already", directory.display());
        return Err(Failure::new(Exit::Refused, "already_exists", sentence)
            .hint("restore into a new directory with --store"));
    }
    let (source, target) = (from.to_owned(), directory.clone());
    off_the_runtime(move || SqliteStore::restore(&source, &target)).await?;
    said(context, "restore", &from.display().to_string(), &directory.display().to_string())
}

pub async fn copy(context: &CommandContext, wish: &args::CopyArgs) -> Result<()> {
    if !wish.from.join("threads.sqlite3").exists() {
        return Err(no_store(&wish.from));
    }
    let to: Place = wish.to.parse()?;
    let Place::Postgres(url) = &to else {
        return Err(Failure::usage(format!("`--to` is {to}, which is no database; write postgres://…")));
    };
    let holder = server_file::holder(&wish.from).await;
    if holder != StoreUser::None {
        // What a server takes in while the copy is made would be missing from it.
        return Err(server_file::in_use(&wish.from, &holder).hint(
            "stop the server, or copy from a backup: `sederunt backup DIR`, `sederunt restore DIR --store NEW`, then `--from NEW`",
        ));
    }
    // Held open, so that nobody else writes to it meanwhile.
    let source = context.config.opener(true)?.open_place(&Place::Directory(wish.from.clone())).await?;
    let bar = progress("rows");
    let mut tell = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let copied = postgres::copy::copy(&wish.from, url, &context.config.postgres.schema, &mut tell).await;
    source.close().await;
    bar.finish_and_clear();
    let rows: serde_json::Map<String, Value> =
        copied?.rows.into_iter().map(|(table, rows)| (table.to_owned(), rows.into())).collect();
    if context.out.is_json() {
        return context.out.value(&json!({
            "from": wish.from.display().to_string(), "to": to.to_string(), "rows": rows,
        }));
    }
    let count = |table: &str| rows.get(table).and_then(Value::as_u64).unwrap_or(0);
    context.out.line(format!(
        "copy: {} → {to}: {} sessions, {} events in {} tenants, read back and found equal",
        wish.from.display(),
        count("sessions"),
        count("events"),
        count("tenants"),
    ))
}

fn said(context: &CommandContext, what: &str, from: &str, to: &str) -> Result<()> {
    if context.out.is_json() {
        return context.out.value(&json!({ "from": from, "to": to }));
    }
    context.out.line(format!("{what}: {from} → {to}"))
}

/// Runs what blocks where blocking is allowed.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> sederunt::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(sederunt::Error::internal)??)
}

fn sqlite_directory(context: &CommandContext) -> Result<&Path> {
    context.config.directory().ok_or_else(|| {
        let failure =
            Failure::usage(format!("{} is no directory with an SQLite store", context.config.store.0));
        match &context.config.store.0 {
            Place::Postgres(_) => failure.hint("back a PostgreSQL database up with pg_dump"),
            Place::Directory(_) | Place::Memory => failure.hint("name one with --store"),
        }
    })
}

fn no_store(directory: &Path) -> Failure {
    let sentence = format!("there is no store in {}", directory.display());
    Failure::new(Exit::NotFound, "not_found", sentence).hint("name one with --store")
}

/// A bar on the terminal; nothing when stderr is none.
fn progress(unit: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {unit} {{eta}}"));
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
