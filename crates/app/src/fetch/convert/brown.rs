//! The Brown corpus: documents whose words all have a part of speech.

use std::collections::BTreeMap;

use etalon::error::Result;
use etalon_models::data::{ConceptOptions, Concepts, Label};
use serde_json::json;

use super::super::archive::{Archives, Unpacked};
use super::super::output::{Output, OutputFile};
use super::brown_tags::part_of_speech;
use super::unexpected;

/// The genres that the corpus itself calls imaginative prose; the others are informative.
const IMAGINATIVE: [&str; 6] = ["adventure", "fiction", "humor", "mystery", "romance", "science_fiction"];

/// Words of a text, each with the space before it, and their tags.
#[derive(Default)]
struct Tagged {
    words: Vec<String>,
    tags: Vec<String>,
    /// The last word was an opening quote or bracket: no space follows it.
    opened: bool,
}

impl Tagged {
    /// Adds a word of the corpus, in which punctuation is separate and quotes are written `` and ''.
    fn push(&mut self, word: &str, tag: &str) {
        let closes = matches!(word, "," | "." | ";" | ":" | "?" | "!" | ")" | "]" | "''" | "'");
        let shown = match word {
            "``" | "''" => "\"",
            "`" => "'",
            word => word,
        };
        let space = if self.words.is_empty() || self.opened || closes { "" } else { " " };
        self.words.push(format!("{space}{shown}"));
        self.tags.push(tag.to_string());
        self.opened = matches!(word, "``" | "`" | "(" | "[");
    }

    /// Adds the words of a sentence.
    fn push_sentence(&mut self, line: &str) -> Result<()> {
        for token in line.split_whitespace() {
            // A word may contain a slash; a tag does not.
            match token.rsplit_once('/') {
                Some((word, tag)) if !word.is_empty() && !tag.is_empty() => self.push(word, tag),
                _ => return Err(unexpected("a word", token.escape_debug())),
            }
        }
        self.opened = false;
        Ok(())
    }

    fn parts(&self) -> Vec<&'static str> {
        self.tags.iter().map(|tag| part_of_speech(tag)).collect()
    }

    fn write(&self, id: &str, genre: &str, file: &mut OutputFile) -> Result<()> {
        let text = self.words.concat();
        file.json(&json!({
            "id": id, "text": text, "genre": genre, "words": self.words, "tag": self.tags, "pos": self.parts(),
        }))
    }

    /// Writes a sentence with two properties that occur in all combinations: the kind of prose, and whether it has a
    /// pronoun. Returns them.
    fn write_sentence(&self, id: &str, genre: &str, file: &mut OutputFile) -> Result<[bool; 2]> {
        let (text, parts) = (self.words.concat(), self.parts());
        let [imaginative, pronoun] = [IMAGINATIVE.contains(&genre), parts.contains(&"pronoun")];
        file.json(&json!({
            "id": id, "text": text, "genre": genre, "imaginative": u8::from(imaginative),
            "has_pronoun": u8::from(pronoun), "words": self.words, "tag": self.tags, "pos": parts,
        }))?;
        Ok([imaginative, pronoun])
    }
}

/// Brown: 500 documents, and the same sentence by sentence.
pub fn brown(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let (mut documents, mut genres) = (BTreeMap::new(), BTreeMap::new());
    archives.visit(0, &mut |member| {
        let name = member.name.strip_prefix("package/").unwrap_or(member.name).to_string();
        if name == "cats.txt" {
            let text = String::from_utf8(member.read()?).map_err(|error| unexpected("cats.txt", error))?;
            let genre = |line: &str| line.split_once(' ').map(|(id, genre)| (id.to_string(), genre.trim().to_string()));
            genres.extend(text.lines().filter_map(genre));
        } else if is_document(&name) {
            let text = String::from_utf8(member.read()?).map_err(|error| unexpected("a document", error))?;
            documents.insert(name, text);
        }
        Ok(Unpacked::More)
    })?;
    let columns = ["genre".to_string()];
    let sentence_columns = ["genre", "imaginative", "has_pronoun"].map(String::from);
    let (mut labels, mut sentence_labels) =
        (Concepts::new(&columns, output.budget())?, Concepts::new(&sentence_columns, output.budget())?);
    let (mut file, mut sentence_file) = (output.create("samples.jsonl")?, output.create("sentences.jsonl")?);
    let (mut words, mut sentences) = (0, 0);
    for (id, text) in &documents {
        output.check()?;
        let genre = genres.get(id).ok_or_else(|| unexpected("cats.txt", format!("no genre of {id}")))?;
        let label = [Label::Value(genre.clone())];
        let mut document = Tagged::default();
        for (number, line) in text.lines().filter(|line| !line.trim().is_empty()).enumerate() {
            document.push_sentence(line)?;
            let mut sentence = Tagged::default();
            sentence.push_sentence(line)?;
            let sentence_id = format!("{id}/{number}");
            let properties = sentence.write_sentence(&sentence_id, genre, &mut sentence_file)?;
            let [imaginative, pronoun] = properties.map(|has| Label::Value(u8::from(has).to_string()));
            sentence_labels.push(&sentence_id, &[label[0].clone(), imaginative, pronoun])?;
            sentences += 1;
        }
        words += document.words.len() as u64;
        document.write(id, genre, &mut file)?;
        labels.push(id, &label)?;
    }
    file.finish()?;
    sentence_file.finish()?;
    let concepts = output.labels("labels.csv", labels, &ConceptOptions::default())?;
    output.labels("sentences-labels.csv", sentence_labels, &ConceptOptions::default())?;
    output.count("texts", documents.len() as u64);
    output.count("sentences", sentences);
    output.count("words", words);
    output.count("concepts", concepts);
    output.part("", "samples.jsonl", Some("labels.csv"));
    output.part("sentences", "sentences.jsonl", Some("sentences-labels.csv"));
    Ok(())
}

/// Documents are called `ca01` to `cr09`.
fn is_document(name: &str) -> bool {
    matches!(name.as_bytes(), [b'c', b'a'..=b'r', b'0'..=b'9', b'0'..=b'9'])
}

#[cfg(test)]
mod tests {
    use etalon::context::Budget;
    use etalon_models::data::{Input, InputOptions};

    use super::super::super::testing::{convert, tgz};
    use super::*;

    #[test]
    fn words_keep_their_tags_through_the_input() {
        let text =
            b"\n\n\tThe/at jury/nn said/vbd ,/, ``/`` 1/2/cd of/in it/ppo ''/'' ./.\n\n\n\tI/ppss (/( too/rb )/) ./.\n";
        let other = b"\tDo/do n't/* go/vb !/.\n";
        let package = tgz(&[
            ("package/cats.txt", b"ca01 news\ncb01 editorial\n"),
            ("package/cb01", other),
            ("package/ca01", text),
            ("package/package.json", b"{}"),
        ]);
        let converted = convert(brown, &[("x.tgz", package)]).unwrap();
        let counts = [("texts", 2), ("sentences", 3), ("words", 19), ("concepts", 2)];
        assert_eq!(converted.counts, counts.map(|(what, number)| (what.to_string(), number)));
        let mut input =
            Input::open(&converted.path("samples.jsonl"), &InputOptions::default(), &Budget::new(1 << 24)).unwrap();
        let sample = input.next().unwrap().unwrap();
        let etalon_models::data::Content::Text(text) = &sample.content else { panic!() };
        assert_eq!(text, "The jury said, \"1/2 of it\". I (too).");
        let words = sample.words.unwrap();
        let shown: Vec<&str> = words.spans.iter().map(|span| &text[span.clone()]).collect();
        assert_eq!(shown[..8], ["The", "jury", "said", ",", "\"", "1/2", "of", "it"]);
        assert_eq!(words.tags[1].0, "pos");
        assert_eq!(words.tags[1].1[..6], ["determiner", "noun", "verb", "punctuation", "punctuation", "number"]);
        assert_eq!(sample.labels, [Label::Value("news".into())]);
        assert_eq!(converted.text("labels.csv"), "sample,editorial,news\nca01,0,1\ncb01,1,0\n");
        let second = converted.text("sentences.jsonl");
        assert!(second.lines().nth(1).is_some_and(|line| line.contains("\"text\":\"I (too).\"")), "{second}");
        let sentences = "sample,editorial,news,has_pronoun\nca01/0,0,1,1\nca01/1,0,1,1\ncb01/0,1,0,0\n";
        // No sentence of the two genres is imaginative, and a concept without a sample is left out.
        assert_eq!(converted.text("sentences-labels.csv"), sentences);
    }

    #[test]
    fn a_word_without_a_tag_is_refused() {
        let package = tgz(&[("package/cats.txt", b"ca01 news\n"), ("package/ca01", b"The\n")]);
        assert!(convert(brown, &[("x.tgz", package)]).is_err_and(|error| error.to_string().contains("The")));
    }
}
