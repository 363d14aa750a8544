//! The safety gate: judges staged values by the dimensions of a criteria set. Pure.

use serde::{Deserialize, Serialize};

use crate::definitions::criteria::{Dimension, DimensionOption, OptionFlag};
use crate::error::{Error, Result};
use crate::json::Json;

/// What the gate found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateVerdict {
    /// The first option chosen that must never be written.
    pub blocked: Option<GateBlock>,
    /// The mean of the chosen options' scores.
    pub score: Option<f64>,
    pub flags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateBlock {
    pub dimension: String,
    pub option: String,
}

/// Judges what is staged: one object, or each of a list. Only selections count.
pub fn evaluate_safety_gate(staged: &Json, dimensions: &[Dimension]) -> GateVerdict {
    let things: Vec<Json> =
        if staged.is_array() { staged.read().unwrap_or_default() } else { vec![staged.clone()] };
    let mut verdict = GateVerdict::default();
    let mut scores = Vec::new();
    for thing in &things {
        let fields = thing.fields();
        for dimension in dimensions.iter().filter(|dimension| dimension.is_select()) {
            let value = fields.iter().find(|(key, _)| *key == dimension.slug).map(|(_, value)| value);
            let chosen = chosen(dimension, value);
            if chosen.is_empty() {
                raise(&mut verdict.flags, format!("missing:{}", dimension.slug));
            }
            for option in chosen {
                match option {
                    Ok(option) => {
                        if dimension.blocks(&option.value) {
                            verdict.blocked.get_or_insert_with(|| GateBlock {
                                dimension: dimension.slug.clone(),
                                option: option.value.clone(),
                            });
                        }
                        scores.extend(option.score);
                        match &option.flag {
                            OptionFlag::Named(name) => raise(&mut verdict.flags, name.clone()),
                            OptionFlag::Raised(true) => {
                                raise(&mut verdict.flags, format!("{}:{}", dimension.slug, option.value));
                            }
                            OptionFlag::Raised(false) | OptionFlag::None => {}
                        }
                    }
                    Err(UnknownOption) => raise(&mut verdict.flags, format!("unknown:{}", dimension.slug)),
                }
            }
        }
    }
    if !scores.is_empty() {
        verdict.score = Some(scores.iter().sum::<f64>() / scores.len() as f64);
    }
    verdict
}

/// Refuses an edit that chooses what is no option.
pub fn check_choices(edited: &Json, dimensions: &[Dimension]) -> Result<()> {
    let things: Vec<Json> =
        if edited.is_array() { edited.read().unwrap_or_default() } else { vec![edited.clone()] };
    for (key, value) in things.iter().flat_map(Json::fields) {
        let Some(dimension) =
            dimensions.iter().find(|dimension| dimension.is_select() && dimension.slug == key)
        else {
            continue;
        };
        if chosen(dimension, Some(&value)).iter().any(Result::is_err) {
            let options: Vec<&str> = dimension.options.iter().map(|option| option.value.as_str()).collect();
            return Err(Error::invalid(
                format!("modified_output.{key}"),
                format!("must be one of {}", options.join(", ")),
            ));
        }
    }
    Ok(())
}

/// A value that is none of the options.
struct UnknownOption;

/// What a value chooses: one option, or several if it is a list.
fn chosen<'a>(
    dimension: &'a Dimension,
    value: Option<&Json>,
) -> Vec<Result<&'a DimensionOption, UnknownOption>> {
    let words = match value.map(Json::value) {
        None | Some(serde_json::Value::Null) => Vec::new(),
        Some(serde_json::Value::Array(many)) => many,
        Some(one) => vec![one],
    };
    words
        .iter()
        .map(|word| {
            let text = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
            dimension.options.iter().find(|option| option.value == text).ok_or(UnknownOption)
        })
        .collect()
}

fn raise(flags: &mut Vec<String>, flag: String) {
    if !flags.contains(&flag) {
        flags.push(flag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::CriteriaSet;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn dimensions() -> Vec<Dimension> {
        let set: CriteriaSet = crate::strict::read(
            json(
                r#"{"name":"care","dimensions":[
                    {"slug":"tone","type":"SELECT","options":[{"value":"kind","score":1},{"value":"curt","score":0.5,"flag":true},
                        {"value":"cruel","score":0}],"option_styles":{"cruel":{"hard_block":true,"color":"red"}}},
                    {"slug":"risk","options":[{"value":"low","score":1},{"value":"high","score":0,"flag":"needs a lawyer"}],
                        "option_styles":{"high":{"hard_block":false}}},
                    {"slug":"note","type":"text"}]}"#,
            )
            .as_str(),
        )
        .unwrap();
        set.dimensions
    }

    #[test]
    fn the_gate_scores_flags_and_blocks() {
        type GateRow<'a> = (&'a str, Option<f64>, &'a [&'a str], Option<(&'a str, &'a str)>);
        let table: [GateRow<'_>; 9] = [
            (r#"{"tone":"kind","risk":"low","note":"x"}"#, Some(1.0), &[], None),
            (r#"{"tone":"curt","risk":"low"}"#, Some(0.75), &["tone:curt"], None),
            (r#"{"tone":"kind","risk":"high"}"#, Some(0.5), &["needs a lawyer"], None),
            (r#"{"tone":"kind"}"#, Some(1.0), &["missing:risk"], None),
            (r#"{}"#, None, &["missing:tone", "missing:risk"], None),
            (r#"{"tone":"cruel","risk":"high"}"#, Some(0.0), &["needs a lawyer"], Some(("tone", "cruel"))),
            (r#"{"tone":"odd","risk":"low"}"#, Some(1.0), &["unknown:tone"], None),
            (
                r#"{"tone":["kind","cruel"],"risk":null}"#,
                Some(0.5),
                &["missing:risk"],
                Some(("tone", "cruel")),
            ),
            (
                r#"[{"tone":"kind","risk":"low"},{"tone":"curt","risk":"low"}]"#,
                Some(0.875),
                &["tone:curt"],
                None,
            ),
        ];
        for (staged, score, flags, blocked) in table {
            let verdict = evaluate_safety_gate(&json(staged), &dimensions());
            assert_eq!(verdict.score, score, "{staged}");
            assert_eq!(verdict.flags, flags, "{staged}");
            let found = verdict.blocked.as_ref().map(|b| (b.dimension.as_str(), b.option.as_str()));
            assert_eq!(found, blocked, "{staged}");
        }
    }

    #[test]
    fn an_edit_chooses_only_options() {
        for (edited, fits) in [
            (r#"{"tone":"curt"}"#, true),
            (r#"{"tone":["kind","curt"],"note":"anything"}"#, true),
            (r#"{"tone":null}"#, true),
            (r#"{"tone":"odd"}"#, false),
            (r#"[{"tone":"kind"},{"risk":5}]"#, false),
        ] {
            assert_eq!(check_choices(&json(edited), &dimensions()).is_ok(), fits, "{edited}");
        }
    }
}
