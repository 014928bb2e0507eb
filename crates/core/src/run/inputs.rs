//! All inputs of an evaluation, by role.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::artefact::Artefact;
use super::role::{AnyRole, Axis, Item, Many, Role};
use super::roles::{CODES, FACTORS, GENERATED, LABELS, PAIR_CODES, PAIR_LABELS, PAIRS, POOLING};
use crate::codes::Pool;
use crate::error::{Error, InputError, Key, Result};
use crate::labels::Factors;

/// The rows that a pass visits: an axis and, for [`Axis::SourceRows`], the name of the source.
#[derive(Clone, Copy, Debug)]
pub struct Over<'a>(pub Axis, pub &'a str);

impl Over<'static> {
    /// The rows under test.
    pub const ROWS: Over<'static> = Over(Axis::Rows, "");
    /// The rows that pairs point into.
    pub const PAIR_ROWS: Over<'static> = Over(Axis::PairRows, "");
}

/// All inputs of an evaluation, by role. A metric's card lists the roles that it needs. Cloning is cheap: values are
/// shared.
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
pub struct Inputs(pub(super) Vec<Item>);

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |item: &Item| (item.label(), item.value.sizes());
        f.debug_map().entries(self.0.iter().map(sizes)).finish()
    }
}

impl Inputs {
    /// Sets the value of a role; see [`Inputs::put`].
    #[must_use]
    pub fn with<T: Artefact>(mut self, role: &'static Role<T>, value: impl Into<Arc<T>>) -> Inputs {
        self.put(role, value);
        self
    }

    /// Adds a value to a role; see [`Inputs::add`].
    #[must_use]
    pub fn and<T: Artefact>(mut self, role: &'static Role<T>, name: &str, value: impl Into<Arc<T>>) -> Inputs {
        self.add(role, name, value);
        self
    }

    /// Removes all values of a role.
    #[must_use]
    pub fn without(mut self, role: &'static dyn AnyRole) -> Inputs {
        self.remove(role);
        self
    }

    /// Sets the value of a role and drops those it had.
    pub fn put<T: Artefact>(&mut self, role: &'static Role<T>, value: impl Into<Arc<T>>) {
        self.remove(role);
        self.0.push(Item::new(role, "", value.into()));
    }

    /// Replaces the value of a role and keeps the file that it came from.
    pub(crate) fn replace<T: Artefact>(&mut self, role: &'static Role<T>, value: impl Into<Arc<T>>) {
        let value: Arc<T> = value.into();
        self.0.iter_mut().filter(|item| item.is(role)).for_each(|item| item.value = value.clone());
    }

    /// Adds a value to a role that takes several; `name` is empty unless the role is [`Many::Named`].
    pub fn add<T: Artefact>(&mut self, role: &'static Role<T>, name: &str, value: impl Into<Arc<T>>) {
        self.0.push(Item::new(role, name, value.into()));
    }

    /// Removes all values of a role.
    pub fn remove(&mut self, role: &'static dyn AnyRole) {
        self.0.retain(|item| !item.is(role));
    }

    /// Adds the item that a loader returned.
    pub(crate) fn push(&mut self, item: Item) {
        self.0.push(item);
    }

    /// Whether a role has a value.
    pub fn has(&self, role: &'static dyn AnyRole) -> bool {
        self.0.iter().any(|item| item.is(role))
    }

    /// All values of a role, with their names.
    pub fn all<T: Artefact>(&self, role: &'static Role<T>) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().filter(move |item| item.is(role)).filter_map(|item| {
            let value: &dyn Any = &*item.value;
            Some((item.name.as_str(), value.downcast_ref()?))
        })
    }

    /// The first value of a role.
    pub fn find<T: Artefact>(&self, role: &'static Role<T>) -> Option<&T> {
        self.all(role).next().map(|(_, value)| value)
    }

    /// The first value of a role, as a shared pointer.
    pub fn share<T: Artefact>(&self, role: &'static Role<T>) -> Option<Arc<T>> {
        self.share_all(role).into_iter().next().map(|(_, value)| value)
    }

    /// All values of a role with their names, as shared pointers.
    pub fn share_all<T: Artefact>(&self, role: &'static Role<T>) -> Vec<(String, Arc<T>)> {
        let items = self.0.iter().filter(|item| item.is(role));
        items
            .filter_map(|item| {
                let value: Arc<dyn Any + Send + Sync> = item.value.clone();
                Some((item.name.clone(), value.downcast().ok()?))
            })
            .collect()
    }

    /// The first value of a role, or an input error that names the role.
    pub fn get<T: Artefact>(&self, role: &'static Role<T>) -> Result<&T> {
        self.find(role).ok_or_else(|| {
            let card = role.card();
            InputError::new(format!("{} is required", Key(card.key))).expected(card.help).needs(card.key).into()
        })
    }

    /// The value of a role with a name; the first one if the name is empty.
    pub(super) fn named<T: Artefact>(&self, role: &'static Role<T>, name: &str) -> Result<&T> {
        if name.is_empty() {
            return self.get(role);
        }
        let value = self.all(role).find(|(other, _)| *other == name).map(|(_, value)| value);
        value.ok_or_else(|| Error::Bug(format!("no `{}` is called `{name}`", role.card().name)))
    }

    /// The number of rows that a pass over `over` visits.
    pub fn rows(&self, over: Over<'_>) -> Result<usize> {
        let of_source = self.0.iter().filter(|item| over.1.is_empty() || over.1 == item.name);
        let rows = of_source.filter_map(|item| item.rows(over.0)).next();
        rows.ok_or_else(|| Error::Bug(format!("no input has {over:?}")))
    }

    /// The file that the first value of a role was read from.
    pub fn file(&self, role: &'static dyn AnyRole) -> Option<&Path> {
        self.0.iter().find(|item| item.is(role)).and_then(|item| item.file.as_deref())
    }

    /// Content hashes of the values of `roles`, by name of the role, for the recipe.
    pub fn ids(&self, roles: &[&'static dyn AnyRole]) -> Result<BTreeMap<String, String>> {
        let mut ids = BTreeMap::new();
        for role in roles.iter().flat_map(|role| std::iter::once(role).chain(role.card().with)) {
            let named = role.card().many == Many::Named;
            let id = |item: &Item| {
                let id = item.value.id()?;
                Ok(if named { format!("{} {id}", item.name) } else { id })
            };
            let items = self.0.iter().filter(|item| item.is(*role) && !item.alias);
            let hashes = items.map(id).collect::<Result<Vec<_>>>()?;
            if !hashes.is_empty() {
                ids.insert(role.card().name.to_string(), hashes.join(if named { ", " } else { " " }));
            }
        }
        // The pooling method is part of a recipe together with generators only.
        if !ids.contains_key(GENERATED.card().name) {
            ids.remove(POOLING.card().name);
        }
        Ok(ids)
    }

    /// Adds a note to the first value of a role, for every result that uses it.
    pub(crate) fn note(&mut self, role: &'static dyn AnyRole, note: String) {
        self.0.iter_mut().filter(|item| item.is(role)).take(1).for_each(|item| item.notes.push(note.clone()));
    }

    /// The notes about the values of `roles`.
    pub(crate) fn notes(&self, roles: &[&'static dyn AnyRole]) -> Vec<String> {
        let used = self.0.iter().filter(|item| !item.alias && roles.iter().any(|role| item.is(*role)));
        used.flat_map(|item| item.notes.iter().cloned()).collect()
    }

    /// Fills derived roles: activations of units, similarity of images, labels (factors without labels: one concept per class),
    /// and the rows of pairs: pairs without pair codes point into the rows under test.
    #[must_use]
    pub fn completed(&self) -> Inputs {
        let mut inputs = self.clone();
        inputs.complete_units();
        inputs.complete_tokens();
        if let Some(labels) = self.find(&FACTORS).filter(|_| !self.has(&LABELS)).map(Factors::to_annotations)
            && let Ok(labels) = labels
        {
            inputs.0.push(Item::new(&LABELS, "", Arc::new(labels)).aliased());
        }
        if !self.has(&PAIRS) || self.has(&PAIR_CODES) {
            return inputs;
        }
        if let Some(codes) = self.share(&CODES) {
            inputs.0.push(Item::new(&PAIR_CODES, "", codes).aliased());
        }
        inputs.remove(&PAIR_LABELS);
        if let Some(labels) = self.share(&LABELS) {
            inputs.0.push(Item::new(&PAIR_LABELS, "", labels).aliased());
        }
        inputs
    }

    /// Keeps some rows of all inputs that have rows under test or rows of a source, except those of one role. `kept`
    /// lists the rows to keep of a number of rows.
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

    /// Pools all inputs that have rows under test to one row per sample.
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
