//! All roles. To add one, write a `static` with its loader and list it in [`ROLES`]: the option, the study key, its
//! help, the checks, `job.get(&ROLE)` and `rows.get(&ROLE)` follow from it.

use std::sync::Arc;

use super::artefact::{Checkpoint, Generated, Samples, Truth, WorldDirectory};
use super::distances::DistanceMatrix;
use super::loaders;
use super::prompts::Prompts;
use super::responses::Responses;
use super::role::Axis::{Concepts, Free, Latents, PairRows, Rows, SourceRows, Width};
use super::role::Many::{Named, One, Several};
use super::role::{AnyRole, Role};
use super::token_texts::TokenSource;
use super::unit_activations::{ImageSimilarity, UnitActivations};
use super::units::Units;
use crate::codes::{Codes, Pool};
use crate::labels::{Annotations, EntitySet, Factors, PairSet};
use crate::network::{Judge, TextRun};
use crate::sae::Dictionary;
use crate::sae::train::Record;
use crate::store::ActivationStore;

/// Codes under test.
pub static CODES: Role<Codes> = Role::new(
    [
        "codes",
        "codes",
        "FILE",
        "Codes of the rows: an array, a SciPy sparse matrix, or a directory of codes or activations",
    ],
    One,
    &[Rows, Latents],
    loaders::codes,
);

/// A dictionary that encodes the embeddings.
pub static SAE: Role<Checkpoint> = Role::new(
    ["sae", "sae", "PATH", "Dictionary that encodes the embeddings, instead of codes"],
    One,
    &[Latents, Width],
    loaders::checkpoint,
)
.serves(&[&CODES]);

/// Embeddings of the rows.
pub static EMBEDDINGS: Role<ActivationStore> = Role::new(
    ["embeddings", "embeddings", "FILE", "Embeddings of the rows: an array or a store"],
    One,
    &[Rows, Width],
    loaders::embeddings,
)
.alias("store")
.serves(&[&CODES]);

/// Concept annotations of the rows.
pub static LABELS: Role<Annotations> = Role::new(
    ["labels", "labels", "FILE", "Concepts of the rows: a table with a column per concept, or an array of 0, 1 and -1"],
    One,
    &[Rows, Concepts],
    loaders::labels,
);

/// Concepts with any number of classes.
pub static FACTORS: Role<Factors> = Role::new(
    ["factors", "factors", "FILE", "Concepts with more than two classes: a table or array of class numbers from 0"],
    One,
    &[Rows, Free],
    loaders::factors,
)
.serves(&[&LABELS]);

/// The class of every row in a downstream task.
pub static TASK_LABELS: Role<Factors> = Role::new(
    ["task_labels", "task-labels", "FILE", "Class of every row in a downstream task: a table or array with one column"],
    One,
    &[Rows, Free],
    loaders::task_labels,
);

/// Codes of the rows that pairs point into.
pub static PAIR_CODES: Role<Codes> = Role::new(
    ["pair_codes", "pair-codes", "FILE", "Codes of the rows that the pairs point into"],
    One,
    &[PairRows, Latents],
    loaders::codes,
)
.serves(&[&PAIRS]);

/// Embeddings of the rows that pairs point into.
pub static PAIR_EMBEDDINGS: Role<ActivationStore> = Role::new(
    ["pair_embeddings", "pair-embeddings", "FILE", "Embeddings of the rows that the pairs point into"],
    One,
    &[PairRows, Width],
    loaders::activations,
)
.alias("pair-store")
.serves(&[&PAIRS]);

/// Concept annotations of the rows that pairs point into.
pub static PAIR_LABELS: Role<Annotations> = Role::new(
    ["pair_labels", "pair-labels", "FILE", "Concepts of the rows that the pairs point into"],
    One,
    &[PairRows, Concepts],
    loaders::labels,
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
    loaders::pairs,
)
.with(&[&PAIR_CODES]);

/// Codes of untrained dictionaries.
pub static NULLS: Role<Codes> = Role::new(
    ["nulls", "null", "PATH", "Untrained dictionary (a directory), or its codes on the same rows; repeat for several"],
    Several,
    &[Rows, Free],
    loaders::nulls,
);

/// One direction per latent.
pub static DIRECTIONS: Role<ActivationStore> = Role::new(
    [
        "directions",
        "directions",
        "PATH",
        "One direction per latent, in the space of the embeddings: an array or a dictionary",
    ],
    One,
    &[Latents, Width],
    loaders::directions,
);

/// Directions of dictionaries that were trained with other seeds.
pub static OTHERS: Role<ActivationStore> = Role::new(
    ["others", "other", "PATH", "Dictionary trained with another seed, or its directions; repeat for several"],
    Several,
    &[Free, Width],
    loaders::directions,
);

/// The true features of a world.
pub static TRUTH: Role<Truth> =
    Role::new(["truth", "truth", "DIR", "World whose true features are compared"], One, &[Rows], loaders::truth);

/// A world that fills the roles that have no other value.
pub static WORLD: Role<WorldDirectory> = Role::new(
    ["world", "world", "DIR", "World that provides every input not given otherwise"],
    One,
    &[],
    loaders::world,
)
.serves(&[&CODES]);

/// The sample of every row.
pub static SAMPLES: Role<Samples> = Role::new(
    ["samples", "samples", "FILE", "Sample of every row, where rows are tokens and the embeddings do not store it"],
    One,
    &[Free],
    loaders::samples,
)
.serves(&[&CODES]);

/// How the rows of a sample are pooled.
pub static POOLING: Role<Pool> = Role::new(
    ["pooling", "pool", "HOW", "How the rows of a sample become one: max, mean, sum or cls"],
    One,
    &[],
    loaders::pooling,
)
.serves(&[&CODES]);

/// Generators, whose rows are compared with the real ones.
pub static GENERATED: Role<Generated> = Role::new(
    [
        "models",
        "generated",
        "NAME=PATH",
        "Generator and its codes for the prompts of the rows, or its activations with a dictionary; repeat for several",
    ],
    Named,
    &[SourceRows, Latents],
    loaders::generated,
)
.with(&[&POOLING]);

/// Model, layer, type, depth and width of every unit.
pub static UNITS: Role<Units> = Role::new(
    [
        "units",
        "units",
        "FILE",
        "What is known about each unit: a table with layer, model, type, depth, width, channel, epoch, accuracy",
    ],
    One,
    &[Latents],
    loaders::units,
);

/// Answers of people to two-choice tasks.
pub static RESPONSES: Role<Responses> = Role::new(
    ["responses", "responses", "FILE", "Answers of people: a table of trials, or the JSON of jsPsych or JATOS"],
    One,
    &[Free],
    loaders::responses,
);

/// Vectors that say which images look alike.
pub static SIMILARITY: Role<ActivationStore> = Role::new(
    ["similarity", "similarity", "FILE", "Vectors of the rows that say which of them look alike: an array or a store"],
    One,
    // One per image also where the rows are positions that will be pooled, so that they are compared later.
    &[Free, Free],
    loaders::activations,
);

/// Distances of all pairs of images.
pub static DISTANCES: Role<DistanceMatrix> = Role::new(
    ["distances", "distances", "FILE", "Distances of all pairs of rows: a square array, instead of vectors"],
    One,
    &[Free],
    loaders::distances,
);

/// Vectors of images that were made to explain units.
pub static VISUALISATIONS: Role<ActivationStore> = Role::new(
    [
        "visualisations",
        "visualisations",
        "FILE",
        "Vectors of feature visualisations: of every unit those that minimise it, then those that maximise it",
    ],
    One,
    &[Free, Free],
    loaders::activations,
);

/// A language model with the sequences that it is run on.
pub static NETWORK: Role<TextRun> = Role::new(
    [
        "network",
        "capture",
        "DIR[:SITE]",
        "Capture of a language model, which is run again with the dictionary at the site of the activations",
    ],
    One,
    &[],
    loaders::network,
);

/// The texts of the tokens behind the rows.
pub static TOKENS: Role<TokenSource> = Role::new(
    [
        "tokens",
        "tokens",
        "FILE",
        "Texts of the tokens behind the rows: `rows.jsonl` of a capture, or lines with a list `words`; those of the capture \
         unless given",
    ],
    One,
    &[],
    loaders::tokens,
);

/// Language models that answer questions about texts.
pub static JUDGES: Role<Arc<dyn Judge>> = Role::new(
    [
        "judges",
        "judge",
        "MODEL",
        "Judge: a language model, a server (http://HOST:PORT/v1#MODEL), or recorded answers (a .jsonl file, or a directory of \
         answers); repeat for several",
    ],
    Several,
    &[],
    loaders::judge,
);

/// What judges are asked, in other words.
pub static PROMPTS: Role<Prompts> = Role::new(
    ["prompts", "prompt", "FILE", "Questions to judges in other words: a text file with a section per question"],
    One,
    &[],
    loaders::prompts,
);

/// Entities with attributes and prompts that ask for them.
pub static ENTITIES: Role<EntitySet> = Role::new(
    [
        "entities",
        "entities",
        "DIR",
        "Entities with attributes and prompts about them: a directory with the files of RAVEL, or a packaged name such as \
         countries",
    ],
    One,
    &[],
    loaders::entities,
);

/// The dictionary that encoded the codes.
pub static DICTIONARY: Role<Arc<dyn Dictionary>> =
    Role::derived("dictionary", "sae", "Dictionary that made the codes", &[Latents, Width]);

/// The training record of the dictionary.
pub static TRAINING: Role<Record> = Role::derived("training", "sae", "Record of the dictionary's training", &[]);

/// The activations of units.
pub static UNIT_ACTIVATIONS: Role<UnitActivations> =
    Role::derived("unit_activations", "codes", "Activations of the units: codes, or embeddings", &[Rows]);

/// Which images look alike.
pub static IMAGE_SIMILARITY: Role<ImageSimilarity> =
    Role::derived("image_similarity", "similarity", "Which rows look alike: vectors or distances", &[Free]);

/// All roles, in the order in which they are loaded: a loader can use those before it, see [`super::Loading`].
pub static ROLES: &[&dyn AnyRole] = &[
    &WORLD,
    &CODES,
    &SAE,
    &EMBEDDINGS,
    &LABELS,
    &FACTORS,
    &TASK_LABELS,
    &PAIR_CODES,
    &PAIR_EMBEDDINGS,
    &PAIR_LABELS,
    &PAIRS,
    &NULLS,
    &DIRECTIONS,
    &OTHERS,
    &TRUTH,
    &UNITS,
    &RESPONSES,
    &SIMILARITY,
    &DISTANCES,
    &VISUALISATIONS,
    &SAMPLES,
    &POOLING,
    &GENERATED,
    &NETWORK,
    &TOKENS,
    &JUDGES,
    &PROMPTS,
    &ENTITIES,
    &DICTIONARY,
    &TRAINING,
    &UNIT_ACTIVATIONS,
    &IMAGE_SIMILARITY,
];

/// The role that users fill under a key.
pub fn find_role(key: &str) -> Option<&'static dyn AnyRole> {
    ROLES.iter().copied().find(|role| role.is_given() && role.card().key == key)
}
