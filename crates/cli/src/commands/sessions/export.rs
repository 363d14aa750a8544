//! `sessions export`: a session with its whole log, piece by piece, to a file or stdout.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::super::CommandContext;
use super::named;
use crate::api::{ApiClient, Missing, Request};
use crate::args::ExportFormat;
use crate::exit::{Failure, Result};
use crate::output::Out;

pub async fn run(
    context: &CommandContext,
    id: &str,
    paper: ExportFormat,
    all: bool,
    output: Option<&Path>,
) -> Result<()> {
    let api = context.api(Missing::Refuse).await?;
    let mut desk = ExportTarget { out: &context.out, path: output, file: None };
    let done = write(&mut desk, &api, id, paper, all).await;
    api.close().await;
    done?;
    desk.finish()
}

async fn write(
    desk: &mut ExportTarget<'_>,
    api: &ApiClient,
    id: &str,
    paper: ExportFormat,
    all: bool,
) -> Result<()> {
    let (id, _) = named(api, id).await?;
    let format = match paper {
        ExportFormat::Md => "md",
        ExportFormat::Json => "json",
        ExportFormat::Txt => "txt",
    };
    let request =
        Request::get(&["sessions", &id, "export"]).with("format", Some(format)).with("all", Some(all));
    let mut pieces = api.client().await?.pieces(&request.path()).await?;
    while let Some(piece) = pieces.next().await? {
        desk.write(&piece)?;
    }
    Ok(())
}

/// The destination of the export. A file is created only when there is something to write.
struct ExportTarget<'a> {
    out: &'a Out,
    path: Option<&'a Path>,
    file: Option<BufWriter<File>>,
}

impl ExportTarget<'_> {
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
