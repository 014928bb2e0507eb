//! Chooses samples of a published data set: equally many of every class and group, from official parts if there are some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::{Error, InFile, InputError, Key, Result};
use etalon::input::{Cell, Record, RecordReader, open_records};
use etalon_kernel::random::{permutation, stream};

use super::layouts::{ClassSource, DataLayout, PER_CLASS};
use super::options::InputOptions;

/// A record of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordAt {
    pub file: u32,
    pub record: u64,
}

/// A chosen record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenRecord {
    pub at: RecordAt,
    /// Values of class and group.
    pub class: String,
    pub group: Option<String>,
}

/// Chosen records, in the order of the files.
pub(super) struct Draw {
    pub chosen: Vec<ChosenRecord>,
    pub notes: Vec<String>,
    pub _memory: Reservation,
}

/// The columns of a table.
pub(super) struct TableColumns {
    pub text: usize,
    class: Option<usize>,
    group: Option<usize>,
    /// The class of all records, if it is in the name of the folder.
    folder: Option<String>,
}

/// Training or test records. Data sets without official parts have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DataPart {
    Train,
    Test,
    Only,
}

impl DataPart {
    /// The part of a file by the names of its folder and itself; `None` for validation records.
    fn of(file: &Path, root: &Path) -> Option<DataPart> {
        let below = file.strip_prefix(root).unwrap_or(file);
        let names = below.iter().map(|name| name.to_string_lossy().to_ascii_lowercase());
        names
            .rev()
            .find_map(|name| match () {
                () if name.starts_with("train") => Some(Some(DataPart::Train)),
                () if name.starts_with("test") => Some(Some(DataPart::Test)),
                () if name.starts_with("dev") || name.starts_with("val") => Some(None),
                () => None,
            })
            .unwrap_or(Some(DataPart::Only))
    }
}

/// Records of a class, a group and a part.
type Pools = BTreeMap<(String, String, DataPart), Vec<RecordAt>>;

/// Bytes of a record in a pool, with its place in the lists that are made of it.
const POOLED: u64 = 64;

impl TableColumns {
    /// Finds the columns of a table.
    pub fn find(
        reader: &dyn RecordReader,
        file: &Path,
        layout: &DataLayout,
        options: &InputOptions,
    ) -> Result<TableColumns> {
        let names: Vec<&str> = reader.columns().iter().map(|column| column.name.as_str()).collect();
        let find = |name: &str| names.iter().position(|other| *other == name);
        let missing = |name: &str| {
            InputError::new(format!("the table is not one of `{}`: it has no column `{name}`", layout.name))
                .one_of(name, &names)
                .file(file)
        };
        let folder = file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let language = folder.as_deref().and_then(|name| name.split('-').next()).unwrap_or_default().to_string();
        let texts: Vec<String> = match (&options.text_column, &layout.class) {
            (Some(name), _) => vec![name.clone()],
            (None, ClassSource::Folder) => layout.text.iter().map(|name| format!("{name}{language}")).collect(),
            (None, ClassSource::Column(_)) => layout.text.iter().map(|name| name.to_string()).collect(),
        };
        let text = texts.iter().find_map(|name| find(name));
        let column = |name: &str| find(name).ok_or_else(|| Error::from(missing(name)));
        Ok(TableColumns {
            text: text.ok_or_else(|| missing(texts.first().map_or("text", String::as_str)))?,
            class: match layout.class {
                ClassSource::Column(name) => Some(column(name)?),
                ClassSource::Folder => None,
            },
            group: layout.group.map(column).transpose()?,
            folder: (layout.class == ClassSource::Folder).then_some(language),
        })
    }
}

/// Draws the samples of a data set.
pub(super) fn draw(
    layout: &DataLayout,
    root: &Path,
    files: &[PathBuf],
    options: &InputOptions,
    budget: &Budget,
) -> Result<Draw> {
    let per_class = options.per_class.unwrap_or(PER_CLASS);
    let wanted: Vec<String> = match &options.classes[..] {
        [] => layout.classes.iter().map(|class| layout.class_name(class)).collect(),
        given => given.iter().map(|class| layout.class_name(class.trim())).collect(),
    };
    let mut memory = budget.reserve(0, "the records of a data set")?;
    let pools = pools(layout, root, (files, options), &wanted, per_class, &mut memory, budget)?;
    let (mut chosen, mut notes) = (Vec::new(), Vec::new());
    let groups: Vec<String> = unique(pools.keys().map(|(_, group, _)| group.clone()));
    let classes: Vec<String> = unique(pools.keys().map(|(class, ..)| class.clone()));
    if let Some(unknown) = wanted.iter().find(|class| !classes.contains(class)) {
        let known: Vec<&str> = classes.iter().map(String::as_str).collect();
        let error = InputError::new(format!("the data set has no class `{unknown}`")).file(root);
        return Err(error
            .advice(format!("{} takes names or numbers of classes", Key("classes")))
            .one_of(unknown, &known)
            .into());
    }
    let mut dropped = Vec::new();
    for class in classes.iter().filter(|class| wanted.is_empty() || wanted.contains(class)) {
        match of_class(layout, &pools, class, &groups, per_class, options.seed) {
            Some(records) => chosen.extend(records),
            None => dropped.push(class.as_str()),
        }
    }
    if chosen.is_empty() {
        return Err(InputError::new(format!("no class of `{}` has enough texts", layout.name))
            .expected(format!("{per_class} texts per class, equally many of every group"))
            .found(counts(&pools))
            .advice(format!("lower {}", Key("per-class")))
            .file(root)
            .into());
    }
    if !dropped.is_empty() {
        notes.push(format!("classes with too few texts are left out: {}", dropped.join(", ")));
    }
    notes.push(format!("{} texts of `{}`, {per_class} of each class", chosen.len(), layout.name));
    chosen.sort_by_key(|record| record.at);
    Ok(Draw { chosen, notes, _memory: memory })
}

/// Sizes of pools, for messages.
fn counts(pools: &Pools) -> String {
    let sizes = pools.iter().map(|((class, group, _), records)| format!("{class} {group}: {}", records.len()));
    let sizes: Vec<String> = sizes.take(8).map(|size| size.replace(" :", ":")).collect();
    if sizes.is_empty() { "no texts".into() } else { sizes.join(", ") }
}

fn unique(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut values: Vec<String> = values.collect();
    values.sort();
    values.dedup();
    values
}

/// The records of a class; `None` if there are too few.
fn of_class(
    layout: &DataLayout,
    pools: &Pools,
    class: &str,
    groups: &[String],
    per_class: u64,
    seed: u64,
) -> Option<Vec<ChosenRecord>> {
    let parts = unique_parts(pools);
    // Four in five texts come from the training part, as many of every group.
    let each = (per_class / groups.len().max(1) as u64) as usize;
    let tested = each / 5;
    let mut chosen = Vec::new();
    for group in groups {
        for &part in &parts {
            let count = match part {
                _ if parts.len() == 1 => each,
                DataPart::Train | DataPart::Only => each - tested,
                DataPart::Test => tested,
            };
            let pool = pools.get(&(class.to_string(), group.clone(), part)).map_or(&[][..], Vec::as_slice);
            let pool = if layout.is_first { pool.get(..count + 1).unwrap_or(pool) } else { pool };
            if pool.len() < count {
                return None;
            }
            let purpose = format!("data set/{}/{class}/{group}/{part:?}", layout.name);
            let order = permutation(pool.len(), &mut stream(seed, &purpose, 0));
            chosen.extend(order.into_iter().take(count).map(|index| ChosenRecord {
                at: pool[index],
                class: class.to_string(),
                group: Some(group.clone()).filter(|group| !group.is_empty()),
            }));
        }
    }
    Some(chosen)
}

fn unique_parts(pools: &Pools) -> Vec<DataPart> {
    let mut parts: Vec<DataPart> = pools.keys().map(|(.., part)| *part).collect();
    parts.sort();
    parts.dedup();
    parts
}

/// Reads classes and groups of all records.
fn pools(
    layout: &DataLayout,
    root: &Path,
    (files, options): (&[PathBuf], &InputOptions),
    wanted: &[String],
    per_class: u64,
    memory: &mut Reservation,
    budget: &Budget,
) -> Result<Pools> {
    let mut pools = Pools::new();
    let is_wanted = |class: &String| wanted.is_empty() || wanted.contains(class);
    // One more than is drawn.
    let is_full = |pools: &Pools, class: &String| {
        let pool = pools.get(&(class.clone(), String::new(), DataPart::Only));
        layout.is_first && pool.is_some_and(|pool| pool.len() as u64 > per_class)
    };
    let is_part = |file: &PathBuf| matches!(DataPart::of(file, root), Some(DataPart::Train | DataPart::Test));
    let has_parts = !layout.is_first && files.iter().any(is_part);
    for (number, file) in files.iter().enumerate() {
        let part = if layout.is_first { Some(DataPart::Only) } else { DataPart::of(file, root) };
        // Beside official parts, other files do not count.
        let Some(part) = part.filter(|part| !has_parts || *part != DataPart::Only) else { continue };
        let mut reader = open_records(file, budget)?;
        let columns = TableColumns::find(&*reader, file, layout, options)?;
        if columns.folder.as_ref().is_some_and(|class| !is_wanted(class) || is_full(&pools, class)) {
            continue;
        }
        let text = (layout.shortest > 0).then_some(columns.text);
        let selected: Vec<usize> = [columns.class, columns.group, text].into_iter().flatten().collect();
        reader.select(if selected.is_empty() { std::slice::from_ref(&columns.text) } else { &selected });
        let mut record = 0;
        while let Some(found) = reader.read().in_file(file)? {
            let at = RecordAt { file: number as u32, record };
            record += 1;
            let Record::Cells(cells) = found else { continue };
            let mut cells = cells.into_iter();
            let mut next = |column: Option<usize>| column.and_then(|_| cells.next());
            let (class, group) = (value(next(columns.class)), value(next(columns.group)));
            let is_short = match next(text) {
                Some(Cell::Text(text)) => text.chars().count() < layout.shortest,
                _ => layout.shortest > 0,
            };
            let Some(class) = columns.folder.clone().or(class.map(|class| layout.class_name(&class))) else { continue };
            if is_short || columns.group.is_some() && group.is_none() {
                continue;
            }
            if is_full(&pools, &class) {
                if columns.folder.is_some() || !wanted.is_empty() && wanted.iter().all(|class| is_full(&pools, class)) {
                    break;
                }
                continue;
            }
            let group = group.map(|group| layout.group_name(&group)).unwrap_or_default();
            memory.resize(memory.bytes() + POOLED, "the records of a data set")?;
            pools.entry((class, group, part)).or_default().push(at);
        }
    }
    Ok(pools)
}

/// The value of a class or group; a whole number has no decimals.
fn value(cell: Option<Cell>) -> Option<String> {
    let Some(Cell::Text(text)) = cell else { return None };
    let text = text.trim();
    let number = text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
    let text = number.map_or_else(|| text.to_string(), |number| format!("{number:.0}"));
    Some(text).filter(|text| !text.is_empty())
}
