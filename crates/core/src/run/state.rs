//! States: what passes and blocks accumulate. Field types that merge, and [`state!`](crate::state) for structs of them.

use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What a pass or a block accumulates. Adding rows A and then B to one state must give the same, up to rounding, as
/// adding A and B to separate states and merging them. The fixed merge tree makes the rounding reproducible.
pub trait State: Serialize + DeserializeOwned + Send + 'static {
    /// Adds the state of later rows or blocks.
    fn merge(&mut self, later: Self) -> Result<()>;
    /// Bytes on the heap, for the memory limit.
    fn bytes(&self) -> u64;
    /// Moves what merges without rounding from the state of earlier rows into this one, which is still empty. Merging
    /// both gives the same; lists of largest values that are already filled reject most offers.
    fn inherit(&mut self, _earlier: &mut Self) {}
}

/// Implements [`State`](crate::run::State) for a struct whose fields are states: `state!(Sums { weighted, fired });`.
/// Leaving out a field is a compile error.
#[macro_export]
macro_rules! state {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::run::State for $name {
            fn merge(&mut self, later: Self) -> $crate::error::Result<()> {
                let $name { $($field),* } = later;
                $($crate::run::State::merge(&mut self.$field, $field)?;)*
                Ok(())
            }

            fn bytes(&self) -> u64 {
                let $name { $($field),* } = self;
                0 $(+ $crate::run::State::bytes($field))*
            }

            fn inherit(&mut self, earlier: &mut Self) {
                $($crate::run::State::inherit(&mut self.$field, &mut earlier.$field);)*
            }
        }
    };
}

/// Defines a vector that merges element by element and dereferences to a slice.
macro_rules! column {
    ($(#[$doc:meta])* $name:ident: $value:ty = $empty:expr, |$a:ident, $b:ident| $merged:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name(Vec<$value>);

        impl $name {
            /// `count` elements, all empty.
            pub fn new(count: usize) -> $name {
                $name(vec![$empty; count])
            }

            /// Combines a value with the element at `index`.
            #[inline]
            pub fn add(&mut self, index: usize, $b: $value) {
                let $a = self.0[index];
                self.0[index] = $merged;
            }
        }

        impl Deref for $name {
            type Target = [$value];

            fn deref(&self) -> &[$value] {
                &self.0
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut [$value] {
                &mut self.0
            }
        }

        impl State for $name {
            fn merge(&mut self, later: Self) -> Result<()> {
                check_lengths(stringify!($name), self.len(), later.len())?;
                self.0.iter_mut().zip(later.0).for_each(|(mine, $b)| {
                    let $a = *mine;
                    *mine = $merged;
                });
                Ok(())
            }

            fn bytes(&self) -> u64 {
                size_of_val(&self.0[..]) as u64
            }
        }
    };
}

column!(/// Counts; exact.
    Count: u64 = 0, |a, b| a + b);
column!(/// Sums, added in the order of the merge tree.
    Sum: f64 = 0.0, |a, b| a + b);
column!(/// Minima; `None` before the first value.
    Min: Option<f32> = None, |a, b| [a, b].into_iter().flatten().reduce(f32::min));
column!(/// Maxima; `None` before the first value.
    Max: Option<f32> = None, |a, b| [a, b].into_iter().flatten().reduce(f32::max));

pub(super) fn check_lengths(what: &str, mine: usize, theirs: usize) -> Result<()> {
    if mine == theirs { Ok(()) } else { Err(Error::Bug(format!("merged a {what} of {mine} and one of {theirs}"))) }
}

/// Sparse counts: `(key, count)`, keys ascending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyCounts(pub Vec<(u64, u64)>);

impl State for KeyCounts {
    fn merge(&mut self, later: Self) -> Result<()> {
        self.0.extend(later.0);
        self.0.sort_unstable_by_key(|pair| pair.0);
        self.0.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 += if same { later.1 } else { 0 };
            same
        });
        Ok(())
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }
}

/// Results of blocks, in the order of the blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List<T>(pub Vec<T>);

impl<T: Serialize + DeserializeOwned + Send + 'static> State for List<T> {
    fn merge(&mut self, later: Self) -> Result<()> {
        self.0.extend(later.0);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        // The stored size estimates the bytes that results hold on the heap.
        let heap = postcard::experimental::serialized_size(&self.0).unwrap_or(0);
        (size_of_val(&self.0[..]) + heap) as u64
    }
}

/// Independent states, such as one per source.
impl<S: State> State for Vec<S> {
    fn merge(&mut self, later: Self) -> Result<()> {
        check_lengths("list of states", self.len(), later.len())?;
        self.iter_mut().zip(later).try_for_each(|(mine, later)| mine.merge(later))
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self[..]) as u64 + self.iter().map(State::bytes).sum::<u64>()
    }

    fn inherit(&mut self, earlier: &mut Self) {
        self.iter_mut().zip(earlier).for_each(|(mine, earlier)| mine.inherit(earlier));
    }
}

/// A state that only some jobs need.
impl<S: State> State for Option<S> {
    fn merge(&mut self, later: Self) -> Result<()> {
        match (self, later) {
            (Some(mine), Some(later)) => mine.merge(later),
            (None, None) => Ok(()),
            _ => Err(Error::Bug("merged a state with a missing one".into())),
        }
    }

    fn bytes(&self) -> u64 {
        self.as_ref().map_or(0, State::bytes)
    }

    fn inherit(&mut self, earlier: &mut Self) {
        if let (Some(mine), Some(earlier)) = (self, earlier) {
            mine.inherit(earlier);
        }
    }
}

impl State for () {
    fn merge(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Example {
        count: Count,
        sum: Sum,
        least: Min,
        most: Max,
        keys: KeyCounts,
        results: List<u8>,
        sources: Vec<Count>,
        extra: Option<Sum>,
    }

    state!(Example { count, sum, least, most, keys, results, sources, extra });

    fn example(value: f32, block: u8) -> Example {
        let mut example = Example {
            count: Count::new(2),
            sum: Sum::new(1),
            least: Min::new(2),
            most: Max::new(1),
            keys: KeyCounts(vec![(4, 1), (9, 2)]),
            results: List(vec![block]),
            sources: vec![Count::new(1); 2],
            extra: Some(Sum::new(1)),
        };
        example.count.add(1, 3);
        example.sum[0] += f64::from(value);
        example.least.add(0, Some(value));
        example.most.add(0, Some(value));
        example.sources[1].add(0, 5);
        example
    }

    #[test]
    fn merging_keeps_the_extremes_and_adds_the_rest() {
        let mut merged = example(2.0, 7);
        merged.merge(example(-1.0, 8)).unwrap();
        assert_eq!(merged.count[..], [0, 6]);
        assert_eq!(
            (merged.sum[0], merged.least[0], merged.least[1], merged.most[0]),
            (1.0, Some(-1.0), None, Some(2.0))
        );
        assert_eq!(merged.keys.0, [(4, 2), (9, 4)]);
        assert_eq!((merged.results.0, merged.sources[1][0]), (vec![7, 8], 10));
        // 2 · 8 + 8 + 2 · 8 + 8 for the columns, 2 · 16 for the keys.
        assert!(example(1.0, 0).bytes() >= 16 + 8 + 16 + 8 + 32);
        let mut short = example(1.0, 0);
        short.sources.pop();
        assert!(short.merge(example(1.0, 0)).is_err());
        let mut none = example(1.0, 0);
        none.extra = None;
        assert!(none.merge(example(1.0, 0)).is_err());
    }
}
