//! The crisis response: a short text that takes the person seriously, and help resources where they live. Fixed words
//! and well-known public lines; nothing is looked up.

use super::codes::{ReasonCode, ResourceLookupStatus};
use super::lexicon::Language;
use super::{Level, texts};

/// A place that helps, free or at a local rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: &'static str,
    /// A number to call or an address to open.
    pub contact: &'static str,
}

/// Places for a region, and how they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    pub places: Vec<Resource>,
    pub status: ResourceLookupStatus,
}

/// What is said in a crisis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub text: String,
    pub resources: Resources,
}

const fn at(name: &'static str, contact: &'static str) -> Resource {
    Resource { name, contact }
}

/// By country, as two letters; the emergency number last.
const BY_REGION: &[(&str, &[Resource])] = &[
    ("US", &[at("988 Suicide & Crisis Lifeline", "988 (call or text)"), at("Emergency", "911")]),
    ("CA", &[at("9-8-8 Suicide Crisis Helpline", "988 (call or text)"), at("Emergency", "911")]),
    ("GB", &[at("Samaritans", "116 123"), at("Emergency", "999")]),
    ("IE", &[at("Samaritans", "116 123"), at("Emergency", "112")]),
    ("DE", &[at("TelefonSeelsorge", "0800 1110111 or 0800 1110222"), at("Notruf", "112")]),
    ("AT", &[at("Telefonseelsorge", "142"), at("Notruf", "112")]),
    ("CH", &[at("Die Dargebotene Hand", "143"), at("Notruf", "112")]),
    ("FR", &[at("Numéro national de prévention du suicide", "3114"), at("Urgences", "112")]),
    (
        "BE",
        &[
            at("Zelfmoordlijn", "1813"),
            at("Centre de prévention du suicide", "0800 32 123"),
            at("Emergency", "112"),
        ],
    ),
    ("NL", &[at("113 Zelfmoordpreventie", "113 or 0800-0113"), at("Emergency", "112")]),
    ("ES", &[at("Línea 024", "024"), at("Emergencias", "112")]),
    ("IT", &[at("Telefono Amico Italia", "02 2327 2327"), at("Emergenze", "112")]),
    ("PT", &[at("SNS 24", "808 24 24 24"), at("Emergência", "112")]),
    ("AU", &[at("Lifeline", "13 11 14"), at("Emergency", "000")]),
    ("NZ", &[at("1737, need to talk?", "1737 (call or text)"), at("Emergency", "111")]),
    ("IN", &[at("Tele-MANAS", "14416"), at("Emergency", "112")]),
    ("JP", &[at("よりそいホットライン (Yorisoi Hotline)", "0120-279-338"), at("Emergency", "119")]),
    ("BR", &[at("Centro de Valorização da Vida (CVV)", "188"), at("Emergência", "192")]),
    ("MX", &[at("Línea de la Vida", "800 911 2000"), at("Emergencias", "911")]),
    ("EU", &[at("Emotional support helplines", "116 123 (where available)"), at("Emergency", "112")]),
];

/// For people without a known country: a directory of all countries.
const ANYWHERE: Resource = at("Find A Helpline", "https://findahelpline.com");

/// Other members of the European Union, where the shared numbers work.
const UNION: &[&str] = &[
    "BG", "CY", "CZ", "DK", "EE", "FI", "GR", "HR", "HU", "LT", "LU", "LV", "MT", "PL", "RO", "SE", "SI",
    "SK",
];

/// Resources for a region such as `DE`, `de-AT` or `en_GB`; the directory of all countries always comes last.
pub fn resources(region: Option<&str>) -> Resources {
    let country = region.map(country).filter(|country| !country.is_empty());
    let row = |code: &str| BY_REGION.iter().find(|(known, _)| *known == code).map(|(_, places)| *places);
    let (places, status) = match country.as_deref() {
        None => (None, ResourceLookupStatus::RegionUnknown),
        Some("UK") => (row("GB"), ResourceLookupStatus::Found),
        Some(code) => match row(code).or_else(|| UNION.contains(&code).then(|| row("EU")).flatten()) {
            Some(places) => (Some(places), ResourceLookupStatus::Found),
            None => (None, ResourceLookupStatus::RegionUnlisted),
        },
    };
    let mut places = places.unwrap_or_default().to_vec();
    places.push(ANYWHERE);
    Resources { places, status }
}

/// The country of a locale, or of a country's own code.
fn country(region: &str) -> String {
    region.trim().rsplit(['-', '_']).next().unwrap_or_default().to_ascii_uppercase()
}

/// The crisis response at level 2 and 3, in the language of the words that caused it.
pub fn respond(level: Level, reason: ReasonCode, region: Option<&str>, language: Language) -> Response {
    let resources = resources(region);
    let texts = texts::of(language);
    let opening = match reason {
        ReasonCode::Overdose => texts.overdose,
        ReasonCode::HarmToOthers => texts.harm_to_others,
        ReasonCode::ThirdParty => texts.third_party,
        ReasonCode::SelfHarm => texts.self_harm,
        _ => texts.opening,
    };
    let urge = if level == Level::Acute { texts.act_now } else { texts.act_today };
    let mut text = format!("{opening}\n\n{urge}\n");
    for place in &resources.places {
        text.push_str(&format!("\n- {}: {}", place.name, place.contact));
    }
    text.push_str("\n\n");
    text.push_str(texts.closing);
    Response { text, resources }
}

/// The sentence that is added to an ordinary reply at level 1.
pub fn check_in(reason: ReasonCode, language: Language) -> &'static str {
    let texts = texts::of(language);
    match reason {
        ReasonCode::ThirdParty => texts.ask_about_others,
        _ => texts.ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceLookupStatus::{Found, RegionUnknown, RegionUnlisted};

    #[test]
    fn every_region_names_its_lines_and_the_directory() {
        let table = [
            (Some("US"), Found, "988"),
            (Some("us"), Found, "988"),
            (Some("en_GB"), Found, "116 123"),
            (Some("UK"), Found, "116 123"),
            (Some("IE"), Found, "116 123"),
            (Some("de-DE"), Found, "0800 1110111"),
            (Some("AT"), Found, "142"),
            (Some("de-CH"), Found, "143"),
            (Some("FR"), Found, "3114"),
            (Some("ES"), Found, "024"),
            (Some("IT"), Found, "02 2327 2327"),
            (Some("AU"), Found, "13 11 14"),
            (Some("CA"), Found, "988"),
            (Some("IN"), Found, "14416"),
            (Some("JP"), Found, "0120-279-338"),
            (Some("EU"), Found, "112"),
            (Some("SE"), Found, "112"),
            (Some("ZZ"), RegionUnlisted, "findahelpline.com"),
            (Some(" "), RegionUnknown, "findahelpline.com"),
            (None, RegionUnknown, "findahelpline.com"),
        ];
        for (region, status, contact) in table {
            let found = resources(region);
            assert_eq!(found.status, status, "{region:?}");
            assert!(found.places.iter().any(|place| place.contact.contains(contact)), "{region:?}");
            assert_eq!(found.places.last(), Some(&ANYWHERE));
        }
    }

    #[test]
    fn a_response_names_every_place_that_it_counts() {
        for level in [Level::Serious, Level::Acute] {
            for reason in ReasonCode::ALL {
                let response = respond(level, *reason, Some("DE"), Language::German);
                for place in &response.resources.places {
                    assert!(response.text.contains(place.name) && response.text.contains(place.contact));
                }
            }
        }
        let acute = respond(Level::Acute, ReasonCode::ActiveIdeation, None, Language::English).text;
        assert!(acute.contains("emergency number now"));
        assert!(
            respond(Level::Acute, ReasonCode::Overdose, None, Language::English)
                .text
                .contains("what you took")
        );
    }

    #[test]
    fn a_gentle_question_asks_and_gives_no_orders() {
        for reason in ReasonCode::ALL {
            for language in texts::ALL {
                assert!(check_in(*reason, language).contains('?'));
            }
        }
    }

    #[test]
    fn every_language_has_words_of_its_own() {
        let said = |language| respond(Level::Acute, ReasonCode::ActiveIdeation, None, language).text;
        let mut all: Vec<String> = texts::ALL.into_iter().map(said).collect();
        assert!(all.iter().all(|text| text.contains("findahelpline.com")));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), texts::ALL.len());
        assert!(said(Language::German).contains("Notrufnummer"), "{}", said(Language::German));
    }
}
