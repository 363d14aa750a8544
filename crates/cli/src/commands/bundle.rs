//! `bundle export|import`.

use super::{CommandContext, json_in, warn};
use crate::api::{Missing, Request};
use crate::args::BundleCommand;
use crate::exit::{Failure, Result};

pub async fn run(context: &CommandContext, command: BundleCommand) -> Result<()> {
    match command {
        BundleCommand::Export { file } => {
            let bundle = context.send(Missing::Refuse, Request::get(&["bundle"])).await?;
            let text = format!("{bundle:#}\n");
            if file == "-" {
                return context.out.raw(text.as_bytes());
            }
            std::fs::write(&file, text).map_err(|error| Failure::io(format!("cannot write {file}"), &error))
        }
        BundleCommand::Import { file } => {
            let done = context.send(Missing::Make, Request::post(&["bundle"], &json_in(&file)?)).await?;
            if context.out.is_json() {
                return context.out.value(&done);
            }
            context.out.line(format!("imported {}", done["imported"]))?;
            warn(&done);
            Ok(())
        }
    }
}
