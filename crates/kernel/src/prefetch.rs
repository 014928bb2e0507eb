//! Asks for memory before it is needed, so that many places far apart are on their way at once.

#![allow(unsafe_code)]

/// How many entries before its turn a place is best asked for, if an entry takes some ten nanoseconds.
pub const AHEAD: usize = 16;

/// Asks for the memory of an entry. A place that is not there, or a processor that cannot be asked, changes nothing.
#[inline(always)]
pub fn fetch<T>(list: &[T], place: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(entry) = list.get(place) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the entry is there; asking for memory reads and changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (list, place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_nothing_is_fine() {
        fetch::<u8>(&[], 0);
        fetch(&[1.0], 7);
        fetch(&[1.0], 0);
    }
}
