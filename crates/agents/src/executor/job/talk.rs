//! What a model is told in a run, and what it replies.

use sederunt_core::engine::Brief;
use sederunt_core::json::Json;
use sederunt_core::lesson::shown;
use sederunt_core::work::output::OutputType;
use tokio::sync::mpsc;

use super::super::kit::context_budget;
use super::ends::fail;
use super::{Job, RunHalt, RunResult, RunState};
use crate::context::{self, Input, Turn};
use crate::model::{Delta, ModelReply};
use crate::steps::ClaimContext;

impl Job {
    pub(super) async fn ask(&self, work: &mut RunState) -> RunResult<ModelReply> {
        let input = self.input(work);
        let agent = work.brief.agent.as_ref().map(|agent| &agent.value);
        let budget = context_budget(agent.and_then(|agent| agent.limits.context_tokens));
        let built = context::build(&input, budget)
            .map_err(|error| RunHalt::Settle(fail("context_too_long", &error.to_string(), false, None)))?;
        if built.shows_activity {
            self.log_activity(work).await?;
        }
        self.trace.lock().said.clear();
        let (said, mut heard) = mpsc::unbounded_channel::<String>();
        let speaking = async {
            let mut hear = move |delta| {
                if let Delta::Text(text) = delta {
                    self.trace.lock().said.push_str(&text);
                    let _ = said.send(text);
                }
            };
            work.model.run(&built.request, &mut hear).await
        };
        let showing = async {
            while let Some(mut text) = heard.recv().await {
                while let Ok(more) = heard.try_recv() {
                    text.push_str(&more);
                }
                if heard.is_closed() {
                    // The reply is complete: the message itself comes next.
                    break;
                }
                // If this fails, only current readers miss the piece; the message itself reaches them through the
                // log.
                let _ = self
                    .claim
                    .engine
                    .delta(&self.claim.actor, &self.claim.session, self.claim.epoch, &text)
                    .await;
            }
        };
        let (reply, ()) = tokio::join!(speaking, showing);
        match reply {
            Ok(reply) => {
                let usage = self.kit.prices.cost(&work.tally.model, reply.usage);
                Ok(ModelReply { usage, ..reply })
            }
            Err(error) => {
                let how = fail(error.code(), &error.to_string(), error.retryable(), Some(work));
                Err(RunHalt::Settle(how))
            }
        }
    }

    /// Records once that the activity of a bridge enters the prompts of this session.
    async fn log_activity(&self, work: &mut RunState) -> RunResult<()> {
        let ClaimContext { engine, actor, session, epoch, .. } = &self.claim;
        if let Some(activity) = work.activity.as_mut().filter(|activity| !activity.is_logged) {
            engine.show_activity(actor, session, *epoch, &activity.recent).await?;
            activity.is_logged = true;
        }
        Ok(())
    }

    fn task(&self, brief: &Brief) -> String {
        let task = [self.claimed.session.details.title.as_deref(), brief.run.description.as_deref()];
        task.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// The subject of a run, for finding lessons about it.
    pub(super) fn about(&self, brief: &Brief) -> String {
        let input = self.claimed.session.details.input.as_ref().map_or("", Json::as_str);
        [&self.task(brief), input].join("\n")
    }

    fn input(&self, work: &RunState) -> Input {
        let RunState { brief, lessons, answers, activity, specs, messages, .. } = work;
        let details = &self.claimed.session.details;
        let agent = brief.agent.as_ref().map(|agent| &agent.value);
        let structured = brief
            .run
            .output
            .as_ref()
            .filter(|output| !matches!(output.kind, OutputType::None | OutputType::Text));
        let mut given: Vec<(&str, Json)> = Vec::new();
        given.extend(details.input.clone().map(|input| ("input", input)));
        if !brief.results.is_empty() {
            let results = Json::object(brief.results.iter().map(|(key, result)| (key.as_str(), result)));
            given.push(("results_of_earlier_steps", results));
        }
        let input = match &given[..] {
            [] => None,
            [("input", only)] => Some(only.clone()),
            all => Some(Json::object(all.iter().map(|(key, value)| (*key, value)))),
        };
        let any_object = || Json::stored(r#"{"type":"object"}"#);
        Input {
            instructions: agent.and_then(|agent| agent.instructions.clone()).unwrap_or_default(),
            task: self.task(brief),
            input,
            entity: brief.entity.as_ref().map(|entity| entity.value.fields.clone()),
            lessons: lessons.iter().map(shown::line).collect(),
            reviews: brief
                .run
                .denials
                .iter()
                .map(|denial| {
                    denial.reason.clone().unwrap_or_else(|| "turned down, without a reason".to_owned())
                })
                .collect(),
            answers: answers.clone(),
            activity: activity.as_ref().map(|activity| activity.recent.block.clone()),
            transcript: Turn::split(messages.iter().cloned()),
            tools: specs.clone(),
            output_schema: structured.map(|output| output.schema.clone().unwrap_or_else(any_object)),
            ..Input::default()
        }
    }
}

/// The JSON value of a text, alone or between fences or braces.
pub(super) fn json_in(text: &str) -> Option<Json> {
    let whole = text.trim();
    let fenced = whole
        .strip_prefix("```json")
        .or_else(|| whole.strip_prefix("```"))
        .and_then(|rest| rest.trim_end().strip_suffix("```"));
    let braced = || {
        let (from, to) = (whole.find(['{', '['])?, whole.rfind(['}', ']'])?);
        whole.get(from..=to)
    };
    [Some(whole), fenced, braced()]
        .into_iter()
        .flatten()
        .find_map(|text| Json::parse(text.trim().as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_what_a_model_says() {
        for (text, found) in [
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("```json\n[1, 2]\n```", Some("[1,2]")),
            ("Here it is: {\"a\": {\"b\": 2}} — done.", Some(r#"{"a":{"b":2}}"#)),
            ("nothing", None),
            ("{broken", None),
        ] {
            assert_eq!(json_in(text).as_ref().map(Json::as_str), found, "{text}");
        }
    }
}
