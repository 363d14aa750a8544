//! The sources of settings, in order of precedence.

use std::path::Path;

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::toml_file::misfit;
use super::{Config, SETTINGS};
use crate::exit::{Failure, Result};

const PREFIX: &str = "SEDERUNT_";

/// Variables under our prefix that are no settings: the name of the configuration file itself, the key of
/// a client, our own test and build scripts, and what an orchestrator puts there for a service called `sederunt`.
const FOREIGN: [&str; 7] = ["CONFIG", "KEY", "TEST_", "PG_", "BENCH_", "SERVICE_", "PORT"];

/// A setting that was given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    pub setting: &'static str,
    pub flag: &'static str,
    pub value: String,
}

/// The effective value of a setting, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub name: &'static str,
    pub value: Option<String>,
    pub from: String,
    pub about: &'static str,
}

/// All sources, the strongest last.
#[derive(Debug)]
pub struct Layers(Figment);

impl Layers {
    pub fn new(file: Option<&Path>, environment: Vec<(String, String)>, flags: Vec<Flag>) -> Result<Self> {
        let mut layers = Figment::new();
        for setting in SETTINGS {
            if let Some(default) = setting.default {
                layers = layers.merge(Layer::one(setting.name, default, "default"));
            }
        }
        if let Some(path) = file {
            layers = layers.merge(read_file(path)?);
        }
        for (variable, value) in environment {
            let Some(name) = variable.strip_prefix(PREFIX) else { continue };
            if FOREIGN.iter().any(|foreign| name.starts_with(foreign)) {
                continue;
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == variable) else {
                return Err(unknown(&variable, "the environment"));
            };
            layers = layers.merge(Layer::one(setting.name, &value, &variable));
        }
        for flag in flags {
            layers = layers.merge(Layer::one(flag.setting, &flag.value, flag.flag));
        }
        Ok(Self(layers))
    }

    /// The effective settings, and the source of each.
    pub fn read(&self) -> Result<(Config, Vec<Shown>)> {
        let config: Config = self.0.extract_lossy().map_err(refused)?;
        let shown = SETTINGS.iter().map(|setting| {
            let found = self.0.find_value(setting.name).ok();
            let from = found.as_ref().and_then(|value| self.0.get_metadata(value.tag()));
            Shown {
                name: setting.name,
                value: found.as_ref().map(|value| match setting.name {
                    "store" => config.store.0.to_string(),
                    "migrate_store" => {
                        config.migrate_store.as_ref().map(|place| place.0.to_string()).unwrap_or_default()
                    }
                    _ => text_of(value),
                }),
                from: from.map_or_else(|| "unset".to_owned(), |from| from.name.to_string()),
                about: setting.about,
            }
        });
        let shown = shown.collect();
        Ok((config, shown))
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(_, text) => text.clone(),
        Value::Num(_, number) => number
            .to_i128()
            .map(|n| n.to_string())
            .or_else(|| number.to_u128().map(|n| n.to_string()))
            .or_else(|| number.to_f64().map(|n| n.to_string()))
            .unwrap_or_default(),
        Value::Bool(_, flag) => flag.to_string(),
        _ => String::new(),
    }
}

/// A file, with every name in it checked.
fn read_file(path: &Path) -> Result<Layer> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the configuration file {place} cannot be read: {error}")))?;
    let mut data = Toml::string(&text).data().map_err(|error| misfit(error, &place))?;
    let dict = data.remove(&Profile::Default).unwrap_or_default();
    check_names(&dict, "", &place)?;
    Ok(Layer { dict, place })
}

fn check_names(dict: &Dict, under: &str, place: &str) -> Result<()> {
    for (key, value) in dict {
        let name = if under.is_empty() { key.clone() } else { format!("{under}.{key}") };
        match value {
            Value::Dict(_, inner) => check_names(inner, &name, place)?,
            _ if SETTINGS.iter().any(|setting| setting.name == name) => {}
            _ => return Err(unknown(&name, place)),
        }
    }
    Ok(())
}

fn unknown(name: &str, place: &str) -> Failure {
    Failure::usage(format!("`{name}` in {place} is no setting"))
        .hint("`sederunt config show` lists all of them")
}

fn refused(errors: figment::Error) -> Failure {
    let place = errors.metadata.as_ref().map(|metadata| metadata.name.clone().into_owned());
    misfit(errors, place.as_deref().unwrap_or("the configuration"))
}

/// The values from one place.
struct Layer {
    dict: Dict,
    place: String,
}

impl Layer {
    fn one(name: &str, value: &str, place: &str) -> Self {
        let nested = figment::util::nest(name, Value::from(value));
        Self { dict: nested.into_dict().unwrap_or_default(), place: place.to_owned() }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.place.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn variable(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn shown(layers: &Layers, name: &str) -> (String, String) {
        let (_, all) = layers.read().unwrap();
        let found = all.into_iter().find(|setting| setting.name == name).unwrap();
        (found.value.unwrap_or_default(), found.from)
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file =
            file("listen = \"127.0.0.1:1\"\nauth = \"keys\"\n[work]\nlease = \"1m\"\nmax_attempts = 9\n");
        let path = file.path().display().to_string();
        let layers = Layers::new(
            Some(file.path()),
            vec![variable("SEDERUNT_LISTEN", "127.0.0.1:2"), variable("SEDERUNT_WORK_LEASE", "2m")],
            vec![Flag { setting: "listen", flag: "--listen", value: "127.0.0.1:3".into() }],
        )
        .unwrap();
        for (name, value, from) in [
            ("listen", "127.0.0.1:3", "--listen"),
            ("work.lease", "2m", "SEDERUNT_WORK_LEASE"),
            ("work.max_attempts", "9", path.as_str()),
            ("auth", "keys", path.as_str()),
            ("log", "text", "default"),
            ("public_url", "", "unset"),
        ] {
            assert_eq!(shown(&layers, name), (value.to_owned(), from.to_owned()), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_no_setting_is_refused_where_it_stands() {
        for (text, name) in [
            ("lissten = \"x\"", "`lissten`"),
            ("[work]\nleese = \"1m\"", "`work.leese`"),
            ("[listen]\nport = 1", "`listen.port`"),
            ("work = 1", "`work`"),
        ] {
            let file = file(text);
            let refused = Layers::new(Some(file.path()), Vec::new(), Vec::new()).unwrap_err().to_string();
            assert!(refused.contains(name), "{refused}");
            assert!(refused.contains(&file.path().display().to_string()), "{refused}");
        }
        let refused = Layers::new(None, vec![variable("SEDERUNT_LISTTEN", "x")], Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("`SEDERUNT_LISTTEN` in the environment"), "{refused}");
    }

    #[test]
    fn what_others_put_into_the_environment_is_left_alone() {
        let theirs = ["SEDERUNT_SERVICE_HOST", "SEDERUNT_PORT_7070_TCP", "SEDERUNT_TEST_POSTGRES", "PATH"];
        let environment = theirs.iter().map(|name| variable(name, "x")).collect();
        assert!(Layers::new(None, environment, Vec::new()).unwrap().read().is_ok());
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_with_its_name_and_place() {
        for (name, value) in [
            ("SEDERUNT_WORK_LEASE", "soon"),
            ("SEDERUNT_WORK_MAX_ATTEMPTS", "many"),
            ("SEDERUNT_AUTH", "open"),
            ("SEDERUNT_STORE", "mysql://x"),
        ] {
            let layers = Layers::new(None, vec![variable(name, value)], Vec::new()).unwrap();
            let refused = layers.read().unwrap_err().to_string();
            assert!(refused.contains(name), "{refused}");
        }
        let workers = vec![Flag { setting: "workers", flag: "--workers", value: "x".into() }];
        let refused = Layers::new(None, Vec::new(), workers).unwrap().read().unwrap_err();
        let said = "`workers` in --workers must be a whole number, 0 or more, not `x`";
        assert_eq!(refused.sentence(), said);
        let file = file("[work]\nlease = 30\n");
        let refused = Layers::new(Some(file.path()), Vec::new(), Vec::new()).unwrap().read().unwrap_err();
        assert!(refused.to_string().contains("`work.lease`"), "{refused}");
    }

    #[test]
    fn the_password_of_a_store_is_masked() {
        let layers =
            Layers::new(None, vec![variable("SEDERUNT_STORE", "postgres://ada:s3cret@db/x")], Vec::new());
        assert_eq!(shown(&layers.unwrap(), "store").0, "postgres://ada:***@db/x");
    }
}
