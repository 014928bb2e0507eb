//! The arguments of a metric: inputs, parameters, profile and seed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::artefact::Artefact;
use super::inputs::Inputs;
use super::role::{AnyRole, Role};
use crate::context::{Budget, Context};
use crate::error::{Error, Result};
use crate::results::Profile;

/// One evaluation. A metric reads its inputs and parameters from it, and runs long work through [`super::Work`].
pub struct Job<'a> {
    /// The inputs.
    pub inputs: &'a Inputs,
    /// The metric's parameters: checked, defaults filled in.
    pub params: &'a BTreeMap<String, Value>,
    /// The published definition, or the numbers of the released program.
    pub profile: Profile,
    /// The seed of all random streams.
    pub seed: u64,
    /// Threads, memory, progress, cancellation.
    pub context: &'a Context,
}

impl<'a> Job<'a> {
    /// The first value of a role, or an input error that names the role.
    pub fn get<T: Artefact>(&self, role: &'static Role<T>) -> Result<&'a T> {
        self.inputs.get(role)
    }

    /// The first value of a role, if it has one.
    pub fn find<T: Artefact>(&self, role: &'static Role<T>) -> Option<&'a T> {
        self.inputs.find(role)
    }

    /// All values of a role, with their names.
    pub fn all<T: Artefact>(&self, role: &'static Role<T>) -> Vec<(&'a str, &'a T)> {
        self.inputs.all(role).collect()
    }

    /// Whether a role has a value.
    pub fn has(&self, role: &'static dyn AnyRole) -> bool {
        self.inputs.has(role)
    }

    /// The memory limit.
    pub fn budget(&self) -> &'a Budget {
        self.context.budget()
    }

    /// Returns [`Error::Cancelled`] if the user cancelled. Call it in long loops outside of stages.
    pub fn check(&self) -> Result<()> {
        self.context.check()
    }

    fn param(&self, name: &str) -> Result<&'a Value> {
        self.params.get(name).ok_or_else(|| Error::Bug(format!("the card declares no parameter `{name}`")))
    }

    /// A parameter as an integer.
    pub fn whole(&self, name: &str) -> Result<usize> {
        let value = self.param(name)?.as_u64();
        value.map(|value| value as usize).ok_or_else(|| Error::Bug(format!("parameter `{name}` is not an integer")))
    }

    /// A parameter as a floating-point number.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.param(name)?.as_f64().ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a number")))
    }

    /// A parameter as a string.
    pub fn word(&self, name: &str) -> Result<&'a str> {
        self.param(name)?.as_str().ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a string")))
    }

    /// A list parameter; a single value is a list of one.
    pub fn several(&self, name: &str) -> Result<Vec<Value>> {
        let value = self.param(name)?;
        Ok(value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]))
    }
}
