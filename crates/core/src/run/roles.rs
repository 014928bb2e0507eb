//! All inputs. To add one: a `static`, its name in [`ROLES`] and a loader; options, study keys, help, checks,
//! `job.get(&ROLE)` and `rows.get(&ROLE)` follow.

use std::sync::Arc;

use super::artefact::{Checkpoint, Generated, Samples, Truth, WorldDirectory};
use super::read;
use super::role::Axis::{Concepts, Free, Latents, PairRows, Rows, SourceRows, Width};
use super::role::Many::{Named, One, Several};
use super::role::{AnyRole, Role};
use super::units::Units;
use crate::codes::{Codes, Pool};
use crate::labels::{Annotations, PairSet};
use crate::sae::Dictionary;
use crate::sae::train::Record;
use crate::store::ActivationStore;

/// Codes under test.
pub static CODES: Role<Codes> = Role::new(
    ["codes", "codes", "FILE", "Codes of the rows: an array, a SciPy sparse matrix, or a directory of codes"],
    One,
    &[Rows, Latents],
    read::codes,
);

/// A dictionary that makes the codes from the embeddings.
pub static SAE: Role<Checkpoint> = Role::new(
    ["sae", "sae", "PATH", "Dictionary that encodes the embeddings, instead of codes"],
    One,
    &[Latents, Width],
    read::checkpoint,
);

/// Embeddings of the rows.
pub static EMBEDDINGS: Role<ActivationStore> = Role::new(
    ["embeddings", "embeddings", "FILE", "Embeddings of the rows: an array or a store"],
    One,
    &[Rows, Width],
    read::embeddings,
)
.alias("store");

/// Concept annotations of the rows.
pub static LABELS: Role<Annotations> = Role::new(
    ["labels", "labels", "FILE", "Concepts of the rows: a table with a column per concept, or an array of 0, 1 and -1"],
    One,
    &[Rows, Concepts],
    read::labels,
);

/// Codes of the rows that pairs point into.
pub static PAIR_CODES: Role<Codes> = Role::new(
    ["pair_codes", "pair-codes", "FILE", "Codes of the rows that the pairs point into"],
    One,
    &[PairRows, Latents],
    read::codes,
);

/// Embeddings of the rows that pairs point into.
pub static PAIR_EMBEDDINGS: Role<ActivationStore> = Role::new(
    ["pair_embeddings", "pair-embeddings", "FILE", "Embeddings of the rows that the pairs point into"],
    One,
    &[PairRows, Width],
    read::activations,
)
.alias("pair-store");

/// Concept annotations of the rows that pairs point into.
pub static PAIR_LABELS: Role<Annotations> = Role::new(
    ["pair_labels", "pair-labels", "FILE", "Concepts of the rows that the pairs point into"],
    One,
    &[PairRows, Concepts],
    read::labels,
);

/// Pairs of rows that differ in one attribute.
pub static PAIRS: Role<PairSet> = Role::new(
    [
        "pairs",
        "pairs",
        "FILE",
        "Pairs of rows that differ in one attribute: a table with before, after, added, removed",
    ],
    One,
    &[Free],
    read::pairs,
)
.with(&[&PAIR_CODES]);

/// Codes of untrained dictionaries.
pub static NULLS: Role<Codes> = Role::new(
    ["nulls", "null", "FILE", "Codes of an untrained dictionary on the same rows; repeat for several"],
    Several,
    &[Rows, Free],
    read::codes,
);

/// One direction per latent.
pub static DIRECTIONS: Role<ActivationStore> = Role::new(
    ["directions", "directions", "FILE", "One direction per latent, in the space of the embeddings"],
    One,
    &[Latents, Width],
    read::activations,
);

/// Directions of dictionaries that were trained with other seeds.
pub static OTHERS: Role<ActivationStore> = Role::new(
    ["others", "other", "PATH", "Dictionary trained with another seed, or its directions; repeat for several"],
    Several,
    &[Free, Width],
    read::directions,
);

/// The true features of a world.
pub static TRUTH: Role<Truth> =
    Role::new(["truth", "truth", "DIR", "World whose true features are compared"], One, &[Rows], read::truth);

/// A world, for everything it has that is not given otherwise.
pub static WORLD: Role<WorldDirectory> =
    Role::new(["world", "world", "DIR", "World that provides every input not given otherwise"], One, &[], read::world);

/// The sample of every row.
pub static SAMPLES: Role<Samples> = Role::new(
    ["samples", "samples", "FILE", "Sample of every row, where rows are tokens and the embeddings do not say it"],
    One,
    &[Free],
    read::samples,
);

/// How the rows of a sample become one.
pub static POOLING: Role<Pool> = Role::new(
    ["pooling", "pool", "HOW", "How the rows of a sample become one: max, mean, sum or cls"],
    One,
    &[],
    read::pooling,
);

/// Generators that are compared with the rows.
pub static GENERATED: Role<Generated> = Role::new(
    [
        "models",
        "generated",
        "NAME=PATH",
        "Generator and its codes for the prompts of the rows, or its activations with a dictionary; repeat for several",
    ],
    Named,
    &[SourceRows, Latents],
    read::generated,
)
.with(&[&POOLING]);

/// What is known about every unit: model, layer, type, depth, width.
pub static UNITS: Role<Units> = Role::new(
    ["units", "units", "FILE", "What is known about each unit: a table with model, layer, type, depth, width"],
    One,
    &[Latents],
    read::units,
);

/// The dictionary that made the codes.
pub static DICTIONARY: Role<Arc<dyn Dictionary>> =
    Role::derived("dictionary", "sae", "Dictionary that made the codes", &[Latents, Width]);

/// How the dictionary was trained.
pub static TRAINING: Role<Record> = Role::derived("training", "sae", "Record of the dictionary's training", &[]);

/// All roles, in the order in which they are loaded.
pub static ROLES: &[&dyn AnyRole] = &[
    &WORLD,
    &CODES,
    &SAE,
    &EMBEDDINGS,
    &LABELS,
    &PAIR_CODES,
    &PAIR_EMBEDDINGS,
    &PAIR_LABELS,
    &PAIRS,
    &NULLS,
    &DIRECTIONS,
    &OTHERS,
    &TRUTH,
    &UNITS,
    &SAMPLES,
    &POOLING,
    &GENERATED,
    &DICTIONARY,
    &TRAINING,
];

/// The role that users give under a key.
pub fn find_role(key: &str) -> Option<&'static dyn AnyRole> {
    ROLES.iter().copied().find(|role| role.is_given() && role.card().key == key)
}
