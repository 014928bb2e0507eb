//! Memory for much scattered writing: in large pages where the system has them, because with small ones finding the
//! page of every write costs more than the write.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use memmap2::MmapMut;

/// Below this many bytes an ordinary list does as well.
const LEAST: usize = 8 << 20;

/// A list that is read and written as a slice.
#[derive(Debug)]
pub struct Large<T> {
    place: Place,
    length: usize,
    of: PhantomData<T>,
}

#[derive(Debug)]
enum Place {
    /// Eight bytes each: no type of a list needs to lie at rounder places.
    Small(Vec<u64>),
    Pages(MmapMut),
}

impl<T: Pod> Large<T> {
    /// As many zeros.
    pub fn zeros(length: usize) -> Large<T> {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let bytes = length.saturating_mul(size_of::<T>());
        let small = || Place::Small(vec![0; bytes.div_ceil(size_of::<u64>())]);
        let place = if bytes < LEAST { small() } else { pages(bytes).map_or_else(small, Place::Pages) };
        Large { place, length, of: PhantomData }
    }
}

fn pages(bytes: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(bytes).ok()?;
    // A system without large pages says no, and does with small ones what it would have done anyway.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Some(pages)
}

impl<T: Pod> Deref for Large<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let bytes: &[u8] = match &self.place {
            Place::Small(words) => cast_slice(words),
            Place::Pages(pages) => pages,
        };
        cast_slice(&bytes[..self.length * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for Large<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes: &mut [u8] = match &mut self.place {
            Place::Small(words) => cast_slice_mut(words),
            Place::Pages(pages) => pages,
        };
        cast_slice_mut(&mut bytes[..self.length * size_of::<T>()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_list_of_zeros_that_keeps_what_is_written() {
        for length in [0, 1, 7, LEAST / 12, LEAST / 12 + 1, LEAST / 4] {
            let mut list = Large::<[u32; 3]>::zeros(length);
            assert!(list.len() == length && list.iter().all(|entry| *entry == [0; 3]));
            for (place, entry) in list.iter_mut().enumerate() {
                *entry = [place as u32, 1, 2];
            }
            assert!(list.iter().enumerate().all(|(place, entry)| *entry == [place as u32, 1, 2]));
        }
    }
}
