//! Products of 8-bit integers with AMX tiles: registers of sixteen lines of 64 bytes. One instruction multiplies sixteen
//! rows with sixteen columns over 64 values of the inner index and adds the products to a tile of sums. `amx_support.rs`
//! decides whether they are used.
//!
//! Tiles are thread state. They are configured for one panel and released after it, and nothing in between yields the
//! thread to other work, so no other code sees them configured.
//!
//! On processors without AMX, tests cover only the portable loops. The instructions were checked under an emulator, after
//! fixing its products of signed bytes according to Intel's manual.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::amx_support;
use super::avx512;
use super::int8::{ColumnLine, PER_LANE};
use super::packed::PANEL;

/// Values of the inner index per instruction: the bytes in a line of a tile.
pub(super) const DEPTH: usize = 64;

/// Rows multiplied with a panel together: those of two tiles.
pub(super) const BLOCK: usize = 32;

/// Lines of a panel per instruction.
const LINES: usize = DEPTH / PER_LANE;

/// One row's bytes for one instruction.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct RowLine(pub [i32; DEPTH / PER_LANE]);

/// The sums of a block of rows with a panel of columns.
#[repr(C, align(64))]
pub(super) struct Sums(pub [[i32; PANEL]; BLOCK]);

/// Whether AMX int8 products are used: the processor supports them, the system permits them, the user did not switch them
/// off, and AVX-512 can read the sums.
pub fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| avx512::available() && amx_support::permitted())
}

thread_local! {
    /// Whether this thread has a [`Tiles`]: a second one would release the tiles of the first when dropped.
    static CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// The tiles of this thread, configured until dropped. Not `Send`, because tiles are thread state.
pub(super) struct Tiles(PhantomData<*const ()>);

impl Tiles {
    /// Configures the tiles, if AMX is available and this thread does not use them already.
    pub fn configure() -> Option<Tiles> {
        (available() && !CONFIGURED.replace(true)).then(|| {
            // SAFETY: `available()` returned true, so the processor supports AMX and the process may use it.
            unsafe { machine::configure() };
            Tiles(PhantomData)
        })
    }

    /// A block of rows against a panel.
    pub fn multiply(&self, panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
        // SAFETY: `self` exists on this thread (it is not `Send`), so the tiles of this thread are configured.
        unsafe { machine::multiply(panel, block, sums) };
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `configure` created `self` only after `available()` returned true.
        unsafe { machine::release() };
        CONFIGURED.set(false);
    }
}

/// The same as [`Tiles::multiply`], in portable loops.
pub(super) fn multiply_portable(panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
    sums.0 = [[0; PANEL]; BLOCK];
    for (lines, rows) in panel.as_chunks::<LINES>().0.iter().zip(block.as_chunks::<BLOCK>().0) {
        for (row, sums) in rows.iter().zip(&mut sums.0) {
            for (four, line) in row.0.iter().zip(lines) {
                line.add_products(*four, sums);
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine {
    use std::arch::asm;

    use super::{BLOCK, ColumnLine, LINES, RowLine, Sums};

    /// The tile configuration as `ldtilecfg` reads it.
    #[repr(C, align(64))]
    struct TileConfig {
        palette: u8,
        start: u8,
        reserved: [u8; 14],
        bytes: [u16; 16],
        lines: [u8; 16],
    }

    /// Eight tiles of sixteen lines of 64 bytes.
    static FULL_TILES: TileConfig = TileConfig {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        lines: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    /// # Safety
    ///
    /// AMX must be available ([`super::available`]).
    pub unsafe fn configure() {
        // SAFETY: the caller guarantees AMX. The instruction reads 64 bytes, the size of `FULL_TILES`, and the
        // configuration is valid: palette 1, eight tiles of at most 16 lines of 64 bytes, reserved bytes zero.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const FULL_TILES, options(nostack, readonly, preserves_flags)) };
    }

    /// # Safety
    ///
    /// AMX must be available ([`super::available`]).
    pub unsafe fn release() {
        // SAFETY: the caller guarantees AMX. The instruction accesses no memory, and no tile contents are used after it.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }

    /// # Safety
    ///
    /// The tiles of this thread must be configured ([`configure`]).
    pub unsafe fn multiply(panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
        let steps = (panel.len() / LINES).min(block.len() / BLOCK);
        // SAFETY: the caller guarantees configured tiles. Each step reads 16 column lines of 128 bytes and 32 row lines of
        // 64 bytes (2048 bytes each), and `steps` is limited to what both slices hold. The stores write 32 lines of
        // 128 bytes, the size of `sums`, which is borrowed mutably. All tile registers are declared as clobbered.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "test {steps}, {steps}",
                "jz 3f",
                "2:",
                "tileloadd tmm4, [{rows} + {row}*1]",
                "tileloadd tmm6, [{columns} + {line}*1]",
                "tdpbsud tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{columns} + {line}*1 + 64]",
                "tdpbsud tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{rows} + {row}*1 + 1024]",
                "tdpbsud tmm2, tmm5, tmm6",
                "tdpbsud tmm3, tmm5, tmm7",
                "add {rows}, 2048",
                "add {columns}, 2048",
                "dec {steps}",
                "jnz 2b",
                "3:",
                "tilestored [{sums} + {line}*1], tmm0",
                "tilestored [{sums} + {line}*1 + 64], tmm1",
                "tilestored [{sums} + {line}*1 + 2048], tmm2",
                "tilestored [{sums} + {line}*1 + 2112], tmm3",
                steps = inout(reg) steps => _,
                rows = inout(reg) block.as_ptr() => _,
                columns = inout(reg) panel.as_ptr() => _,
                sums = in(reg) &raw mut *sums,
                row = in(reg) size_of::<RowLine>(),
                line = in(reg) size_of::<ColumnLine>(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

/// Other platforms: `available` returns false, so these functions are never called.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod machine {
    use super::{ColumnLine, RowLine, Sums};

    pub unsafe fn configure() {}

    pub unsafe fn release() {}

    pub unsafe fn multiply(panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
        super::multiply_portable(panel, block, sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream};

    /// Random bytes, extremes over-represented.
    fn draw(count: usize, seed: u64) -> Vec<u32> {
        let mut random = stream(seed, "bytes", 0);
        let mut byte = || match index(8, &mut random) {
            0 => 0,
            1 => 127,
            2 => 128,
            3 => 255,
            _ => index(256, &mut random) as u8,
        };
        (0..count).map(|_| u32::from_le_bytes([byte(), byte(), byte(), byte()])).collect()
    }

    #[test]
    fn sums_of_a_small_example() {
        // Columns of 3, 200, 3, 200, ... A row of alternating 1, −1: 32 · (3 − 200). A row with −128 as its last value.
        let panel = [ColumnLine([u32::from_le_bytes([3, 200, 3, 200]); PANEL]); LINES];
        let mut block = [RowLine::default(); BLOCK];
        block[0] = RowLine([i32::from_le_bytes([1, 255, 1, 255]); LINES]);
        block[17].0[LINES - 1] = i32::from_le_bytes([0, 0, 0, 128]);
        let mut sums = Sums([[7; PANEL]; BLOCK]);
        multiply_portable(&panel, &block, &mut sums);
        let mut expected = [[0; PANEL]; BLOCK];
        (expected[0], expected[17]) = ([32 * (3 - 200); PANEL], [-128 * 200; PANEL]);
        assert_eq!(sums.0, expected);
    }

    #[test]
    fn tiles_agree_with_loops_on_every_thread() {
        // More threads than processors, so that threads are switched while tiles are configured.
        std::thread::scope(|scope| {
            for thread in 0..5 {
                scope.spawn(move || {
                    for steps in [0, 1, 2, 12, 3, 300] {
                        let seed = thread * 1000 + steps as u64;
                        let (columns, rows) =
                            (draw(steps * LINES * PANEL, seed), draw(steps * BLOCK * LINES, seed + 1));
                        let panel: Vec<ColumnLine> =
                            columns.as_chunks().0.iter().map(|line| ColumnLine(*line)).collect();
                        let rows = rows.as_chunks().0.iter();
                        let block: Vec<RowLine> = rows.map(|line| RowLine(line.map(|four| four as i32))).collect();
                        let (mut sums, mut plain) = (Sums([[7; PANEL]; BLOCK]), Sums([[8; PANEL]; BLOCK]));
                        multiply_portable(&panel, &block, &mut plain);
                        // Nothing to compare without AMX.
                        let Some(tiles) = Tiles::configure() else { return };
                        for _ in 0..3 {
                            tiles.multiply(&panel, &block, &mut sums);
                            assert_eq!(sums.0, plain.0, "{steps} steps");
                        }
                    }
                });
            }
        });
    }
}
