//! What an input is: a typed static per role, from which command line, study files, checks and documentation are made.

use std::path::Path;

use super::artefact::Artefact;
use super::inputs::Inputs;
use crate::context::Context;
use crate::error::Result;
use crate::input::Finite;

/// Something that several inputs have in common and must agree about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Rows under test.
    Rows,
    /// Rows that pairs point into.
    PairRows,
    /// Rows of one named source; every source has its own number of them.
    SourceRows,
    /// Latents of the dictionary.
    Latents,
    /// Values of an activation.
    Width,
    /// Annotated concepts; also their names must agree.
    Concepts,
    /// Compared with nothing.
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

    /// What to do when two inputs disagree about it.
    pub(super) fn help(self) -> &'static str {
        match self {
            Axis::Rows | Axis::PairRows => "take both from the same split, in the same order",
            Axis::SourceRows => "take both from the same run of the generator",
            Axis::Latents => "encode both with the same dictionary",
            Axis::Width => "use activations of the same site of the same network",
            Axis::Concepts => "use the same concepts in the same order",
            Axis::Free => "",
        }
    }
}

/// How often an input can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// Once.
    One,
    /// Several times.
    Several,
    /// Several times, as NAME=PATH.
    Named,
}

/// What the command line, study files, recipes and the documentation say about an input.
pub struct RoleCard {
    /// Key in recipes.
    pub name: &'static str,
    /// Key in study files and, behind `--`, option of the command line. Inputs that are only made from others have the key
    /// of what they are made from.
    pub key: &'static str,
    /// What the value of the option is called.
    pub value: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// How often it can be given.
    pub many: Many,
    /// Meaning of each dimension, in the order of [`Artefact::sizes`].
    pub axes: &'static [Axis],
    /// Another name of the option.
    pub alias: Option<&'static str>,
    /// Inputs that are part of the recipe wherever this one is.
    pub with: &'static [&'static dyn AnyRole],
}

impl RoleCard {
    /// The option of the command line.
    pub fn option(&self) -> String {
        format!("--{}", self.key)
    }
}

/// What a loader may look at.
pub struct Loading<'a> {
    /// Paths are relative to this directory.
    pub base: &'a Path,
    /// What to do with rows of embeddings that are not finite.
    pub finite: Finite,
    /// What was loaded before, in the order of [`super::ROLES`].
    pub inputs: &'a Inputs,
    /// Threads, memory, progress, cancellation.
    pub context: &'a Context,
}

/// Reads an input from what a user wrote, usually a path.
pub type Load<T> = fn(&str, &Loading<'_>) -> Result<T>;

/// An input of type `T`.
pub struct Role<T: 'static> {
    card: RoleCard,
    load: Option<Load<T>>,
}

impl<T: Artefact> Role<T> {
    /// An input that users give; the texts are name in recipes, key, value and help.
    pub const fn new(texts: [&'static str; 4], many: Many, axes: &'static [Axis], load: Load<T>) -> Role<T> {
        let [name, key, value, help] = texts;
        Role { card: RoleCard { name, key, value, help, many, axes, alias: None, with: &[] }, load: Some(load) }
    }

    /// An input that is made from others only; `key` is what it is made from.
    pub const fn derived(name: &'static str, key: &'static str, help: &'static str, axes: &'static [Axis]) -> Role<T> {
        Role {
            card: RoleCard { name, key, value: "", help, many: Many::One, axes, alias: None, with: &[] },
            load: None,
        }
    }

    /// Makes other inputs part of every recipe that this one is part of.
    pub const fn with(mut self, roles: &'static [&'static dyn AnyRole]) -> Role<T> {
        self.card.with = roles;
        self
    }

    /// Gives the option another name.
    pub const fn alias(mut self, alias: &'static str) -> Role<T> {
        self.card.alias = Some(alias);
        self
    }

    /// What it is.
    pub const fn card(&self) -> &RoleCard {
        &self.card
    }
}

/// A role of any type, for lists.
pub trait AnyRole: Sync {
    /// What it is.
    fn card(&'static self) -> &'static RoleCard;
    /// Whether users can give it.
    fn is_given(&self) -> bool;
    /// Reads one value.
    fn load(&'static self, name: &str, text: &str, loading: &Loading<'_>) -> Result<super::inputs::Item>;
}

impl<T: Artefact> AnyRole for Role<T> {
    fn card(&'static self) -> &'static RoleCard {
        &self.card
    }

    fn is_given(&self) -> bool {
        self.load.is_some()
    }

    fn load(&'static self, name: &str, text: &str, loading: &Loading<'_>) -> Result<super::inputs::Item> {
        let load = self.load.ok_or_else(|| crate::error::Error::Bug(format!("`{}` has no loader", self.card.name)))?;
        let value = load(text, loading)?;
        Ok(super::inputs::Item::new(self, name, std::sync::Arc::new(value)).in_file(&loading.base.join(text)))
    }
}
