//! `training`: the training curves that a dictionary recorded.

use super::{Better, Card, Metric, Output};
use crate::error::Result;
use crate::results::{Scores, Table};
use crate::run::{Job, TRAINING, Work};

/// The record of a training.
pub struct Training;

static CARD: Card = Card {
    name: "training",
    title: "Training",
    summary: "Training curves of a dictionary: loss, explained variance, active and dead latents by step.",
    version: 1,
    measures: "A dictionary that was not trained to convergence, or that has many dead latents, scores below what its \
        architecture can reach. The curves should be flat at the end, and few latents should be dead.",
    definition: "Training records about a hundred steps: the total loss, the explained variance \
        1 − Σ‖x − x̂‖² / Σ‖x − mean‖², the active latents per row, and the share of dead latents, all on the mini-batch of that \
        step and before its update. A latent is dead if it has not fired for `dead_after` rows of the training (a \
        training setting; 10,000,000 unless the preset says otherwise), so a training on fewer rows has no dead latents: \
        for latents that never fire on given rows see `frac_alive` of `core`. The headline numbers are those of the last recorded \
        step. The explained variance of a mini-batch without variance is undefined.",
    cost: "None: reads the record.",
    source: "Defined by Etalon; both profiles are the same.",
    interval: "None: there is one training run. Train several seeds to estimate the variation.",
    needs: &[&TRAINING],
    uses: &[],
    headline: &[
        Output::new(
            "explained_variance_end",
            "Explained variance of the last mini-batch",
            (f64::NEG_INFINITY, 1.0),
            Better::Higher,
        ),
        Output::new("l0_end", "Active latents per row in the last mini-batch", (0.0, f64::INFINITY), Better::Neither),
        Output::new(
            "dead_end",
            "Share of latents that have not fired for `dead_after` rows at the end",
            (0.0, 1.0),
            Better::Lower,
        ),
    ],
    params: &[],
};

impl Metric for Training {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, _: &mut Work<'_>) -> Result<Scores> {
        let record = job.get(&TRAINING)?;
        let (points, last) = (&record.points, record.points.last());
        let mut scores = Scores::default();
        scores.headline("explained_variance_end", last.and_then(|last| last.explained_variance), None, 1);
        scores.headline("l0_end", last.map(|last| last.l0), None, 1);
        scores.headline("dead_end", last.map(|last| last.dead), None, 1);
        if last.is_some_and(|last| last.explained_variance.is_none()) {
            scores.note("the last mini-batch has no variance: explained variance is undefined");
        }
        scores.tables.push(
            Table::new("step")
                .counts("step", points.iter().map(|point| point.step as usize))
                .numbers("loss", points.iter().map(|point| point.loss))
                .numbers("explained_variance", points.iter().map(|point| point.explained_variance))
                .numbers("l0", points.iter().map(|point| Some(point.l0)))
                .numbers("dead", points.iter().map(|point| Some(point.dead))),
        );
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::metrics::{recipe, testing};
    use crate::results::Profile;
    use crate::run::Inputs;
    use crate::sae::train::{Point, Record};

    #[test]
    fn the_last_step_is_the_headline() {
        let point = |step, variance| Point { step, loss: Some(1.5), explained_variance: variance, l0: 4.0, dead: 0.5 };
        let record = Record { points: vec![point(0, Some(0.1)), point(9, Some(0.75))] };
        let inputs = Inputs::default().with(&TRAINING, record);
        let recipe = recipe(&Training, &inputs, &BTreeMap::new(), Profile::Paper, 0).unwrap();
        assert_eq!(recipe.inputs.keys().collect::<Vec<_>>(), ["training"]);
        let scores = testing::scores(&Training, &inputs, &[], Profile::Paper, 1).unwrap();
        let values: Vec<Option<f64>> = scores.headline.iter().map(|headline| headline.value).collect();
        assert_eq!(values, [Some(0.75), Some(4.0), Some(0.5)]);
        assert_eq!(scores.table("step").unwrap().rows(), 2);
    }
}
