//! The files of a folder, at any depth, in the order of their names.

use std::fs;
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::{Error, InputError, Key, Result};

use super::options::{ContentKind, InputOptions};

/// Maximum depth. A link to a folder above would never end.
const DEEPEST: usize = 32;

const IMAGES: [&str; 6] = ["png", "jpg", "jpeg", "webp", "gif", "bmp"];
const TABLES: [&str; 7] = ["jsonl", "ndjson", "csv", "tsv", "parquet", "arrow", "feather"];

/// What a folder contains.
pub(super) struct Folder {
    pub files: FolderFiles,
    /// Which files are left out.
    pub notes: Vec<String>,
}

/// Files of one kind, sorted.
pub(super) enum FolderFiles {
    /// Tables whose records are the samples.
    Tables(Vec<PathBuf>),
    /// One sample per file.
    Samples(ContentKind, FileList),
}

/// Paths with the reservation for their memory.
pub(super) struct FileList {
    pub paths: Vec<PathBuf>,
    pub _memory: Reservation,
}

impl Folder {
    /// Lists a folder and decides what its samples are.
    pub fn list(folder: &Path, options: &InputOptions, budget: &Budget) -> Result<Folder> {
        let mut memory = budget.reserve(0, "the names of the files of a folder")?;
        let mut found = FoundFiles::default();
        walk(folder, DEEPEST, &mut found, &mut memory)?;
        let FoundFiles { mut images, mut texts, mut tables, others } = found;
        [&mut images, &mut texts, &mut tables].into_iter().for_each(|paths| paths.sort());
        let kind = match (options.kind, images.is_empty(), texts.is_empty(), tables.is_empty()) {
            // Tables next to images or texts describe them or belong to something else.
            (Some(ContentKind::Image), false, ..) | (None, false, true, _) => Some(ContentKind::Image),
            (Some(ContentKind::Text), _, false, _) | (None, true, false, _) => Some(ContentKind::Text),
            (_, true, true, false) | (Some(_), _, _, false) => None,
            (None, false, false, _) => {
                return Err(InputError::new("the folder contains texts and images")
                    .found(format!("{} texts and {} images", texts.len(), images.len()))
                    .advice(format!("choose one of them with {} or {}", Key("kind text"), Key("kind image")))
                    .file(folder)
                    .into());
            }
            (wanted, ..) => {
                return Err(InputError::new(match wanted {
                    Some(kind) => format!("the folder contains no {}", kind.plural()),
                    None => "the folder contains neither texts, images nor tables".to_string(),
                })
                .expected("files that end in .txt, .png, .jpg, .webp, .gif, .bmp, .jsonl, .csv, .parquet or .arrow")
                .found(format!("{} other files", others + images.len() + texts.len()))
                .file(folder)
                .into());
            }
        };
        let left_out = others
            + if kind == Some(ContentKind::Image) { 0 } else { images.len() }
            + if kind == Some(ContentKind::Text) { 0 } else { texts.len() }
            + if kind.is_none() { 0 } else { tables.len() };
        let notes =
            if left_out > 0 { vec![format!("{left_out} other files in the folder are left out")] } else { vec![] };
        let files = match kind {
            Some(ContentKind::Image) => {
                FolderFiles::Samples(ContentKind::Image, FileList { paths: images, _memory: memory })
            }
            Some(ContentKind::Text) => {
                FolderFiles::Samples(ContentKind::Text, FileList { paths: texts, _memory: memory })
            }
            None => FolderFiles::Tables(tables),
        };
        Ok(Folder { files, notes })
    }
}

#[derive(Default)]
struct FoundFiles {
    images: Vec<PathBuf>,
    texts: Vec<PathBuf>,
    tables: Vec<PathBuf>,
    /// Other files.
    others: usize,
}

fn walk(folder: &Path, depth: usize, found: &mut FoundFiles, memory: &mut Reservation) -> Result<()> {
    if depth == 0 {
        return Err(InputError::new(format!("the folder is nested more than {DEEPEST} deep"))
            .advice("check whether a link points to a folder above it")
            .file(folder)
            .into());
    }
    for entry in fs::read_dir(folder).map_err(Error::io("list a folder", folder))? {
        let entry = entry.map_err(Error::io("list a folder", folder))?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            walk(&path, depth - 1, found, memory)?;
            continue;
        }
        memory.resize(memory.bytes() + path.as_os_str().len() as u64 + 40, "the names of the files of a folder")?;
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match ending.as_str() {
            "txt" => found.texts.push(path),
            ending if IMAGES.contains(&ending) => found.images.push(path),
            ending if TABLES.contains(&ending) => found.tables.push(path),
            _ => found.others += 1,
        }
    }
    Ok(())
}
