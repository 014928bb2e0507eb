//! Samples that are files: one text or image each.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::Result;

use super::folder::FileList;
use super::input::{Item, Source};
use super::options::{ContentKind, InputOptions};
use super::sample::{Content, Label, Sample};

/// Maximum length of a file in bytes.
pub(super) const LONGEST_FILE: u64 = 1 << 28;

/// The column of classes that are names of folders.
const CLASS: &str = "class";

/// Files of a folder, or a single one.
pub(super) struct FileSamples {
    root: PathBuf,
    files: FileList,
    kind: ContentKind,
    notes: Vec<String>,
    label_columns: Vec<String>,
    next: usize,
    memory: Reservation,
}

impl FileSamples {
    /// The sorted files of a folder.
    pub fn new(
        root: &Path,
        files: FileList,
        kind: ContentKind,
        notes: Vec<String>,
        options: &InputOptions,
        budget: &Budget,
    ) -> Result<FileSamples> {
        let label_columns = if options.folder_classes { vec![CLASS.to_string()] } else { Vec::new() };
        let memory = budget.reserve(0, "a file of the input")?;
        Ok(FileSamples { root: root.to_path_buf(), files, kind, notes, label_columns, next: 0, memory })
    }

    /// One text file.
    pub fn single(path: &Path, budget: &Budget) -> Result<FileSamples> {
        let files = FileList { paths: vec![path.to_path_buf()], _memory: budget.reserve(0, "the name of a file")? };
        let root = path.parent().unwrap_or(Path::new(""));
        FileSamples::new(root, files, ContentKind::Text, Vec::new(), &InputOptions::default(), budget)
    }

    /// The sample of a file, or the reason why it cannot be read.
    fn sample(&mut self, path: &Path, id: &str) -> Result<std::result::Result<Sample, String>> {
        let bytes = match read_file(path, &mut self.memory)? {
            Ok(bytes) => bytes,
            Err(reason) => return Ok(Err(reason)),
        };
        let content = match self.kind {
            ContentKind::Text => text(bytes),
            ContentKind::Image => image(bytes),
        };
        let class = Path::new(id).parent().and_then(Path::file_name);
        let class = class.map_or(Label::Missing, |name| Label::Value(name.to_string_lossy().into_owned()));
        let labels = self.label_columns.iter().map(|_| class.clone()).collect();
        let (id, file) = (id.to_string(), Some(path.to_path_buf()));
        let (caption, words, marked) = (None, None, None);
        let sample = |content| Sample { position: 0, id, content, file, caption, labels, words, marked };
        Ok(content.map(sample))
    }
}

impl Source for FileSamples {
    fn kind(&self) -> ContentKind {
        self.kind
    }

    fn label_columns(&self) -> &[String] {
        &self.label_columns
    }

    fn count(&self) -> Option<u64> {
        Some(self.files.paths.len() as u64)
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        Some(self.files.paths.clone())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn read(&mut self) -> Result<Option<Item>> {
        let Some(path) = self.files.paths.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let id = path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().into_owned();
        Ok(Some(match self.sample(&path, &id)? {
            Ok(sample) => Item::Sample(Box::new(sample)),
            Err(reason) => Item::Corrupt(Some(id), reason),
        }))
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.next = usize::try_from(position).unwrap_or(usize::MAX);
        Ok(())
    }
}

/// The bytes of a file, or the reason why it cannot be read. Fails if there is no memory for it.
pub(super) fn read_file(path: &Path, memory: &mut Reservation) -> Result<std::result::Result<Vec<u8>, String>> {
    let length = match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => return Ok(Err("not a regular file".into())),
        Ok(about) if about.len() == 0 => return Ok(Err("the file is empty".into())),
        Ok(about) if about.len() > LONGEST_FILE => return Ok(Err(format!("longer than {} MB", LONGEST_FILE >> 20))),
        Ok(about) => about.len(),
        Err(error) => return Ok(Err(error.to_string())),
    };
    if length > memory.bytes() {
        memory.resize(length, "a file of the input")?;
    }
    let mut bytes = Vec::with_capacity(length as usize);
    let read = File::open(path).and_then(|file| file.take(length).read_to_end(&mut bytes));
    Ok(read.map(|_| bytes).map_err(|error| error.to_string()))
}

/// Bytes as a text that is not empty, without a byte order mark.
pub(super) fn text(bytes: Vec<u8>) -> std::result::Result<Content, String> {
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 text (byte {})", error.utf8_error().valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text);
    if text.trim().is_empty() { Err("the text is empty".into()) } else { Ok(Content::Text(text)) }
}

/// Bytes that start like an image.
pub(super) fn image(bytes: Vec<u8>) -> std::result::Result<Content, String> {
    let starts: [&[u8]; 4] = [b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM"];
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    if webp || starts.iter().any(|start| bytes.starts_with(start)) {
        return Ok(Content::Image(bytes));
    }
    let start = bytes.get(..12).unwrap_or(&bytes).escape_ascii();
    Err(format!("not a PNG, JPEG, WebP, GIF or BMP image (starts with \"{start}\")"))
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn ids(folder: &Path, options: &InputOptions) -> Result<(Vec<String>, Vec<String>)> {
        let mut input = Input::open(folder.to_str().unwrap(), options, &Budget::new(1 << 20))?;
        let mut ids = Vec::new();
        while let Some(sample) = input.next()? {
            let class = match sample.labels.first() {
                Some(Label::Value(class)) => format!(":{class}"),
                _ => String::new(),
            };
            ids.push(format!("{}{class}", sample.id));
        }
        Ok((ids, input.skipped().iter().map(|skipped| format!("{}: {}", skipped.id, skipped.reason)).collect()))
    }

    #[test]
    fn images_of_a_folder_are_sorted_and_damaged_ones_are_listed() {
        let files: &[(&str, &[u8])] = &[
            ("dog/2.PNG", PNG),
            ("cat/1.jpg", b"\xff\xd8\xff"),
            ("cat/0.png", b"<svg>"),
            ("b.gif", b""),
            ("x.csv", b"a"),
        ];
        let folder = folder(files);
        let options = InputOptions { folder_classes: true, ..InputOptions::default() };
        let (samples, skipped) = ids(folder.path(), &options).unwrap();
        assert_eq!(samples, ["cat/1.jpg:cat", "dog/2.PNG:dog"]);
        assert_eq!(skipped[0], "b.gif: the file is empty");
        assert!(skipped[1].starts_with("cat/0.png: not a PNG") && skipped.len() == 2, "{skipped:?}");
        let input = Input::open(folder.path().to_str().unwrap(), &options, &Budget::new(1 << 20)).unwrap();
        assert_eq!(input.notes(), ["1 other files in the folder are left out"]);
    }

    #[test]
    fn texts_and_images_together_need_a_choice() {
        let folder = folder(&[("a.txt", b"one"), ("b.png", PNG), ("c.txt", b"\xff"), ("d.txt", b" \n")]);
        let error = ids(folder.path(), &InputOptions::default()).unwrap_err().to_string();
        assert!(error.contains("texts and images") && error.contains("`kind text`"), "{error}");
        let options = InputOptions { kind: Some(ContentKind::Text), ..InputOptions::default() };
        let (samples, skipped) = ids(folder.path(), &options).unwrap();
        assert_eq!(samples, ["a.txt"]);
        assert_eq!(skipped, ["c.txt: not UTF-8 text (byte 0)", "d.txt: the text is empty"]);
    }

    #[test]
    fn an_input_without_a_sample_is_an_error() {
        let bad = folder(&[("a.txt", b"\xff")]);
        let error = ids(bad.path(), &InputOptions::default()).unwrap_err().to_string();
        assert!(error.contains("none of the texts") && error.contains("not UTF-8"), "{error}");
        let error = ids(folder(&[("a.zip", b"x")]).path(), &InputOptions::default()).unwrap_err().to_string();
        assert!(error.contains("neither texts, images nor tables") && error.contains("1 other files"), "{error}");
        let images = InputOptions { kind: Some(ContentKind::Image), ..InputOptions::default() };
        assert!(ids(bad.path(), &images).unwrap_err().to_string().contains("no images"));
    }

    #[test]
    fn a_seek_continues_with_the_same_samples() {
        let folder = folder(&[("a.txt", b"one"), ("b.txt", b"\xff"), ("c.txt", b"two")]);
        let name = folder.path().to_str().unwrap();
        let mut input = Input::open(name, &InputOptions::default(), &Budget::new(1 << 20)).unwrap();
        input.next().unwrap();
        let mut later = Input::open(name, &InputOptions::default(), &Budget::new(1 << 20)).unwrap();
        later.seek(input.position()).unwrap();
        let sample = later.next().unwrap().unwrap();
        assert_eq!((sample.position, sample.id.as_str(), later.skipped().len()), (2, "c.txt", 1));
        assert!(later.next().unwrap().is_none());
        later.reject(&sample, "no token");
        assert_eq!(later.skipped()[1].reason, "no token");
    }
}
