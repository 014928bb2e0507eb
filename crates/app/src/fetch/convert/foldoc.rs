//! Computing: definitions of a dictionary as texts and as multiple-choice questions, and questions about capitals and chemical
//! elements to compare with.

use std::collections::BTreeMap;
use std::io::Read;

use etalon::error::Result;
use etalon_kernel::random::{index, permutation, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::archive::Archives;
use super::super::output::Output;
use super::unexpected;

/// Choices of a question.
const CHOICES: usize = 4;

/// Characters of a definition that is asked about.
const DEFINITION: std::ops::RangeInclusive<usize> = 60..=260;

/// A category needs this many definitions to give wrong choices.
const LEAST_OF_CATEGORY: usize = 20;

/// The largest dictionary, uncompressed.
const MOST_BYTES: u64 = 1 << 25;

/// An entry of the dictionary: a term, the first of its categories, and what it means.
#[derive(Clone, Debug, PartialEq)]
struct Definition {
    term: String,
    category: String,
    text: String,
}

/// FOLDOC with facts about other subjects.
pub fn foldoc(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let [packed] = archives.read(0, ["usr/share/dictd/foldoc.dict.dz"])?;
    let _memory = output.budget().reserve(6 * MOST_BYTES, "the dictionary")?;
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(packed.as_slice()).take(MOST_BYTES);
    decoder.read_to_end(&mut bytes).map_err(|error| unexpected("foldoc.dict.dz", error))?;
    let definitions = parse(&String::from_utf8_lossy(&bytes));
    let mut file = output.create("samples.jsonl")?;
    for (number, definition) in definitions.iter().enumerate() {
        let text = format!("{}: {}", definition.term, definition.text);
        file.json(&json!({"id": number.to_string(), "text": text, "category": definition.category}))?;
    }
    file.finish()?;
    let questions = definition_questions(&definitions);
    write(output, "questions.jsonl", &questions)?;
    let [countries] = archives.read(1, ["package/countries.min.json"])?;
    let [elements] = archives.read(2, ["package/data.json"])?;
    let mut facts = capital_questions(&countries)?;
    facts.extend(symbol_questions(&elements)?);
    write(output, "facts.jsonl", &facts)?;
    output.count("texts", definitions.len() as u64);
    output.count("questions", questions.len() as u64);
    output.count("facts", facts.len() as u64);
    output.part("", "samples.jsonl", None);
    output.part("questions", "questions.jsonl", None);
    output.part("facts", "facts.jsonl", None);
    Ok(())
}

/// Writes questions in random order, so that the first of them are a sample.
fn write(output: &Output<'_>, name: &str, questions: &[Value]) -> Result<()> {
    let mut file = output.create(name)?;
    for number in permutation(questions.len(), &mut stream(0, name, 0)) {
        file.json(&questions[number])?;
    }
    file.finish()
}

/// The entries that have a category.
fn parse(text: &str) -> Vec<Definition> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut in_heading = false;
    for line in text.lines() {
        let is_heading = line.starts_with(|c: char| !c.is_whitespace());
        match entries.last_mut() {
            // Other names of the same entry.
            Some(_) if is_heading && in_heading => {}
            _ if is_heading => entries.push((line.to_string(), String::new())),
            Some((_, body)) => {
                body.push(' ');
                body.push_str(line);
            }
            None => {}
        }
        in_heading = is_heading;
    }
    entries.iter().filter_map(|(heading, body)| definition(heading, body)).collect()
}

fn definition(heading: &str, body: &str) -> Option<Definition> {
    let words: Vec<&str> = body.split_whitespace().collect();
    let body = words.join(" ").replace(['{', '}'], "");
    let body = body.strip_prefix("1. ").unwrap_or(&body);
    let (categories, text) = body.strip_prefix('<')?.split_once('>')?;
    let text = text.trim().strip_prefix("1. ").unwrap_or(text.trim());
    let category = categories.split(',').next().unwrap_or_default().trim().to_string();
    let term = heading.split("%%%").next().unwrap_or_default().trim().to_string();
    (!text.is_empty()).then(|| Definition { term, category, text: text.to_string() })
}

/// The first sentence: up to a full stop that is followed by the end or by the beginning of another one.
fn first_sentence(text: &str) -> &str {
    let starts = |rest: &str| {
        let mut after = rest.chars();
        match (after.next(), after.next()) {
            (None, _) => true,
            (Some(' '), Some(next)) => next.is_uppercase() || matches!(next, '(' | '[' | '"'),
            _ => false,
        }
    };
    let end = text.match_indices('.').find(|(at, _)| starts(&text[at + 1..]));
    end.map_or(text, |(at, _)| &text[..=at])
}

/// What can be asked: a plain term, and a sentence of moderate length that does not contain it.
fn asked(definition: &Definition) -> Option<&str> {
    let term = &definition.term;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | ' ' | '-');
    let is_term = (3..=31).contains(&term.len()) && term.starts_with(|c: char| c.is_ascii_alphabetic());
    let sentence = first_sentence(&definition.text);
    let fits = DEFINITION.contains(&sentence.chars().count()) && sentence.ends_with('.') && !sentence.contains("http");
    let says_it = sentence.to_lowercase().contains(&term.to_lowercase());
    (is_term && term.chars().all(plain) && fits && !says_it).then_some(sentence)
}

/// A question whose right choice is at a random position.
fn question(subject: &str, text: String, right: &str, others: &[&str], name: &str, number: usize) -> Value {
    let mut random = stream(0, name, number as u64);
    let answer = index(CHOICES, &mut random);
    let mut choices: Vec<&str> = others.to_vec();
    choices.insert(answer, right);
    json!({"question": text, "choices": choices, "answer": answer, "subject": subject})
}

/// Three other values of a group, in random order; `None` if it has too few.
fn wrong<'a>(group: &[&'a str], right: &str, name: &str, number: usize) -> Option<Vec<&'a str>> {
    let mut random = stream(1, name, number as u64);
    let mut found: Vec<&str> = Vec::new();
    for at in permutation(group.len(), &mut random) {
        if group[at] != right && !found.contains(&group[at]) {
            found.push(group[at]);
        }
        if found.len() == CHOICES - 1 {
            return Some(found);
        }
    }
    None
}

fn definition_questions(definitions: &[Definition]) -> Vec<Value> {
    let usable: Vec<(&Definition, &str)> =
        definitions.iter().filter_map(|definition| Some((definition, asked(definition)?))).collect();
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (definition, sentence) in &usable {
        groups.entry(&definition.category).or_default().push(sentence);
    }
    let one = |(number, (definition, sentence)): (usize, &(&Definition, &str))| {
        let group = groups.get(definition.category.as_str()).filter(|group| group.len() >= LEAST_OF_CATEGORY)?;
        let others = wrong(group, sentence, "definitions", number)?;
        let text = format!("In computing, {} means:", definition.term);
        Some(question("computing", text, sentence, &others, "definitions", number))
    };
    usable.iter().enumerate().filter_map(one).collect()
}

#[derive(Deserialize)]
struct Country {
    name: String,
    continent: String,
    capital: String,
    #[serde(default, rename = "partOf")]
    part_of: Option<String>,
}

/// Capitals, against others of the same continent. Countries whose name tells their capital are left out.
fn capital_questions(bytes: &[u8]) -> Result<Vec<Value>> {
    let countries: BTreeMap<String, Country> =
        serde_json::from_slice(bytes).map_err(|error| unexpected("countries.min.json", error))?;
    let tells = |country: &Country| country.name.contains(&country.capital) || country.capital.contains(&country.name);
    let usable: Vec<&Country> = countries
        .values()
        .filter(|country| country.part_of.is_none() && !country.capital.is_empty() && !tells(country))
        .collect();
    let one = |(number, country): (usize, &&Country)| {
        let same = usable.iter().filter(|other| other.continent == country.continent);
        let group: Vec<&str> = same.map(|other| other.capital.as_str()).collect();
        let others = wrong(&group, &country.capital, "capitals", number)?;
        let text = format!("The capital of {} is", country.name);
        Some(question("capitals", text, &country.capital, &others, "capitals", number))
    };
    Ok(usable.iter().enumerate().filter_map(one).collect())
}

#[derive(Deserialize)]
struct Element {
    name: String,
    symbol: String,
}

/// Symbols of chemical elements.
fn symbol_questions(bytes: &[u8]) -> Result<Vec<Value>> {
    let elements: Vec<Element> = serde_json::from_slice(bytes).map_err(|error| unexpected("data.json", error))?;
    let group: Vec<&str> = elements.iter().map(|element| element.symbol.as_str()).collect();
    let one = |(number, element): (usize, &Element)| {
        let others = wrong(&group, &element.symbol, "symbols", number)?;
        let text = format!("The chemical symbol of {} is", element.name.to_lowercase());
        Some(question("chemical symbols", text, &element.symbol, &others, "symbols", number))
    };
    Ok(elements.iter().enumerate().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{convert, deb, gzip, tar_bytes, tgz};
    use super::*;

    fn sentence(number: usize) -> String {
        format!("A thing of the number {number} that is described here at some length in a {{dictionary}}.")
    }

    #[test]
    fn definitions_become_texts_and_questions() {
        let mut dictionary = String::from("\n\n00-database-short\n     A dictionary\nNo additional restrictions.\n\n");
        for number in 0..LEAST_OF_CATEGORY {
            let letter = char::from(b'a' + number as u8);
            dictionary += &format!(
                "term {letter}%%%other\nname\n\n   <language, tool> {}  See\n   more.\n\n   (1999-01-01)\n\n",
                sentence(number)
            );
        }
        dictionary += "rare\n\n   <unit> One of its kind, which has no others in its category to be told from.\n\n";
        let tar = tar_bytes(&[("./usr/share/dictd/foldoc.dict.dz", &gzip(dictionary.as_bytes()))]);
        let countries = r#"{"AA":{"name":"Aa","continent":"EU","capital":"One"},"BB":{"name":"Bb","continent":"EU","capital":"Two"},
            "CC":{"name":"Cc","continent":"EU","capital":"Three"},"DD":{"name":"Dd","continent":"EU","capital":"Four"},
            "EE":{"name":"Ee","continent":"EU","capital":"Ee City"},"FF":{"name":"Ff","continent":"AS","capital":"Six"},
            "GG":{"name":"Gg","continent":"EU","capital":"","partOf":"AA"}}"#;
        let elements = r#"[{"name":"Hydrogen","symbol":"H"},{"name":"Helium","symbol":"He"},{"name":"Iron","symbol":"Fe"},{"name":"Tin","symbol":"Sn"}]"#;
        let packages = [
            ("a.deb", deb(&[("debian-binary", b"2.0\n"), ("data.tar", &tar)])),
            ("b.tgz", tgz(&[("package/countries.min.json", countries.as_bytes())])),
            ("c.tgz", tgz(&[("package/data.json", elements.as_bytes())])),
        ];
        let converted = convert(foldoc, &packages).unwrap();
        assert_eq!(converted.parts, ["", "questions", "facts"]);
        // Four capitals of one continent and four symbols; the category of one definition gives no questions.
        let counts = [("texts", 21), ("questions", 20), ("facts", 8)];
        assert_eq!(converted.counts, counts.map(|(what, number)| (what.to_string(), number)));
        let text = sentence(0).replace(['{', '}'], "");
        let first =
            format!("{{\"id\":\"0\",\"text\":\"term a: {text} See more. (1999-01-01)\",\"category\":\"language\"}}");
        assert_eq!(converted.text("samples.jsonl").lines().next(), Some(first.as_str()));
        for name in ["questions.jsonl", "facts.jsonl"] {
            for line in converted.text(name).lines() {
                let value: Value = serde_json::from_str(line).unwrap();
                let choices: Vec<&str> =
                    value["choices"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                let mut distinct = choices.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!((choices.len(), distinct.len()), (CHOICES, CHOICES), "{line}");
                let right = choices[value["answer"].as_u64().unwrap() as usize];
                if value["question"] == "In computing, term c means:" {
                    assert_eq!(right, sentence(2).replace(['{', '}'], ""));
                }
                if value["question"] == "The chemical symbol of iron is" {
                    assert_eq!((right, &value["subject"]), ("Fe", &json!("chemical symbols")));
                }
            }
        }
    }

    #[test]
    fn sentences_end_where_another_begins() {
        assert_eq!(first_sentence("One e.g. two 1.5 three. Four."), "One e.g. two 1.5 three.");
        assert_eq!(first_sentence("No end"), "No end");
        assert_eq!(first_sentence("One. (Two)"), "One.");
    }
}
