//! States without their type: the engine that runs, merges and stores them is compiled once, not once per stage of
//! every metric.

use std::any::Any;
use std::io::Write;

use super::layout;
use super::state::State;
use crate::error::{Error, Result};

/// A state whose type only its stage knows.
pub struct AnyState(Box<dyn Erased>);

/// What the engine needs to know of the type of a stage's states.
#[derive(Clone, Copy)]
pub struct StateType {
    /// Hash of the stored layout.
    pub layout: blake3::Hash,
    /// Reads a state from its stored bytes; `None` if they are not exactly one state.
    pub read: fn(&[u8]) -> Option<AnyState>,
}

trait Erased: Any + Send {
    fn merge(&mut self, later: Box<dyn Any>) -> Result<()>;
    fn bytes(&self) -> u64;
    fn inherit(&mut self, earlier: &mut dyn Any) -> Result<()>;
    fn store(&self, to: &mut dyn Write) -> Result<()>;
}

impl<S: State> Erased for S {
    fn merge(&mut self, later: Box<dyn Any>) -> Result<()> {
        State::merge(self, *later.downcast().map_err(|_| other_type())?)
    }

    fn bytes(&self) -> u64 {
        State::bytes(self)
    }

    fn inherit(&mut self, earlier: &mut dyn Any) -> Result<()> {
        State::inherit(self, earlier.downcast_mut().ok_or_else(other_type)?);
        Ok(())
    }

    fn store(&self, to: &mut dyn Write) -> Result<()> {
        let bug = |error| Error::Bug(format!("a state cannot be stored: {error}"));
        postcard::to_io(self, to).map(drop).map_err(bug)
    }
}

impl StateType {
    /// The type `S`.
    pub fn of<S: State>() -> StateType {
        StateType {
            layout: layout::hash::<S>(),
            read: |bytes| match postcard::take_from_bytes::<S>(bytes) {
                Ok((state, [])) => Some(AnyState::new(state)),
                _ => None,
            },
        }
    }
}

impl AnyState {
    /// Forgets the type of a state.
    pub fn new<S: State>(state: S) -> AnyState {
        AnyState(Box::new(state))
    }

    /// The state as an `S`.
    pub fn get_mut<S: State>(&mut self) -> Result<&mut S> {
        (&mut *self.0 as &mut dyn Any).downcast_mut().ok_or_else(other_type)
    }

    /// The state as an `S`.
    pub fn into_inner<S: State>(self) -> Result<S> {
        (self.0 as Box<dyn Any>).downcast().map(|state| *state).map_err(|_| other_type())
    }

    /// Adds the state of later rows or blocks.
    pub fn merge(&mut self, later: AnyState) -> Result<()> {
        self.0.merge(later.0)
    }

    /// Moves what merges without rounding from the state of earlier rows into this one, which is still empty.
    pub fn inherit(&mut self, earlier: &mut AnyState) -> Result<()> {
        self.0.inherit(&mut *earlier.0)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Writes the stored form.
    pub fn store(&self, to: &mut dyn Write) -> Result<()> {
        self.0.store(to)
    }
}

fn other_type() -> Error {
    Error::Bug("a state of another type".into())
}
