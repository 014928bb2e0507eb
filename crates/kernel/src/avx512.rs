//! AVX-512 instructions without a safe wrapper in `pulp`: int8 products, compression and permutation of lanes. Each
//! function reports whether it did the work; if the processor lacks the instructions, the caller uses portable loops.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::candidates::{Group, LANES};
use super::int8::{ColumnLine, PanelBounds, TileBounds};
use super::packed::{PANEL, TILE_ROWS};

/// Whether this processor supports the instructions used here.
pub fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    let available = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni");
    #[cfg(not(target_arch = "x86_64"))]
    let available = false;
    available
}

/// Multiplies twelve rows with a panel of quantised columns and sets the masks.
pub(super) fn propose(
    bytes: &[ColumnLine],
    block: &[[i32; TILE_ROWS]],
    panel: &PanelBounds,
    offsets: &[f32; PANEL],
    tile: &mut TileBounds<TILE_ROWS>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: `available()` checked all target features of the function.
        unsafe { propose_tile(bytes, block, panel, offsets, tile) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn propose_tile(
    bytes: &[ColumnLine],
    block: &[[i32; TILE_ROWS]],
    panel: &PanelBounds,
    offsets: &[f32; PANEL],
    tile: &mut TileBounds<TILE_ROWS>,
) {
    let sums = tile_sums(bytes, block, &tile.starts);
    let columns = PanelVectors::new(panel, offsets);
    #[expect(clippy::needless_range_loop, reason = "indices keep the sums in registers")]
    for r in 0..TILE_ROWS {
        tile.masks[r] = columns.mask(sums[r], tile, r);
    }
}

/// The sums of twelve rows with a panel of quantised columns.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn tile_sums(bytes: &[ColumnLine], block: &[[i32; TILE_ROWS]], starts: &[i32; TILE_ROWS]) -> [[__m512i; 2]; TILE_ROWS] {
    let mut sums = [[_mm512_setzero_si512(); 2]; TILE_ROWS];
    for r in 0..TILE_ROWS {
        sums[r] = [_mm512_set1_epi32(starts[r]); 2];
    }
    for (line, four) in bytes.iter().zip(block) {
        // SAFETY: a `ColumnLine` has 32 values, so both unaligned loads of 16 are in bounds.
        let columns = unsafe {
            [_mm512_loadu_si512(line.0.as_ptr().cast()), _mm512_loadu_si512(line.0.as_ptr().add(LANES).cast())]
        };
        for r in 0..TILE_ROWS {
            let row = _mm512_set1_epi32(four[r]);
            sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], columns[0], row);
            sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], columns[1], row);
        }
    }
    sums
}

/// Multiplies twelve rows with a panel of quantised columns and stores the sums, to which `starts` are added.
pub(super) fn sums(
    bytes: &[ColumnLine],
    block: &[[i32; TILE_ROWS]],
    starts: &[i32; TILE_ROWS],
    out: &mut [[i32; PANEL]; TILE_ROWS],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: `available()` checked all target features of the function.
        unsafe { store_sums(bytes, block, starts, out) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn store_sums(
    bytes: &[ColumnLine],
    block: &[[i32; TILE_ROWS]],
    starts: &[i32; TILE_ROWS],
    out: &mut [[i32; PANEL]; TILE_ROWS],
) {
    let sums = tile_sums(bytes, block, starts);
    for r in 0..TILE_ROWS {
        // SAFETY: a line has 32 values, so both unaligned stores of 16 are in bounds.
        unsafe {
            _mm512_storeu_si512(out[r].as_mut_ptr().cast(), sums[r][0]);
            _mm512_storeu_si512(out[r].as_mut_ptr().add(LANES).cast(), sums[r][1]);
        }
    }
}

/// Compares the sums of a block of rows, before adding their starts, with the floors and sets the masks.
pub(super) fn compare<const ROWS: usize>(
    sums: &[[i32; PANEL]; ROWS],
    panel: &PanelBounds,
    offsets: &[f32; PANEL],
    tile: &mut TileBounds<ROWS>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: `available()` checked all target features of the function.
        unsafe { compare_rows(sums, panel, offsets, tile) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn compare_rows<const ROWS: usize>(
    sums: &[[i32; PANEL]; ROWS],
    panel: &PanelBounds,
    offsets: &[f32; PANEL],
    tile: &mut TileBounds<ROWS>,
) {
    let columns = PanelVectors::new(panel, offsets);
    for (r, line) in sums.iter().enumerate() {
        // SAFETY: `line` has 32 values, so both unaligned loads of 16 are in bounds.
        let sums =
            unsafe { [_mm512_loadu_si512(line.as_ptr().cast()), _mm512_loadu_si512(line.as_ptr().add(LANES).cast())] };
        let start = _mm512_set1_epi32(tile.starts[r]);
        tile.masks[r] = columns.mask(sums.map(|sums| _mm512_add_epi32(sums, start)), tile, r);
    }
}

/// The bounds and offsets of a panel in registers.
#[cfg(target_arch = "x86_64")]
struct PanelVectors {
    units: [__m512; 2],
    lengths: [__m512; 2],
    offsets: [__m512; 2],
}

#[cfg(target_arch = "x86_64")]
impl PanelVectors {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn new(panel: &PanelBounds, offsets: &[f32; PANEL]) -> PanelVectors {
        // SAFETY: `values` has 32 elements, so both unaligned loads of 16 are in bounds.
        let load = |values: &[f32; PANEL]| unsafe {
            [_mm512_loadu_ps(values.as_ptr()), _mm512_loadu_ps(values.as_ptr().add(LANES))]
        };
        PanelVectors { units: load(&panel.units), lengths: load(&panel.lengths), offsets: load(offsets) }
    }

    /// The mask of the sums of a row that may exceed its floor.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn mask<const ROWS: usize>(&self, sums: [__m512i; 2], tile: &TileBounds<ROWS>, r: usize) -> u32 {
        let (inverse, bound) = (_mm512_set1_ps(tile.inverses[r]), _mm512_set1_ps(tile.bounds[r]));
        let floor = _mm512_set1_ps(tile.floors[r]);
        let mut mask = 0;
        for (half, sums) in sums.into_iter().enumerate() {
            let rest = _mm512_fmadd_ps(inverse, self.offsets[half], _mm512_mul_ps(bound, self.lengths[half]));
            let most = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), self.units[half], rest);
            mask |= u32::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(most, floor)) << (half * LANES);
        }
        mask
    }
}

/// Lists the row and column of every set bit; returns their number. Both lists must have 32 entries per mask and 32 more,
/// because whole vectors are stored; `None` otherwise.
pub(super) fn spread(masks: &[u32], rows: &mut [u8], columns: &mut [u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if available() && (masks.len() + 1) * PANEL <= rows.len().min(columns.len()) {
        // SAFETY: `available()` checked all target features, and both lists have space for 32 entries per mask and 32 more.
        return Some(unsafe { spread_masks(masks, rows.as_mut_ptr(), columns.as_mut_ptr()) });
    }
    None
}

/// # Safety
///
/// `rows` and `columns` must be valid for writes of `(masks.len() + 1) * 32` bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,popcnt")]
unsafe fn spread_masks(masks: &[u32], rows: *mut u8, columns: *mut u8) -> usize {
    let mut filled = 0;
    for (row, &mask) in masks.iter().enumerate() {
        // SAFETY: each earlier mask added at most 32 entries, so at least 32 entries remain after `filled` in both lists.
        unsafe { spread_mask(mask, row as u8, rows.add(filled), columns, filled) };
        filled += mask.count_ones() as usize;
    }
    filled
}

/// # Safety
///
/// `rows` must be valid for writes of 32 bytes, `columns` of `filled + 32` bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,popcnt")]
unsafe fn spread_mask(mask: u32, row: u8, rows: *mut u8, columns: *mut u8, filled: usize) {
    let first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let second = _mm512_add_epi32(first, _mm512_set1_epi32(LANES as i32));
    let low = _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32(mask as u16, first));
    let high = _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32((mask >> LANES) as u16, second));
    let between = (mask & 0xffff).count_ones() as usize;
    // SAFETY: each store writes 16 bytes. `between` is at most 16, so all are within the 32 bytes that the caller guarantees.
    unsafe {
        let columns = columns.add(filled);
        _mm_storeu_si128(columns.cast(), low);
        _mm_storeu_si128(columns.add(between).cast(), high);
        _mm_storeu_si128(rows.cast(), _mm_set1_epi8(row as i8));
        _mm_storeu_si128(rows.add(LANES).cast(), _mm_set1_epi8(row as i8));
    }
}

/// Continues the chains of some groups over a piece of the inner index, given as lines of 32 rows and, for each group, of
/// 32 columns.
pub(super) fn chains<const COUNT: usize>(rows: &[f32], columns: [&[f32]; COUNT], groups: &mut [Group; COUNT]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: `available()` checked all target features of the function.
        unsafe { chain_lanes(rows, columns, groups) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn chain_lanes<const COUNT: usize>(rows: &[f32], columns: [&[f32]; COUNT], groups: &mut [Group; COUNT]) {
    // SAFETY: `bytes` has 16 bytes, the size of the unaligned load.
    let indices = |bytes: &[u8; LANES]| unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast())) };
    let (mut row_indices, mut column_indices) = ([_mm512_setzero_si512(); COUNT], [_mm512_setzero_si512(); COUNT]);
    let mut sums = [_mm512_setzero_ps(); COUNT];
    for (which, group) in groups.iter().enumerate() {
        (row_indices[which], column_indices[which]) = (indices(&group.rows), indices(&group.columns));
        // SAFETY: `group.sums` has 16 values, the size of the unaligned load.
        sums[which] = unsafe { _mm512_loadu_ps(group.sums.as_ptr()) };
    }
    // SAFETY: `line` has 32 values, so both unaligned loads of 16 are in bounds.
    let load =
        |line: &[f32; PANEL]| unsafe { (_mm512_loadu_ps(line.as_ptr()), _mm512_loadu_ps(line.as_ptr().add(LANES))) };
    let (rows, columns) = (rows.as_chunks::<PANEL>().0, columns.map(|columns| columns.as_chunks::<PANEL>().0));
    let length = columns.iter().map(|columns| columns.len()).fold(rows.len(), usize::min);
    let (rows, columns) = (&rows[..length], columns.map(|columns| &columns[..length]));
    for k in 0..length {
        let row = load(&rows[k]);
        for which in 0..COUNT {
            let column = load(&columns[which][k]);
            // The permutation takes indices modulo 32.
            let x = _mm512_permutex2var_ps(row.0, row_indices[which], row.1);
            let w = _mm512_permutex2var_ps(column.0, column_indices[which], column.1);
            sums[which] = _mm512_fmadd_ps(x, w, sums[which]);
        }
    }
    for (sums, group) in sums.into_iter().zip(groups) {
        // SAFETY: `group.sums` has 16 values, the size of the unaligned store.
        unsafe { _mm512_storeu_ps(group.sums.as_mut_ptr(), sums) };
    }
}

/// Transposes vectors into a panel in 16 × 16 squares. Returns how many vectors, and how many values of each, were written.
pub(super) fn transpose(vectors: &[f32], pitch: usize, count: usize, panel: &mut [f32]) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if available() && (LANES..=PANEL).contains(&count) {
        let (count, inner) = (count / LANES * LANES, panel.len() / PANEL / LANES * LANES);
        if inner > 0 && vectors.len() >= (count - 1) * pitch + inner {
            for (start, lines) in (0..inner).step_by(LANES).zip(panel.chunks_exact_mut(LANES * PANEL)) {
                for first in (0..count).step_by(LANES) {
                    // SAFETY: `available()` checked all target features. Vector `first + 15` ends before
                    // `(count - 1) * pitch + inner`, which is within `vectors`. `lines` has 16 lines of 32 values, and
                    // `first` is 0 or 16, so 16 values fit into each line from there.
                    unsafe {
                        transpose_square(
                            vectors.as_ptr().add(first * pitch + start),
                            pitch,
                            lines.as_mut_ptr().add(first),
                        )
                    };
                }
            }
            return (count, inner);
        }
    }
    (0, 0)
}

/// Transposes sixteen values of sixteen vectors.
///
/// # Safety
///
/// For every `i` below 16, 16 values must be readable at `vectors + i * pitch` and writable at `lines + i * 32`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn transpose_square(vectors: *const f32, pitch: usize, lines: *mut f32) {
    let mut rows = [_mm512_setzero_ps(); LANES];
    for (index, row) in rows.iter_mut().enumerate() {
        // SAFETY: `index` is below 16, so the caller guarantees 16 readable values here.
        *row = unsafe { _mm512_loadu_ps(vectors.add(index * pitch)) };
    }
    // Interleave pairs of values, then groups of four, then 128-bit lanes.
    let mut pairs = [_mm512_setzero_pd(); LANES];
    for i in (0..LANES).step_by(2) {
        pairs[i] = _mm512_castps_pd(_mm512_unpacklo_ps(rows[i], rows[i + 1]));
        pairs[i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(rows[i], rows[i + 1]));
    }
    // fours[4 q + k]: value k, modulo four, of the vectors 4 q to 4 q + 3.
    let mut fours = [_mm512_setzero_ps(); LANES];
    for q in (0..LANES).step_by(4) {
        fours[q] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[q], pairs[q + 2]));
        fours[q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[q], pairs[q + 2]));
        fours[q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[q + 1], pairs[q + 3]));
        fours[q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[q + 1], pairs[q + 3]));
    }
    for k in 0..4 {
        let (a, b, c, d) = (fours[k], fours[4 + k], fours[8 + k], fours[12 + k]);
        // Lanes 0 and 2, or 1 and 3, of two vectors.
        let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (more_even, more_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        let transposed = [
            _mm512_shuffle_f32x4::<0x88>(even, more_even),
            _mm512_shuffle_f32x4::<0x88>(odd, more_odd),
            _mm512_shuffle_f32x4::<0xdd>(even, more_even),
            _mm512_shuffle_f32x4::<0xdd>(odd, more_odd),
        ];
        for (four, line) in transposed.into_iter().enumerate() {
            // SAFETY: `four * 4 + k` is below 16, so the caller guarantees 16 writable values here.
            unsafe { _mm512_storeu_ps(lines.add((four * 4 + k) * PANEL), line) };
        }
    }
}
