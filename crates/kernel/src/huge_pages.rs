//! Buffers for scattered writes, in huge pages where the system supports them: with small pages, TLB misses cost more than
//! the writes.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use memmap2::MmapMut;

/// Buffers below this many bytes use an ordinary `Vec`.
const MIN_BYTES: usize = 8 << 20;

/// A fixed-length buffer, in huge pages if it is large. Dereferences to a slice.
#[derive(Debug)]
pub struct HugeVec<T> {
    memory: Memory,
    length: usize,
    of: PhantomData<T>,
}

#[derive(Debug)]
enum Memory {
    /// Words of eight bytes: the alignment of `T` is at most that.
    Small(Vec<u64>),
    Pages(MmapMut),
}

impl<T: Pod> HugeVec<T> {
    /// A buffer of `length` zeros.
    pub fn zeros(length: usize) -> HugeVec<T> {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let bytes = length.saturating_mul(size_of::<T>());
        let small = || Memory::Small(vec![0; bytes.div_ceil(size_of::<u64>())]);
        let memory = if bytes < MIN_BYTES { small() } else { pages(bytes).map_or_else(small, Memory::Pages) };
        HugeVec { memory, length, of: PhantomData }
    }
}

fn pages(bytes: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(bytes).ok()?;
    // A system without huge pages refuses, and uses small ones.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Some(pages)
}

impl<T: Pod> Deref for HugeVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let bytes: &[u8] = match &self.memory {
            Memory::Small(words) => cast_slice(words),
            Memory::Pages(pages) => pages,
        };
        cast_slice(&bytes[..self.length * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for HugeVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes: &mut [u8] = match &mut self.memory {
            Memory::Small(words) => cast_slice_mut(words),
            Memory::Pages(pages) => pages,
        };
        cast_slice_mut(&mut bytes[..self.length * size_of::<T>()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_with_zeros_and_keeps_written_values() {
        for length in [0, 1, 7, MIN_BYTES / 12, MIN_BYTES / 12 + 1, MIN_BYTES / 4] {
            let mut list = HugeVec::<[u32; 3]>::zeros(length);
            assert!(list.len() == length && list.iter().all(|entry| *entry == [0; 3]));
            for (index, entry) in list.iter_mut().enumerate() {
                *entry = [index as u32, 1, 2];
            }
            assert!(list.iter().enumerate().all(|(index, entry)| *entry == [index as u32, 1, 2]));
        }
    }
}
