//! Which columns of a table are the texts or images, the ids, the captions, the words and the labels.

use etalon::error::{InputError, Key, Result};
use etalon::input::{CellKind, Column};

use super::options::{ContentKind, InputOptions};

/// Columns that are indices of a program, not labels.
const INDICES: [&str; 3] = ["__index_level_0__", "Unnamed: 0", "index"];

/// The chosen columns, by index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub kind: ContentKind,
    /// The texts or images. `None` for a table that only describes images of an array, or texts that are made of words.
    pub content: Option<usize>,
    pub id: Option<usize>,
    /// The path beside image bytes, used as the id if there is no other.
    pub path: Option<usize>,
    pub caption: Option<usize>,
    /// The words of a text, and the columns that annotate them.
    pub words: Option<usize>,
    pub word_tags: Vec<usize>,
    pub labels: Vec<usize>,
    /// What was chosen without being asked for.
    pub notes: Vec<String>,
}

/// Chooses the columns of a table with texts or images.
pub(super) fn choose(columns: &[Column], options: &InputOptions) -> Result<Chosen> {
    let table = Columns(columns);
    let mut notes = Vec::new();
    let kind = match (options.kind, &options.text_column, &options.image_column) {
        (Some(kind), ..) => kind,
        (None, Some(_), None) => ContentKind::Text,
        (None, None, Some(_)) => ContentKind::Image,
        _ if table.usual_image().is_some() && table.find("text").is_none() => ContentKind::Image,
        _ if table.usual_image().is_none() && table.only(CellKind::Bytes).is_some() && table.find("text").is_none() => {
            ContentKind::Image
        }
        _ => ContentKind::Text,
    };
    let words = match &options.words_column {
        Some(name) => Some(table.named(name, "words-column", &[CellKind::List])?),
        None if kind == ContentKind::Text => ["words", "tokens"]
            .iter()
            .find_map(|name| table.find(name))
            .filter(|&column| columns[column].kind == CellKind::List),
        None => None,
    };
    let content = match kind {
        ContentKind::Text => table.text(options, words.is_some(), &mut notes)?,
        ContentKind::Image => Some(table.image(options, &mut notes)?),
    };
    let mut chosen = describe(columns, options, content, words)?;
    (chosen.kind, chosen.notes) = (kind, notes);
    Ok(chosen)
}

/// Chooses the columns that describe samples whose content is elsewhere, or in `content` or `words`.
pub(super) fn describe(
    columns: &[Column],
    options: &InputOptions,
    content: Option<usize>,
    words: Option<usize>,
) -> Result<Chosen> {
    let table = Columns(columns);
    let plain = [CellKind::Text, CellKind::Number];
    let optional = |option: &Option<String>, name: &str, usual: &str| match option {
        Some(given) => table.named(given, name, &plain).map(Some),
        None => Ok(table.find(usual).filter(|&column| plain.contains(&columns[column].kind))),
    };
    let id = optional(&options.id_column, "id-column", "id")?;
    let caption = optional(&options.caption_column, "caption-column", "caption")?;
    // `image.path` beside `image.bytes`.
    let path = content.and_then(|column| columns[column].name.strip_suffix(".bytes"));
    let path = path.and_then(|name| table.find(&format!("{name}.path")));
    let used: Vec<usize> = [content, words, id, caption, path].into_iter().flatten().collect();
    let left = |kinds: &[CellKind]| -> Vec<usize> {
        let free = |column: &usize| !used.contains(column) && kinds.contains(&columns[*column].kind);
        (0..columns.len()).filter(free).filter(|&column| !INDICES.contains(&columns[column].name.as_str())).collect()
    };
    let labelled = [CellKind::Text, CellKind::Number, CellKind::Bool, CellKind::List];
    let (word_tags, free) = match words {
        Some(_) => (left(&[CellKind::List]), left(&labelled[..3])),
        None => (Vec::new(), left(&labelled)),
    };
    let (word_tags, labels) = match &options.label_columns {
        Some(names) => {
            let wanted = names.iter().filter(|name| !options.any_labels || table.find(name).is_some());
            let named = wanted.map(|name| table.named(name, "label-columns", &labelled));
            named.collect::<Result<Vec<usize>>>()?.into_iter().partition(|column| word_tags.contains(column))
        }
        None => (word_tags, free),
    };
    for name in options.tag_columns.iter().filter(|name| !options.any_labels || table.find(name).is_some()) {
        table.named(name, "tag-columns", &[CellKind::Text])?;
    }
    let kind = ContentKind::Image;
    Ok(Chosen { kind, content, id, path, caption, words, word_tags, labels, notes: Vec::new() })
}

struct Columns<'a>(&'a [Column]);

impl Columns<'_> {
    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|column| column.name == name)
    }

    /// The only column of a kind.
    fn only(&self, kind: CellKind) -> Option<usize> {
        let mut found = (0..self.0.len()).filter(|&column| self.0[column].kind == kind);
        found.next().filter(|_| found.next().is_none())
    }

    /// The column that an option names.
    fn named(&self, name: &str, option: &str, kinds: &[CellKind]) -> Result<usize> {
        let Some(column) = self.find(name) else {
            let known: Vec<&str> = self.0.iter().map(|column| column.name.as_str()).collect();
            return Err(InputError::new(format!("there is no column `{name}`"))
                .advice(format!("{} takes the name of a column", Key(option)))
                .one_of(name, &known)
                .into());
        };
        let kind = self.0[column].kind;
        if !kinds.contains(&kind) {
            let expected: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            return Err(InputError::new(format!("the column `{name}` has the wrong type"))
                .expected(expected.join(" or "))
                .found(kind.name())
                .advice(format!("choose another column with {}", Key(option)))
                .into());
        }
        Ok(column)
    }

    fn text(&self, options: &InputOptions, has_words: bool, notes: &mut Vec<String>) -> Result<Option<usize>> {
        let kinds = [CellKind::Text, CellKind::Bytes];
        match &options.text_column {
            Some(name) => return self.named(name, "text-column", &kinds).map(Some),
            None if self.find("text").is_some() => return self.named("text", "text-column", &kinds).map(Some),
            None if has_words => return Ok(None),
            None => {}
        }
        match self.only(CellKind::Text) {
            Some(column) => {
                notes.push(format!("the texts are in the column `{}`", self.0[column].name));
                Ok(Some(column))
            }
            None => Err(self.missing("text", "text-column").into()),
        }
    }

    /// The image column by its usual names.
    fn usual_image(&self) -> Option<usize> {
        let names = ["image.bytes", "image", "img.bytes", "img", "file_name"];
        names.iter().find_map(|name| self.find(name))
    }

    fn image(&self, options: &InputOptions, notes: &mut Vec<String>) -> Result<usize> {
        let kinds = [CellKind::Bytes, CellKind::Text];
        if let Some(name) = &options.image_column {
            // A structure is chosen by its own name.
            let inner = format!("{name}.bytes");
            let name = if self.find(name).is_none() && self.find(&inner).is_some() { &inner } else { name };
            return self.named(name, "image-column", &kinds);
        }
        if let Some(column) = self.usual_image() {
            return self.named(&self.0[column].name, "image-column", &kinds);
        }
        match self.only(CellKind::Bytes) {
            Some(column) => {
                notes.push(format!("the images are in the column `{}`", self.0[column].name));
                Ok(column)
            }
            None => Err(self.missing("image", "image-column").into()),
        }
    }

    fn missing(&self, name: &str, option: &str) -> InputError {
        let known: Vec<&str> = self.0.iter().map(|column| column.name.as_str()).collect();
        InputError::new(format!("the table has no column `{name}`"))
            .advice(format!("name the column with `{option}`"))
            .one_of(name, &known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(columns: &[(&str, CellKind)]) -> Vec<Column> {
        columns.iter().map(|&(name, kind)| Column { name: name.to_string(), kind }).collect()
    }

    #[test]
    fn the_usual_names_are_recognised() {
        use CellKind::{Bytes, List, Nested, Number, Text};
        let table =
            columns(&[("image.bytes", Bytes), ("image.path", Text), ("label", Number), ("id", Text), ("x", Nested)]);
        let chosen = choose(&table, &InputOptions::default()).unwrap();
        assert_eq!(
            (chosen.kind, chosen.content, chosen.path, chosen.id),
            (ContentKind::Image, Some(0), Some(1), Some(3))
        );
        assert_eq!(chosen.labels, [2]);
        let table = columns(&[("id", Number), ("text", Text), ("words", List), ("pos", List), ("genre", Text)]);
        let chosen = choose(&table, &InputOptions::default()).unwrap();
        assert_eq!((chosen.kind, chosen.content, chosen.words), (ContentKind::Text, Some(1), Some(2)));
        assert_eq!((chosen.word_tags, chosen.labels), (vec![3], vec![4]));
        let table = columns(&[("dataset", Text), ("data", Bytes), ("__index_level_0__", Number)]);
        let chosen = choose(&table, &InputOptions::default()).unwrap();
        assert_eq!((chosen.kind, chosen.labels, chosen.notes.len()), (ContentKind::Image, vec![0], 1));
        // Words without a text.
        let table = columns(&[("tokens", List), ("ner_tags", List)]);
        let chosen = choose(&table, &InputOptions::default()).unwrap();
        assert_eq!((chosen.content, chosen.words, chosen.word_tags), (None, Some(0), vec![1]));
    }

    #[test]
    fn chosen_labels_are_of_words_or_of_texts() {
        let table = columns(&[
            ("words", CellKind::List),
            ("tag", CellKind::List),
            ("pos", CellKind::List),
            ("genre", CellKind::Text),
            ("author", CellKind::Text),
        ]);
        let chosen = |names: &[&str]| {
            let names = names.iter().map(|name| name.to_string()).collect();
            choose(&table, &InputOptions { label_columns: Some(names), ..InputOptions::default() }).unwrap()
        };
        let both = chosen(&["genre", "pos"]);
        assert_eq!((both.word_tags, both.labels), (vec![2], vec![3]));
        assert_eq!((chosen(&["author"]).word_tags, chosen(&["tag"]).labels), (vec![], vec![]));
    }

    #[test]
    fn a_missing_or_wrong_column_is_explained() {
        let table = columns(&[("texts", CellKind::Text), ("other", CellKind::Text), ("n", CellKind::Number)]);
        let with = |name: &str| InputOptions { text_column: Some(name.into()), ..InputOptions::default() };
        let error = choose(&table, &InputOptions::default()).unwrap_err().to_string();
        assert!(error.contains("no column `text`") && error.contains("did you mean `texts`"), "{error}");
        let error = choose(&table, &with("othe")).unwrap_err().to_string();
        assert!(error.contains("did you mean `other`") && error.contains("text-column"), "{error}");
        let error = choose(&table, &with("n")).unwrap_err().to_string();
        assert!(error.contains("wrong type") && error.contains("found: numbers"), "{error}");
        let labels = InputOptions { label_columns: Some(vec!["x".into()]), ..with("texts") };
        assert!(choose(&table, &labels).unwrap_err().to_string().contains("label-columns"));
    }
}
