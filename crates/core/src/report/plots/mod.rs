//! The figures of a report, and the columns that they show.

mod agreement;
mod columns;
mod concepts;
mod curves;
mod latents;
mod matrices;
mod sanity;
mod steps;
mod strategies;
mod trends;

pub use columns::{concept_table, label, label_column, score_column};

use std::collections::BTreeSet;

use super::figure::{COLOURS, Figure};
use super::gather::Gathered;

/// All figures of a report.
pub struct Album {
    /// Every measure on every input set.
    pub sanity: Vec<Figure>,
    /// The caption of the sanity figure.
    pub sanity_caption: String,
    /// By measure: concepts, latents, strategies, steps, matrices and curves.
    pub measures: Vec<Vec<Figure>>,
    /// Measures against a varying number, such as the number of latents; by name of that number.
    pub trends: Vec<(String, Vec<Figure>)>,
    /// Measures against each other.
    pub agreement: Vec<Figure>,
}

impl Album {
    /// Draws all figures for which there are enough data.
    pub fn of(gathered: &Gathered<'_>) -> Album {
        let measure = |measure: usize| {
            let mut figures: Vec<Figure> = concepts::draw(gathered, measure).into_iter().collect();
            figures.extend(latents::draw(gathered, measure));
            figures.extend(strategies::draw(gathered, measure));
            figures.extend(steps::draw(gathered, measure));
            figures.extend(matrices::draw(gathered, measure));
            figures.extend(curves::draw(gathered, measure));
            figures
        };
        let mut album = Album {
            sanity: sanity::draw(gathered),
            sanity_caption: sanity::caption(gathered),
            measures: (0..gathered.measures.len()).map(measure).collect(),
            trends: trends::draw(gathered),
            agreement: agreement::draw(gathered),
        };
        album.make_names_unique();
        album
    }

    /// Makes file names unique: different names of metrics may have the same slug.
    fn make_names_unique(&mut self) {
        let trends = self.trends.iter_mut().flat_map(|(_, figures)| figures);
        let all = self.sanity.iter_mut().chain(trends).chain(&mut self.agreement);
        let mut taken = BTreeSet::new();
        for figure in all.chain(self.measures.iter_mut().flatten()) {
            let base = figure.name.clone();
            let mut count = 2;
            while !taken.insert(figure.name.clone()) {
                figure.name = format!("{base}-{count}");
                count += 1;
            }
        }
    }

    /// Every figure, in the order of the page.
    pub fn all(&self) -> impl Iterator<Item = &Figure> {
        let trends = self.trends.iter().flat_map(|(_, figures)| figures);
        self.sanity.iter().chain(trends).chain(&self.agreement).chain(self.measures.iter().flatten())
    }
}

/// The measured input sets, at most as many as there are colours, baselines included; sets with a fixed colour
/// where there are some.
pub fn shown(gathered: &Gathered<'_>, measure: usize) -> Vec<usize> {
    let measured = |set: &usize| !gathered.runs(measure, *set).is_empty();
    let all: Vec<usize> = (0..gathered.sets.len()).filter(measured).collect();
    let coloured = gathered.choose(0..gathered.sets.len(), COLOURS.len());
    let shown: Vec<usize> = coloured.into_iter().filter(measured).collect();
    if shown.len() > 1 { shown } else { gathered.choose(all, COLOURS.len()) }
}
