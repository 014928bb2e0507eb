//! Non-negative orthogonal matching pursuit.
use super::concepts::Pursuit;
use crate::budget::Budget;
use crate::codes::{Codes, Columns, Latent};
use crate::error::Result;
use crate::kernel::bits::Bits;
pub(super) struct Atoms<'a> {
    codes: &'a Codes,
}
impl<'a> Atoms<'a> {
    pub fn new(codes: &'a Codes, _: &Budget) -> Result<Atoms<'a>> {
        Ok(Atoms { codes })
    }
}
pub(super) fn pursue(_: &Atoms<'_>, _: &Bits, _: &Bits, _: usize) -> Result<Pursuit> {
    Ok(Pursuit::default())
}
pub(super) fn predicted(columns: &Columns, _: &[Latent], _: &[f64]) -> Bits {
    Bits::empty(columns.rows())
}
