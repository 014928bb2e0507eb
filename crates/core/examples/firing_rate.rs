//! Firing rate: how often latents fire. The metric of CONTRIBUTING.md, complete.

use etalon::codes::Codes;
use etalon::metrics::{Better, Card, Metric, Output};
use etalon::prelude::*;
use etalon::state;

/// How often latents fire.
pub struct FiringRate;

static CARD: Card = Card {
    name: "firing_rate",
    title: "Firing rate",
    summary: "How often latents fire",
    version: 1,
    measures: "The share of rows in which a latent has a positive value.",
    definition: "rate(l) = |{i : z_il > 0}| / N; undefined without rows. Headline: the mean over latents.",
    cost: "One pass; 8 bytes per latent.",
    source: "Common practice.",
    interval: "None: all rows are counted.",
    needs: &[&CODES],
    uses: &[],
    headline: &[Output { key: "firing_rate", doc: "mean firing rate", range: (0.0, 1.0), better: Better::Neither }],
    params: &[],
};

#[derive(Serialize, Deserialize)]
struct Fired {
    latents: Count,
    rows: Count,
}

state!(Fired { latents, rows });

impl Metric for FiringRate {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let latents = job.get(&CODES)?.latents();
        let empty = || Fired { latents: Count::new(latents), rows: Count::new(1) };
        let fired = work.pass("firing rates", Over::ROWS, empty, |fired, rows| {
            for (_, latents, values) in rows.get(&CODES)?.iter() {
                let positive = latents.iter().zip(values).filter(|(_, value)| **value > 0.0);
                positive.for_each(|(&latent, _)| fired.latents.add(latent as usize, 1));
                fired.rows.add(0, 1);
            }
            Ok(())
        })?;
        let rows = fired.rows[0] as f64;
        let rates: Vec<Option<f64>> = fired.latents.iter().map(|&n| (rows > 0.0).then(|| n as f64 / rows)).collect();
        let mut scores = Scores::default();
        scores.headline_mean("firing_rate", &rates);
        scores.tables.push(Table::new("latent").numbers("rate", rates));
        Ok(scores)
    }
}

/// Evaluates it on two rows.
pub fn main() -> Result<()> {
    let inputs = Inputs::default().with(&CODES, Codes::from_dense(&[0.0, 2.0, 1.0, 3.0], 2)?);
    let recipe = recipe(&FiringRate, &inputs, &Default::default(), Profile::Paper, 0)?;
    let result = evaluate(&FiringRate, &inputs, &recipe, &Context::silent(2, 1 << 20)?)?;
    // Latent 0 fires in one of two rows, latent 1 in both.
    assert_eq!(result.scores.value("firing_rate"), Some(0.75));
    Ok(())
}
