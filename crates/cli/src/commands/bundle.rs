//! `bundle export|import`.

use super::{Scene, json_in, warn};
use crate::api::{Missing, Request};
use crate::args::Bundle;
use crate::exit::{Failure, Result};

pub async fn run(scene: &Scene, command: Bundle) -> Result<()> {
    match command {
        Bundle::Export { file } => {
            let bundle = scene.send(Missing::Refuse, Request::get(&["bundle"])).await?;
            let text = format!("{bundle:#}\n");
            if file == "-" {
                return scene.out.raw(text.as_bytes());
            }
            std::fs::write(&file, text).map_err(|error| Failure::io(format!("cannot write {file}"), &error))
        }
        Bundle::Import { file } => {
            let done = scene.send(Missing::Make, Request::post(&["bundle"], &json_in(&file)?)).await?;
            if scene.out.is_json() {
                return scene.out.value(&done);
            }
            scene.out.line(format!("imported {}", done["imported"]))?;
            warn(&done);
            Ok(())
        }
    }
}
