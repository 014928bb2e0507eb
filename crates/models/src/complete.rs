//! Whether a network has used all tensors of its file.

use etalon::error::{InputError, Result};

use crate::weights::Weights;

/// Most names that a message lists.
const LISTED: usize = 5;

impl Weights {
    /// The number of values.
    pub fn parameters(&self) -> u64 {
        self.size() / 4
    }

    /// Refuses tensors that the network did not read, except those that it need not: such a file is of another
    /// architecture.
    pub fn refuse_unread(&self, unneeded: impl Fn(&str) -> bool) -> Result<()> {
        let extra: Vec<String> = self.unread().into_iter().filter(|name| !unneeded(name)).collect();
        if extra.is_empty() {
            return Ok(());
        }
        let names = extra.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = if extra.len() > LISTED { format!(" and {} more", extra.len() - LISTED) } else { String::new() };
        Err(InputError::new("the file has tensors that the network does not use")
            .expected("the tensors of the architecture in the configuration, and no others")
            .found(format!("{names}{more}"))
            .advice("check that the configuration belongs to the weights")
            .into())
    }
}
