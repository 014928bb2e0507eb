//! Training. [`Trainer`] takes optimisation steps on batches; [`train`] trains several dictionaries in one pass over a
//! store, writes a log, and resumes if interrupted.

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
mod objective;
mod order;
mod prepare;
mod pursuit_gradient;
mod record;
mod run;
mod settings;
mod settings_json;
mod trainer;
mod weights;

pub use super::preset::Preset;
pub use aside::ThresholdRows;
pub use job::{Early, TrainJob, TrainOptions, Trained, steps_of_epochs};
pub use log::{Line, Log};
pub use objective::{Batch, Form, LatentBackward, Mixtures, Objective, Radius, Row, Rules, Scalar, Selection, Terms};
pub use order::Order;
pub use record::{Point, Record};
pub use run::train;
pub use settings::{AuxiliaryRule, Constraint, NewObjective, TrainingSettings};
pub use trainer::{Step, Trainer};
