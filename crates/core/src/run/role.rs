//! Roles: what an input is for. Every role is a typed static ([`super::CODES`], [`super::LABELS`]); the command line,
//! study files, checks and documentation are derived from its [`RoleCard`].

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artefact::{AnyArtefact, Artefact};
use crate::context::Context;
use crate::error::{Error, Key, Result};
use crate::input::Finite;
use crate::sae::Dictionary;
use crate::store::ActivationStore;

/// A dimension that inputs share. All inputs with the same axis must have the same size along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Axis {
    /// Rows under test.
    Rows,
    /// Rows that pairs point into.
    PairRows,
    /// Rows of one named source, such as a generator; compared by name.
    SourceRows,
    /// Latents of the dictionary.
    Latents,
    /// Values of an activation.
    Width,
    /// Annotated concepts; their names must agree too.
    Concepts,
    /// Not compared.
    Free,
}

impl Axis {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Rows | Axis::PairRows | Axis::SourceRows => "rows",
            Axis::Latents => "latents",
            Axis::Width => "values per row",
            Axis::Concepts => "concepts",
            Axis::Free => "values",
        }
    }

    /// Advice for a message about two inputs of different size.
    pub(super) fn help(self) -> &'static str {
        match self {
            Axis::Rows | Axis::PairRows => "take both from the same split, in the same order",
            Axis::SourceRows => "generate one row per row under test, in its order",
            Axis::Latents => "encode both with the same dictionary",
            Axis::Width => "use activations of the same site of the same network",
            Axis::Concepts => "use the same concepts in the same order",
            Axis::Free => "",
        }
    }
}

/// How many values a role takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// One.
    One,
    /// Any number.
    Several,
    /// Any number, each written as NAME=PATH.
    Named,
}

/// Description of a role for the command line, study files, recipes and the documentation.
#[non_exhaustive]
pub struct RoleCard {
    /// Key in recipes. Changing it changes the identity of stored results.
    pub name: &'static str,
    /// Key in study files and, behind `--`, option of the command line. A derived role has the key of the role that it
    /// is derived from.
    pub key: &'static str,
    /// Placeholder of the option's value in help texts, such as `FILE`.
    pub value: &'static str,
    /// Help text: one sentence.
    pub help: &'static str,
    /// How many values it takes.
    pub many: Many,
    /// Meaning of each dimension, in the order of [`Artefact::sizes`].
    pub axes: &'static [Axis],
    /// Alternative name of the option.
    pub alias: Option<&'static str>,
    /// Roles that are part of the recipe wherever this one is.
    pub with: &'static [&'static dyn AnyRole],
    /// Roles that it serves: a dictionary makes codes, pairs point into pair codes. Help texts list it with them.
    pub serves: &'static [&'static dyn AnyRole],
}

impl RoleCard {
    /// The option of the command line.
    pub fn option(&self) -> String {
        format!("--{}", self.key)
    }
}

/// What a loader can use besides the text that the user wrote. Roles are loaded in the order of [`super::ROLES`].
#[non_exhaustive]
pub struct Loading<'a> {
    /// Paths are relative to this directory.
    pub base: &'a Path,
    /// How to treat rows of embeddings that are not finite.
    pub finite: Finite,
    /// Names of the annotated concepts, if labels are loaded already. Pairs refer to them.
    pub concepts: Option<&'a [String]>,
    /// The dictionary under test, if it is loaded already. It encodes generated activations.
    pub dictionary: Option<FromFile<'a, dyn Dictionary>>,
    /// The embeddings, if they are loaded already. Dictionaries given as nulls encode them.
    pub embeddings: Option<FromFile<'a, ActivationStore>>,
    /// Threads, memory, progress, cancellation.
    pub context: &'a Context,
    /// Notes of the loader about its input, for every result that uses it.
    pub notes: RefCell<Vec<String>>,
}

/// An input that is loaded already, and the file it was read from, for messages.
pub struct FromFile<'a, T: ?Sized> {
    /// The input.
    pub value: &'a T,
    /// Its file.
    pub file: Option<&'a Path>,
}

/// Reads an input from the text that the user wrote, usually a path.
pub type Load<T> = fn(&str, &Loading<'_>) -> Result<T>;

/// A role whose inputs have type `T`.
pub struct Role<T: 'static> {
    card: RoleCard,
    /// `None` for derived roles.
    load: Option<Load<T>>,
}

impl<T: Artefact> Role<T> {
    /// A role that users fill. `texts` are [`RoleCard::name`], `key`, `value` and `help`.
    pub const fn new(texts: [&'static str; 4], many: Many, axes: &'static [Axis], load: Load<T>) -> Role<T> {
        let [name, key, value, help] = texts;
        Role {
            card: RoleCard { name, key, value, help, many, axes, alias: None, with: &[], serves: &[] },
            load: Some(load),
        }
    }

    /// A role that is computed from other inputs; `key` is the key of the role that it is derived from.
    pub const fn derived(name: &'static str, key: &'static str, help: &'static str, axes: &'static [Axis]) -> Role<T> {
        Role {
            card: RoleCard { name, key, value: "", help, many: Many::One, axes, alias: None, with: &[], serves: &[] },
            load: None,
        }
    }

    /// Adds other roles to every recipe that has this one.
    pub const fn with(mut self, roles: &'static [&'static dyn AnyRole]) -> Role<T> {
        self.card.with = roles;
        self
    }

    /// Declares the roles that it serves; see [`RoleCard::serves`].
    pub const fn serves(mut self, roles: &'static [&'static dyn AnyRole]) -> Role<T> {
        self.card.serves = roles;
        self
    }

    /// Adds an alternative name of the option.
    pub const fn alias(mut self, alias: &'static str) -> Role<T> {
        self.card.alias = Some(alias);
        self
    }

    /// Its description.
    pub const fn card(&self) -> &RoleCard {
        &self.card
    }
}

/// A [`Role`] of any type.
pub trait AnyRole: Sync {
    /// Its description.
    fn card(&'static self) -> &'static RoleCard;
    /// Whether users can fill it; false for derived roles.
    fn is_given(&self) -> bool;
    /// Reads one value; `name` is the source's name, for [`Many::Named`] roles.
    fn load(&'static self, name: &str, text: &str, loading: &Loading<'_>) -> Result<Item>;
}

impl<T: Artefact> AnyRole for Role<T> {
    fn card(&'static self) -> &'static RoleCard {
        &self.card
    }

    fn is_given(&self) -> bool {
        self.load.is_some()
    }

    fn load(&'static self, name: &str, text: &str, loading: &Loading<'_>) -> Result<Item> {
        let load = self.load.ok_or_else(|| Error::Bug(format!("`{}` has no loader", self.card.name)))?;
        let item = Item::new(self, name, Arc::new(load(text, loading)?));
        Ok(Item { file: Some(loading.base.join(text)), notes: loading.notes.take(), ..item })
    }
}

/// One input: a role with a value. Only `Item::new` makes one, so the value has the type of the role.
#[derive(Clone)]
pub struct Item {
    role: &'static dyn AnyRole,
    /// Name of the source, for [`Many::Named`] roles.
    pub(super) name: String,
    pub(super) file: Option<PathBuf>,
    /// It repeats another input, so recipes do not name it.
    pub(super) alias: bool,
    pub(super) value: Arc<dyn AnyArtefact>,
    /// What a user of its results must know about it.
    pub(super) notes: Vec<String>,
}

impl Item {
    pub(super) fn new<T: Artefact>(role: &'static Role<T>, name: &str, value: Arc<T>) -> Item {
        Item { role, name: name.into(), file: None, alias: false, value, notes: Vec::new() }
    }

    /// Marks the item as a repetition of another input.
    pub(super) fn aliased(self) -> Item {
        Item { alias: true, ..self }
    }

    pub(super) fn card(&self) -> &'static RoleCard {
        self.role.card()
    }

    pub(super) fn is(&self, role: &'static dyn AnyRole) -> bool {
        self.card().name == role.card().name
    }

    /// Its name in messages.
    pub(super) fn label(&self) -> String {
        let key = Key(self.card().key);
        if self.name.is_empty() { key.to_string() } else { format!("{key} {}", self.name) }
    }

    /// The file it comes from, as the end of a sentence.
    pub(super) fn source(&self) -> String {
        self.file.as_ref().map(|file| format!(" in {}", file.display())).unwrap_or_default()
    }

    /// Its size along `axis`, if that is its first axis.
    pub(super) fn rows(&self, axis: Axis) -> Option<usize> {
        if self.card().axes.first() == Some(&axis) { self.value.sizes().first().copied() } else { None }
    }
}
