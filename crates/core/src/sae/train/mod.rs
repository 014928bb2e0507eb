//! Training. [`Trainer`] takes optimisation steps on batches; [`train`] trains several dictionaries in one pass over a
//! store, writes a log, and resumes if interrupted; [`train_stream`] does the same with rows that are computed meanwhile.

mod archetypes;
mod aside;
mod auxiliary;
mod backward;
mod columns;
mod files;
mod forward;
mod input_scale;
mod job;
mod log;
mod median;
#[cfg(test)]
mod numbers;
mod objective;
mod order;
mod prepare;
mod pursuit_gradient;
mod record;
mod row_stream;
mod run;
mod settings;
mod settings_json;
mod shuffle_buffer;
mod trainer;
mod weights;

pub use super::preset::Preset;
pub use aside::ThresholdRows;
pub use job::{Early, TrainJob, TrainOptions, Trained, steps_of_epochs};
pub use log::{Line, Log, NetworkSpeed};
pub use objective::{Batch, Form, LatentBackward, Mixtures, Objective, Radius, Row, Rules, Scalar, Selection, Terms};
pub use order::Order;
pub use record::{Point, Record};
pub use row_stream::{RowStream, StreamPosition, StreamWork};
pub use run::{train, train_stream};
pub use settings::{AuxiliaryRule, Constraint, NewObjective, TrainingSettings};
pub use trainer::{Step, Trainer};
