//! `sessions export`: a session with its whole log, piece by piece, to a file or stdout.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use sederunt::session::export;
use sederunt::{Actor, EventQuery, Sederunt, SessionId, limits};
use sederunt_server::client::Client;

use super::super::Scene;
use super::named;
use crate::args::Paper;
use crate::exit::{Failure, Result};
use crate::output::Out;
use crate::reach::{Missing, Reach, path};

pub async fn run(scene: &Scene, id: String, paper: Paper, all: bool, output: Option<&Path>) -> Result<()> {
    let reach = Reach::find(&scene.config, &scene.global, Missing::Refuse).await?;
    let mut desk = Desk { out: &scene.out, path: output, file: None };
    let done = match named(&reach, id).await {
        Err(failure) => Err(failure),
        Ok((id, _)) => match &reach {
            Reach::Store { store, actor, .. } => from_store(&mut desk, store, actor, &id, paper, all).await,
            Reach::Server(client) => from_server(&mut desk, client, &id, paper, all).await,
        },
    };
    reach.close().await;
    done?;
    desk.finish()
}

async fn from_store(
    desk: &mut Desk<'_>,
    store: &Sederunt,
    actor: &Actor,
    id: &str,
    paper: Paper,
    all: bool,
) -> Result<()> {
    let extent = if all { export::Extent::Everything } else { export::Extent::Messages };
    let session = store.session(actor, &SessionId::parse(id)?).await?;
    let mut page = export::Paper::new(
        match paper {
            Paper::Md => export::Format::Markdown,
            Paper::Json => export::Format::Json,
            Paper::Txt => export::Format::Text,
        },
        extent,
    );
    desk.write(page.begin(&session).as_bytes())?;
    let mut after = 0;
    loop {
        let query = EventQuery { after, limit: limits::PAGE_ROWS_MAX, ..EventQuery::default() };
        let read = store.read(actor, &session.id, query).await?;
        desk.write(page.events(&read.events).as_bytes())?;
        after = read.next_after;
        if !read.has_more {
            return desk.write(page.end().as_bytes());
        }
    }
}

async fn from_server(desk: &mut Desk<'_>, client: &Client, id: &str, paper: Paper, all: bool) -> Result<()> {
    let format = match paper {
        Paper::Md => "md",
        Paper::Json => "json",
        Paper::Txt => "txt",
    };
    let query = [("format".to_owned(), format.to_owned()), ("all".to_owned(), all.to_string())];
    let mut pieces = client.pieces(&path(&["sessions", id, "export"], &query)).await?;
    while let Some(piece) = pieces.next().await? {
        desk.write(&piece)?;
    }
    Ok(())
}

/// Where the paper goes. A file is made only when there is something to write into it.
struct Desk<'a> {
    out: &'a Out,
    path: Option<&'a Path>,
    file: Option<BufWriter<File>>,
}

impl Desk<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(path) = self.path else { return self.out.raw(bytes) };
        let failed = |error: std::io::Error| Failure::io(path.display(), &error);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(path).map_err(failed)?)),
        };
        file.write_all(bytes).map_err(failed)
    }

    fn finish(self) -> Result<()> {
        match (self.file, self.path) {
            (Some(mut file), Some(path)) => file
                .flush()
                .and_then(|()| file.get_ref().sync_all())
                .map_err(|e| Failure::io(path.display(), &e)),
            _ => Ok(()),
        }
    }
}
