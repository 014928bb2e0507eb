//! What a metric is given.

use std::collections::BTreeMap;

use serde_json::Value;

use super::artefact::Artefact;
use super::inputs::Inputs;
use super::role::{AnyRole, Role};
use crate::context::{Budget, Context};
use crate::error::{Error, Result};
use crate::results::Profile;

/// One evaluation: inputs, parameters, and the means to do it.
pub struct Job<'a> {
    /// What is evaluated.
    pub inputs: &'a Inputs,
    /// The metric's parameters, checked and complete.
    pub params: &'a BTreeMap<String, Value>,
    /// Paper or reference.
    pub profile: Profile,
    /// The seed of everything random.
    pub seed: u64,
    /// Threads, memory, progress, cancellation.
    pub context: &'a Context,
}

impl<'a> Job<'a> {
    /// The input of a role, or an error that names it.
    pub fn get<T: Artefact>(&self, role: &'static Role<T>) -> Result<&'a T> {
        self.inputs.get(role)
    }

    /// The input of a role, if it is given.
    pub fn find<T: Artefact>(&self, role: &'static Role<T>) -> Option<&'a T> {
        self.inputs.find(role)
    }

    /// All inputs of a role, with their names.
    pub fn all<T: Artefact>(&self, role: &'static Role<T>) -> Vec<(&'a str, &'a T)> {
        self.inputs.all(role).collect()
    }

    /// Whether a role is given.
    pub fn has(&self, role: &'static dyn AnyRole) -> bool {
        self.inputs.has(role)
    }

    /// The memory limit.
    pub fn budget(&self) -> &'a Budget {
        self.context.budget()
    }

    /// An error if the user asked to stop.
    pub fn check(&self) -> Result<()> {
        self.context.check()
    }

    fn param(&self, name: &str) -> Result<&'a Value> {
        self.params.get(name).ok_or_else(|| Error::Bug(format!("the card declares no parameter `{name}`")))
    }

    /// A whole number of the parameters.
    pub fn whole(&self, name: &str) -> Result<usize> {
        let value = self.param(name)?.as_u64();
        value.map(|value| value as usize).ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a whole number")))
    }

    /// A number of the parameters.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.param(name)?.as_f64().ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a number")))
    }

    /// A word of the parameters.
    pub fn word(&self, name: &str) -> Result<&'a str> {
        self.param(name)?.as_str().ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a word")))
    }

    /// A parameter that may be given several times, as a list in any case.
    pub fn several(&self, name: &str) -> Result<Vec<Value>> {
        let value = self.param(name)?;
        Ok(value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]))
    }
}
