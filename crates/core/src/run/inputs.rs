//! Everything that is evaluated together, by role.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artefact::{AnyArtefact, Artefact};
use super::role::{AnyRole, Axis, Many, Role};
use super::roles::{CODES, GENERATED, LABELS, PAIR_CODES, PAIR_LABELS, PAIRS};
use crate::codes::Pool;
use crate::error::{Error, InFile, InputError, Result};

/// One input.
#[derive(Clone)]
pub struct Item {
    role: &'static dyn AnyRole,
    /// The name of the source, for roles with names.
    name: String,
    file: Option<PathBuf>,
    /// It repeats another input, so recipes need not name it.
    alias: bool,
    /// Only [`Item::new`] fills it, with the type of the role, so that [`Inputs::all`] always finds that type.
    value: Arc<dyn AnyArtefact>,
}

impl Item {
    pub(super) fn new<T: Artefact>(role: &'static Role<T>, name: &str, value: Arc<T>) -> Item {
        Item { role, name: name.into(), file: None, alias: false, value }
    }

    pub(super) fn in_file(self, file: &Path) -> Item {
        Item { file: Some(file.to_path_buf()), ..self }
    }

    fn is(&self, role: &'static dyn AnyRole) -> bool {
        self.role.card().name == role.card().name
    }

    /// What messages call it.
    fn label(&self) -> String {
        let key = self.role.card().key;
        if self.name.is_empty() { format!("`{key}`") } else { format!("`{key}` {}", self.name) }
    }

    fn source(&self) -> String {
        self.file.as_ref().map(|file| format!(" in {}", file.display())).unwrap_or_default()
    }

    /// The size of its first axis, if that is some kind of rows.
    fn rows(&self, axis: Axis) -> Option<usize> {
        (self.role.card().axes.first() == Some(&axis)).then(|| self.value.sizes().first().copied())?
    }
}

/// Rows that a pass visits: an axis, and the source's name where every source has its own rows.
#[derive(Clone, Copy, Debug)]
pub struct Over<'a>(pub Axis, pub &'a str);

impl Over<'static> {
    /// The rows under test.
    pub const ROWS: Over<'static> = Over(Axis::Rows, "");
    /// The rows of the pairs.
    pub const PAIR_ROWS: Over<'static> = Over(Axis::PairRows, "");
}

/// Everything that is evaluated together. A metric's card says what it needs of it. Cloning is cheap.
///
/// ```
/// use etalon::codes::Codes;
/// use etalon::run::{CODES, Inputs};
///
/// let codes = Codes::from_dense(&[0.0, 2.0, 1.0, 0.0], 2)?;
/// let inputs = Inputs::default().with(&CODES, codes);
/// assert_eq!(inputs.find(&CODES).map(|codes| codes.rows()), Some(2));
/// # Ok::<(), etalon::error::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Inputs(Vec<Item>);

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |item: &Item| (item.label(), item.value.sizes());
        f.debug_map().entries(self.0.iter().map(sizes)).finish()
    }
}

impl Inputs {
    /// The same inputs and one more; it replaces what the role had.
    #[must_use]
    pub fn with<T: Artefact>(mut self, role: &'static Role<T>, value: impl Into<Arc<T>>) -> Inputs {
        self.put(role, value);
        self
    }

    /// The same inputs and one more of a role that can have several.
    #[must_use]
    pub fn and<T: Artefact>(mut self, role: &'static Role<T>, name: &str, value: impl Into<Arc<T>>) -> Inputs {
        self.add(role, name, value);
        self
    }

    /// The same inputs without those of a role.
    #[must_use]
    pub fn without(mut self, role: &'static dyn AnyRole) -> Inputs {
        self.remove(role);
        self
    }

    /// Replaces what a role has.
    pub fn put<T: Artefact>(&mut self, role: &'static Role<T>, value: impl Into<Arc<T>>) {
        self.remove(role);
        self.0.push(Item::new(role, "", value.into()));
    }

    /// Adds to a role that can have several; `name` only for roles with names.
    pub fn add<T: Artefact>(&mut self, role: &'static Role<T>, name: &str, value: impl Into<Arc<T>>) {
        self.0.push(Item::new(role, name, value.into()));
    }

    /// Removes everything of a role.
    pub fn remove(&mut self, role: &'static dyn AnyRole) {
        self.0.retain(|item| !item.is(role));
    }

    /// Adds what a loader gave.
    pub(crate) fn push(&mut self, item: Item) {
        self.0.push(item);
    }

    /// Whether a role has something.
    pub fn has(&self, role: &'static dyn AnyRole) -> bool {
        self.0.iter().any(|item| item.is(role))
    }

    /// Everything of a role with its names.
    pub fn all<T: Artefact>(&self, role: &'static Role<T>) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().filter(move |item| item.is(role)).filter_map(|item| {
            let value: &dyn Any = &*item.value;
            Some((item.name.as_str(), value.downcast_ref()?))
        })
    }

    /// The first of a role.
    pub fn find<T: Artefact>(&self, role: &'static Role<T>) -> Option<&T> {
        self.all(role).next().map(|(_, value)| value)
    }

    /// The first of a role, shared.
    pub fn share<T: Artefact>(&self, role: &'static Role<T>) -> Option<Arc<T>> {
        self.share_all(role).into_iter().next().map(|(_, value)| value)
    }

    /// Everything of a role with its names, shared.
    pub fn share_all<T: Artefact>(&self, role: &'static Role<T>) -> Vec<(String, Arc<T>)> {
        let items = self.0.iter().filter(|item| item.is(role));
        items
            .filter_map(|item| {
                let value: Arc<dyn Any + Send + Sync> = item.value.clone();
                Some((item.name.clone(), value.downcast().ok()?))
            })
            .collect()
    }

    /// The first of a role, or an error that names it.
    pub fn get<T: Artefact>(&self, role: &'static Role<T>) -> Result<&T> {
        self.find(role).ok_or_else(|| {
            let card = AnyRole::card(role);
            InputError::new(format!("`{}` is required", card.key)).expected(card.help).needs(card.key).into()
        })
    }

    /// The one of a role with a certain name.
    pub(super) fn named<T: Artefact>(&self, role: &'static Role<T>, name: &str) -> Result<&T> {
        if name.is_empty() {
            return self.get(role);
        }
        let found = self.all(role).find(|(other, _)| *other == name).map(|(_, value)| value);
        found.ok_or_else(|| Error::Bug(format!("no `{}` is called `{name}`", role.card().name)))
    }

    /// Number of rows that a pass visits.
    pub fn rows(&self, over: Over<'_>) -> Result<usize> {
        let mine = self.0.iter().filter(|item| over.1.is_empty() || over.1 == item.name);
        let rows = mine.filter_map(|item| item.rows(over.0)).next();
        rows.ok_or_else(|| Error::Bug(format!("no input has {over:?}")))
    }

    /// The file that an input of a role was read from.
    pub fn file(&self, role: &'static dyn AnyRole) -> Option<&Path> {
        self.0.iter().find(|item| item.is(role)).and_then(|item| item.file.as_deref())
    }

    /// Content addresses of the inputs in some roles, for the recipe.
    pub fn ids(&self, roles: &[&'static dyn AnyRole]) -> Result<BTreeMap<String, String>> {
        let mut ids = BTreeMap::new();
        for role in roles.iter().flat_map(|role| std::iter::once(role).chain(role.card().with)) {
            let named = role.card().many == Many::Named;
            let id = |item: &Item| {
                let id = item.value.id()?;
                Ok(if named { format!("{} {id}", item.name) } else { id })
            };
            let items = self.0.iter().filter(|item| item.is(*role) && !item.alias);
            let found = items.map(id).collect::<Result<Vec<_>>>()?;
            if !found.is_empty() {
                ids.insert(role.card().name.to_string(), found.join(if named { ", " } else { " " }));
            }
        }
        // How tokens became rows matters to generators only.
        if !ids.contains_key(GENERATED.card().name) {
            ids.remove("pooling");
        }
        Ok(ids)
    }

    /// Makes sure that everything fits together.
    pub fn check(&self) -> Result<()> {
        self.check_axes()?;
        self.check_sources()?;
        self.check_pairs()
    }

    /// Two inputs that share an axis must agree about its size, and about the names of concepts.
    pub fn check_axes(&self) -> Result<()> {
        let mut seen: BTreeMap<(Axis, &str), (&Item, usize)> = BTreeMap::new();
        for item in &self.0 {
            let sizes = item.value.sizes();
            for (&axis, size) in item.role.card().axes.iter().zip(sizes).filter(|(axis, _)| **axis != Axis::Free) {
                let source = if axis == Axis::SourceRows { item.name.as_str() } else { "" };
                let (other, expected) = *seen.entry((axis, source)).or_insert((item, size));
                if size != expected {
                    return Err(disagree(axis, (other, expected), (item, size)).into());
                }
                let names = (item.value.concept_names(), other.value.concept_names());
                if let (Some(mine), Some(theirs)) = names
                    && axis == Axis::Concepts
                    && let Some(at) = mine.iter().zip(theirs).position(|(mine, theirs)| mine != theirs)
                {
                    return Err(InputError::new(format!(
                        "{} and {} name different concepts",
                        other.label(),
                        item.label()
                    ))
                    .expected(format!("`{}` as concept {at}{}", theirs[at], other.source()))
                    .found(format!("`{}`{}", mine[at], item.source()))
                    .advice(axis.help())
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Every source has a name of its own, and a row for every row under test.
    fn check_sources(&self) -> Result<()> {
        let real = self.find(&CODES).map(|codes| codes.rows());
        let mut names: Vec<&str> = Vec::new();
        for (name, generated) in self.all(&GENERATED) {
            if name.trim().is_empty() {
                return Err(InputError::new("a generator has no name").expected("NAME=PATH").into());
            }
            if names.contains(&name) {
                return Err(InputError::new(format!("two generators are called `{name}`"))
                    .expected("a name of its own for every generator")
                    .into());
            }
            names.push(name);
            let embeddings = generated.embeddings.as_ref().map(|store| store.rows());
            let rows = generated.codes.rows();
            for (expected, found, advice) in [
                (real, Some(rows), "generate one row per real row, in its order"),
                (Some(rows), embeddings, "take both from the same run"),
            ] {
                if let (Some(expected), Some(found)) = (expected, found)
                    && expected != found
                {
                    return Err(InputError::new(format!("the generator `{name}` has other rows"))
                        .expected(format!("{expected} rows"))
                        .found(format!("{found} rows"))
                        .advice(advice)
                        .into());
                }
            }
        }
        Ok(())
    }

    /// Pairs point at rows and concepts that exist.
    pub fn check_pairs(&self) -> Result<()> {
        let Some(pairs) = self.find(&PAIRS) else { return Ok(()) };
        let codes = self.find(&PAIR_CODES).or(self.find(&CODES));
        let labels = self.find(&LABELS).or(self.find(&PAIR_LABELS));
        let checked = pairs.check(
            codes.map_or(usize::MAX, |codes| codes.rows()),
            labels.map_or(usize::MAX, |labels| labels.concepts()),
        );
        match self.file(&PAIRS) {
            Some(file) => checked.in_file(file),
            None => checked,
        }
    }

    /// The same inputs, completed: pairs without rows of their own are pairs of the rows under test.
    #[must_use]
    pub fn completed(&self) -> Inputs {
        let mut inputs = self.clone();
        if !self.has(&PAIRS) || self.has(&PAIR_CODES) {
            return inputs;
        }
        let alias = |item: Item| Item { alias: true, ..item };
        if let Some(codes) = self.share(&CODES) {
            inputs.0.push(alias(Item::new(&PAIR_CODES, "", codes)));
        }
        inputs.remove(&PAIR_LABELS);
        if let Some(labels) = self.share(&LABELS) {
            inputs.0.push(alias(Item::new(&PAIR_LABELS, "", labels)));
        }
        inputs
    }

    /// Keeps some rows of everything that has rows under test, except of one role that lost the others already.
    pub(crate) fn keep_rows(&mut self, kept: impl Fn(usize) -> Vec<usize>, except: &'static dyn AnyRole) -> Result<()> {
        for item in &mut self.0 {
            if item.is(except) {
                continue;
            }
            let rows = item.rows(Axis::Rows).or(item.rows(Axis::SourceRows));
            if let Some(rows) = rows
                && let Some(value) = item.value.keep_rows(&kept(rows))?
            {
                item.value = value;
            }
        }
        Ok(())
    }

    /// Makes one row per sample of everything that has rows under test.
    pub(crate) fn pool(&mut self, samples: &[u32], count: usize, pool: Pool) -> Result<()> {
        for item in &mut self.0 {
            if item.rows(Axis::Rows).is_some()
                && let Some(value) = item.value.pooled(samples, count, pool)?
            {
                item.value = value;
            }
        }
        Ok(())
    }
}

fn disagree(axis: Axis, (one, expected): (&Item, usize), (other, found): (&Item, usize)) -> InputError {
    let unit = axis.name();
    InputError::new(format!("{} and {} differ in {unit}", one.label(), other.label()))
        .expected(format!("{expected} {unit}{}", one.source()))
        .found(format!("{found} {unit}{}", other.source()))
        .advice(axis.help())
}
