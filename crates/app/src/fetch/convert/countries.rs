//! Countries with their capital, continent and language, and prompts that ask for them, as files of RAVEL.

use etalon::error::Result;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::archive::Archives;
use super::super::output::Output;
use super::unexpected;

/// Templates of an attribute: the first four are for training, the others for validation.
const TEMPLATES: [(&str, [&str; 6]); 3] = [
    (
        "Capital",
        [
            "The capital of %s is the city of",
            "Country: %s. Capital:",
            "Norway has the capital Oslo. %s has the capital",
            "Question: What is the capital of %s? Answer:",
            "%s is a country, and its capital is called",
            "The parliament of %s meets in the city of",
        ],
    ),
    (
        "Continent",
        [
            "%s is a country on the continent of",
            "Country: %s. Continent:",
            "Kenya belongs to the continent Africa. %s belongs to the continent",
            "Question: On which continent is %s? Answer:",
            "A flight to %s is a flight to the continent of",
            "Kenya is in Africa. %s is in",
        ],
    ),
    (
        "Language",
        [
            "The official language of %s is",
            "Country: %s. Official language:",
            "People in Poland speak Polish. People in %s speak",
            "Question: Which language do most people in %s speak? Answer:",
            "A school in %s teaches its lessons in the language",
            "Newspapers in %s are written in",
        ],
    ),
];

/// Templates of an attribute that are for training.
const TRAINING: usize = 4;

/// One country in this many, the last of them, is for validation.
const VALIDATION: usize = 3;

/// Names of languages that people would not use, and what they are called.
const LANGUAGES: [(&str, &str); 3] =
    [("Austro-Bavarian German", "German"), ("Moldavian", "Romanian"), ("Maldivian", "Dhivehi")];

#[derive(Deserialize)]
struct Country {
    name: Name,
    #[serde(default)]
    independent: Option<bool>,
    #[serde(default)]
    capital: Vec<String>,
    region: String,
    #[serde(default)]
    subregion: String,
    #[serde(default)]
    languages: Map<String, Value>,
}

#[derive(Deserialize)]
struct Name {
    common: String,
}

impl Country {
    /// The two Americas are continents of their own; that of the north has Central America and the Caribbean.
    fn continent(&self) -> &str {
        match (self.region.as_str(), self.subregion.as_str()) {
            ("Americas", "South America") => "South America",
            ("Americas", _) => "North America",
            (region, _) => region,
        }
    }

    /// The only language, without what is said about it in brackets.
    fn language(&self) -> Option<&str> {
        let mut names = self.languages.values().filter_map(Value::as_str);
        let (name, None) = (names.next()?, names.next()) else { return None };
        let name = name.split(" (").next().unwrap_or(name);
        Some(LANGUAGES.iter().find(|(listed, _)| *listed == name).map_or(name, |(_, usual)| usual))
    }
}

/// Independent countries with one capital and one language.
pub fn countries(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let [json] = archives.read(0, ["package/countries.json"])?;
    let _memory = output.budget().reserve(4 * json.len() as u64, "the countries")?;
    let all: Vec<Country> = serde_json::from_slice(&json).map_err(|error| unexpected("countries.json", error))?;
    let (mut labels, mut splits) = (Map::new(), Map::new());
    for country in all.iter().filter(|country| country.independent == Some(true)) {
        let ([capital], Some(language)) = (country.capital.as_slice(), country.language()) else { continue };
        let split = if labels.len() % VALIDATION == VALIDATION - 1 { "val" } else { "train" };
        let name = &country.name.common;
        splits.insert(name.clone(), json!(split));
        let of_country = json!({"Capital": capital, "Continent": country.continent(), "Language": language});
        if labels.insert(name.clone(), of_country).is_some() {
            return Err(unexpected("countries.json", format!("two countries are called {name}")));
        }
    }
    let prompts: Map<String, Value> =
        TEMPLATES.iter().map(|(attribute, templates)| (attribute.to_string(), json!(templates))).collect();
    let split = |(index, template): (usize, &&str)| {
        (template.to_string(), json!(if index < TRAINING { "train" } else { "val" }))
    };
    let template_splits: Map<String, Value> =
        TEMPLATES.iter().flat_map(|(_, templates)| templates.iter().enumerate().map(split)).collect();
    output.count("entities", labels.len() as u64);
    output.count("attributes", TEMPLATES.len() as u64);
    output.count("templates", template_splits.len() as u64);
    let files = [
        ("entity_attributes", labels),
        ("attribute_to_prompts", prompts),
        ("entity_to_split", splits),
        ("prompt_to_split", template_splits),
    ];
    for (part, object) in files {
        let text = serde_json::to_string_pretty(&object).map_err(|error| unexpected(part, error))?;
        output.write(&format!("ravel_country_{part}.json"), format!("{text}\n").as_bytes())?;
    }
    output.part("", "", None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use etalon::context::Budget;
    use etalon::labels::{EntitySet, PromptSplit};

    use super::super::super::testing::{convert, tgz};
    use super::*;

    #[test]
    fn the_loader_of_entities_reads_the_countries() {
        let country = |name: &str, independent: bool, region: &str, subregion: &str, languages: Value| {
            json!({"name": {"common": name}, "independent": independent, "capital": [format!("{name} City")],
                   "region": region, "subregion": subregion, "languages": languages, "area": 1})
        };
        let all = json!([
            country("Chile", true, "Americas", "South America", json!({"spa": "Spanish"})),
            country("Belgium", true, "Europe", "Western Europe", json!({"nld": "Dutch", "fra": "French"})),
            country("Cuba", true, "Americas", "Caribbean", json!({"spa": "Spanish"})),
            country("Aruba", false, "Americas", "Caribbean", json!({"nld": "Dutch"})),
            country("Iran", true, "Asia", "Southern Asia", json!({"fas": "Persian (Farsi)"})),
            country("Moldova", true, "Europe", "Eastern Europe", json!({"ron": "Moldavian"})),
        ]);
        let package = tgz(&[("package/countries.json", all.to_string().as_bytes())]);
        let converted = convert(countries, &[("x.tgz", package)]).unwrap();
        let directory = converted.path("");
        let set = EntitySet::read(Path::new(&directory), &Budget::new(1 << 24)).unwrap();
        let [kind] = set.kinds.as_slice() else { panic!("one kind") };
        let names: Vec<(&str, PromptSplit)> = kind.entities().unwrap();
        let (train, validation) = (PromptSplit::Train, PromptSplit::Validation);
        assert_eq!(names, [("Chile", train), ("Cuba", train), ("Iran", validation), ("Moldova", train)]);
        let labels = |attribute: &str| kind.attribute(attribute).unwrap().labels;
        assert_eq!(labels("Capital")[0], "Chile City");
        assert_eq!(labels("Continent"), ["South America", "North America", "Asia", "Europe"]);
        assert_eq!(labels("Language"), ["Spanish", "Spanish", "Persian", "Romanian"]);
        for attribute in kind.attributes() {
            let templates = kind.attribute(attribute).unwrap().templates;
            assert_eq!(templates.iter().filter(|template| template.2 == train).count(), TRAINING);
        }
        assert_eq!(converted.counts[0], ("entities".to_string(), 4));
        assert!(convert(countries, &[("x.tgz", tgz(&[("package/countries.json", b"{}")]))]).is_err());
    }
}
