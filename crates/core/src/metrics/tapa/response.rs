//! The response of matched latents to a change of an image.

use serde::{Deserialize, Serialize};

use crate::codes::{CodesView, Latent};
use crate::error::{Error, Result};
use crate::labels::{Concept, Pair};
use crate::results::Profile;
use crate::run::{Job, PAIR_CODES, PAIRS};

/// Pairs between two checks for cancellation.
const CHECK_PAIRS: usize = 4096;

/// Whether any latent of a set fires in a row. An empty set never fires.
pub(in crate::metrics) fn fires(codes: &CodesView<'_>, row: usize, set: &[Latent], above: f32) -> bool {
    let (latents, values) = codes.row(row);
    set.iter().any(|latent| latents.binary_search(&latent.0).is_ok_and(|index| values[index] > above))
}

/// The firing of a set of latents before and after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    /// The index of the concept of the set.
    pub concept: usize,
    pub before: bool,
    pub after: bool,
    pub empty: bool,
}

impl Change {
    /// 1 if switched on, −1 if switched off, 0 if unchanged.
    pub fn delta(&self) -> f64 {
        f64::from(i8::from(self.after) - i8::from(self.before))
    }
}

/// The response to one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Response {
    /// The latents of the added concept, if there is one.
    pub added: Option<Change>,
    /// The latents of the removed concept, if there is one.
    pub removed: Option<Change>,
    /// Whether both concepts have a latent in common.
    pub shared: bool,
    /// Whether the pair is left out of every mean; see [`is_lost`].
    pub lost: bool,
}

/// The latents of one concept of a pair that count: in `reference`, those that the other concept does not have.
fn own_latents(own: &[Latent], other: &[Latent], profile: Profile) -> Vec<Latent> {
    let counts = |latent: &&Latent| profile == Profile::Paper || !other.contains(latent);
    own.iter().filter(counts).copied().collect()
}

/// Whether the released code loses a pair, for `tapa` and for `stay`: the added concept has no latents that only it has.
/// `sets` has those of every concept.
pub(in crate::metrics) fn is_lost(pair: &Pair, sets: &[Vec<Latent>], profile: Profile) -> bool {
    let set =
        |concept: Option<Concept>| concept.and_then(|concept| sets.get(concept.0 as usize)).map_or(&[][..], |set| set);
    let adds_nothing = || own_latents(set(pair.added), set(pair.removed), profile).is_empty();
    profile == Profile::Reference && pair.added.is_some() && adds_nothing()
}

/// The responses to all pairs, in order. `sets` has the latents of every concept.
pub(super) fn responses(job: &Job<'_>, sets: &[Vec<Latent>], above: f32) -> Result<Vec<Response>> {
    let all = job.get(&PAIR_CODES)?.all()?;
    let response = |(index, pair): (usize, &Pair)| {
        if index % CHECK_PAIRS == 0 {
            job.check()?;
        }
        let set = |concept: Option<Concept>| match concept {
            Some(concept) => sets
                .get(concept.0 as usize)
                .map(Vec::as_slice)
                .ok_or_else(|| Error::Bug(format!("a pair names concept {} of {}", concept.0, sets.len()))),
            None => Ok(&[][..]),
        };
        let (adding, removing) = (set(pair.added)?, set(pair.removed)?);
        let change = |concept: Option<Concept>, own: &[Latent], other: &[Latent]| {
            let own = own_latents(own, other, job.profile);
            let fires = |row: usize| fires(&all, row, &own, above);
            concept.map(|concept| Change {
                concept: concept.0 as usize,
                before: fires(pair.before),
                after: fires(pair.after),
                empty: own.is_empty(),
            })
        };
        Ok(Response {
            added: change(pair.added, adding, removing),
            removed: change(pair.removed, removing, adding),
            shared: adding.iter().any(|latent| removing.contains(latent)),
            lost: is_lost(pair, sets, job.profile),
        })
    };
    job.get(&PAIRS)?.pairs.iter().enumerate().map(response).collect()
}
