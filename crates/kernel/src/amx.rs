//! Products of 8-bit integers by tiles (AMX): registers of sixteen lines of 64 bytes, and an instruction that adds to a
//! tile of sums what sixteen rows and sixteen columns make of 64 numbers of the inner index. The processor must have them,
//! and the system must permit them: Linux wants to be asked, once per process.
//!
//! Tiles are a state of the thread. They are configured for one panel and released after it, and nothing that runs in
//! between gives the thread to other work, so that no other code meets them.
//!
//! Where there are no tiles, tests see only the loops that stand in for them; the instructions were checked under an
//! emulator, whose products of signed bytes had to be set right by the manual first.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::avx512;
use super::int8::{ColumnLine, FOUR};
use super::packed::PANEL;

/// Numbers of the inner index that one instruction takes: the bytes in a line of a tile.
pub(super) const DEPTH: usize = 64;

/// Rows that meet a panel together: those of two tiles.
pub(super) const BLOCK: usize = 32;

/// Lines of a panel that one instruction takes.
const LINES: usize = DEPTH / FOUR;

/// One row's bytes for one instruction.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct RowLine(pub [i32; DEPTH / FOUR]);

/// The sums of a block of rows with a panel of columns.
#[repr(C, align(64))]
pub(super) struct Sums(pub [[i32; PANEL]; BLOCK]);

/// Whether this processor has tiles of integers, the system permits them, and vectors can read what they leave.
pub fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| avx512::available() && machine::permitted())
}

thread_local! {
    /// Whether a [`Tiles`] of this thread exists: a second one would release the tiles of the first when dropped.
    static CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// The tiles of this thread, configured until this is dropped; not `Send`, because every thread has its own.
pub(super) struct Tiles(PhantomData<*const ()>);

impl Tiles {
    /// Configures them, if the processor has them and this thread does not use them already.
    pub fn configure() -> Option<Tiles> {
        (available() && !CONFIGURED.replace(true)).then(|| {
            // SAFETY: tiles are available.
            unsafe { machine::configure() };
            Tiles(PhantomData)
        })
    }

    /// A block of rows against a panel.
    pub fn multiply(&self, panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
        // SAFETY: as long as there is `self`, tiles are configured.
        unsafe { machine::multiply(panel, block, sums) };
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: they were configured, so that they are available.
        unsafe { machine::release() };
        CONFIGURED.set(false);
    }
}

/// What tiles do, in plain loops.
pub(super) fn multiply_plainly(panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
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
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    use super::{BLOCK, ColumnLine, LINES, RowLine, Sums};

    /// Whether the processor has what is used here, and the system lets this process use it.
    pub fn permitted() -> bool {
        /// The leaf of the processor's own description that describes tiles.
        const TILES: u32 = 0x1d;
        if __cpuid(0).eax < TILES {
            return false;
        }
        // Tiles and their products of 8-bit integers; and whether the system says which registers it saves.
        let (features, says) = (__cpuid_count(7, 0).edx, __cpuid(1).ecx);
        if features >> 24 & 0b11 != 0b11 || says >> 27 & 1 == 0 {
            return false;
        }
        // SAFETY: the processor has this instruction if the system says what it saves.
        let saved = unsafe { _xgetbv(0) };
        // Eight tiles of sixteen lines of 64 bytes.
        let tiles = __cpuid_count(TILES, 1);
        saved >> 17 & 0b11 == 0b11 && (tiles.ebx, tiles.ecx & 0xffff) == (8 << 16 | 64, 16) && asked()
    }

    /// Asks Linux for the permission, which holds for all threads. It is refused where a signal would find too little room
    /// for the tiles.
    fn asked() -> bool {
        /// `arch_prctl`, its request for the permission to use large registers, and the number of the tiles among them.
        const CALL: [i64; 3] = [158, 0x1023, 18];
        let answer: i64;
        // SAFETY: this call reads and writes no memory of ours; the registers that calls overwrite are named.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") CALL[0] => answer,
                in("rdi") CALL[1],
                in("rsi") CALL[2],
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        answer == 0
    }

    /// How the tiles are cut.
    #[repr(C, align(64))]
    struct Cut {
        palette: u8,
        start: u8,
        reserved: [u8; 14],
        bytes: [u16; 16],
        lines: [u8; 16],
    }

    /// All eight of sixteen lines of 64 bytes.
    static WHOLE: Cut = Cut {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        lines: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    /// Tiles must be available.
    pub unsafe fn configure() {
        // SAFETY: tiles are available, and a cut has the 64 bytes that are read.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly, preserves_flags)) };
    }

    /// Tiles must be available.
    pub unsafe fn release() {
        // SAFETY: tiles are available; what they held is needed no more.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }

    /// Tiles must be configured.
    pub unsafe fn multiply(panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
        let steps = (panel.len() / LINES).min(block.len() / BLOCK);
        // SAFETY: tiles are configured. Each step reads sixteen lines of 128 bytes of columns and 32 of 64 bytes of rows, of
        // which there are as many as there are steps; the sums have 32 lines of 128 bytes.
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

/// Where there are no tiles: nothing is permitted, so that nothing else is ever called.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod machine {
    use super::{ColumnLine, RowLine, Sums};

    pub fn permitted() -> bool {
        false
    }

    pub unsafe fn configure() {}

    pub unsafe fn release() {}

    pub unsafe fn multiply(panel: &[ColumnLine], block: &[RowLine], sums: &mut Sums) {
        super::multiply_plainly(panel, block, sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream};

    /// Bytes of all kinds, the extremes among them.
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
    fn sums_by_hand() {
        // Columns of 3, 200, 3, 200 and so on. A row of 1, −1 by turns: 32 · (3 − 200). A row with −128 in its last place.
        let panel = [ColumnLine([u32::from_le_bytes([3, 200, 3, 200]); PANEL]); LINES];
        let mut block = [RowLine::default(); BLOCK];
        block[0] = RowLine([i32::from_le_bytes([1, 255, 1, 255]); LINES]);
        block[17].0[LINES - 1] = i32::from_le_bytes([0, 0, 0, 128]);
        let mut sums = Sums([[7; PANEL]; BLOCK]);
        multiply_plainly(&panel, &block, &mut sums);
        let mut expected = [[0; PANEL]; BLOCK];
        (expected[0], expected[17]) = ([32 * (3 - 200); PANEL], [-128 * 200; PANEL]);
        assert_eq!(sums.0, expected);
    }

    #[test]
    fn tiles_give_the_sums_of_loops_on_every_thread() {
        // Threads outnumber processors, so that they take turns while tiles are configured.
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
                        multiply_plainly(&panel, &block, &mut plain);
                        // Nothing to compare where there are no tiles.
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
