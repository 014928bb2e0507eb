//! Which concepts all models suppress or exaggerate, and which only one does.

use super::concept::{Class, Concept, Rules, delta};
use super::measured::Measured;
use crate::results::{Cells, Table};

/// Concepts by the models that have them in a class. Arrays are by class: suppressed, then exaggerated.
pub(super) struct ClassSets {
    /// By model, the concepts that it alone has.
    pub unique: [Vec<Vec<usize>>; 2],
    pub universal: [Vec<usize>; 2],
    /// How many concepts exactly j models have, j from 0.
    by_models: [Vec<usize>; 2],
    pub live: usize,
}

impl ClassSets {
    pub fn new(measured: &Measured) -> ClassSets {
        let models = measured.models.len();
        let mut sets = ClassSets {
            unique: [vec![Vec::new(); models], vec![Vec::new(); models]],
            universal: [Vec::new(), Vec::new()],
            by_models: [vec![0; models + 1], vec![0; models + 1]],
            live: measured.live(),
        };
        for latent in 0..measured.latents {
            let concepts: Vec<Option<&Concept>> = measured.models.iter().map(|model| model[latent].as_ref()).collect();
            if concepts.iter().all(Option::is_none) {
                continue;
            }
            for (index, class) in [Class::Suppressed, Class::Exaggerated].into_iter().enumerate() {
                let has = |concept: &Option<&Concept>| concept.is_some_and(|c| c.class(&measured.rules) == class);
                let having = concepts.iter().filter(|concept| has(concept)).count();
                sets.by_models[index][having] += 1;
                if having == models {
                    sets.universal[index].push(latent);
                }
                if let (1, Some(model)) = (having, concepts.iter().position(has)) {
                    let clear = |other: usize| other == model || is_clear(concepts[other], class, &measured.rules);
                    if (0..models).all(clear) {
                        sets.unique[index][model].push(latent);
                    }
                }
            }
        }
        sets
    }

    /// The concepts of every set.
    pub fn table(&self, names: &[String]) -> Table {
        let mut lines: Vec<(String, &str, &[usize])> = Vec::new();
        for (index, class) in ["suppressed", "exaggerated"].into_iter().enumerate() {
            lines.push((format!("universally {class}"), "", &self.universal[index]));
            let unique = names.iter().zip(&self.unique[index]);
            lines.extend(unique.map(|(model, latents)| (format!("uniquely {class}"), &**model, &**latents)));
        }
        let latents = lines.iter().map(|line| line.2.iter().map(|&latent| latent as i64).collect()).collect();
        Table::new("set")
            .words("set", lines.iter().map(|line| &*line.0))
            .words("model", lines.iter().map(|line| line.1))
            .with("latents", Cells::WholeLists(latents))
    }

    /// By number of models j, how many concepts exactly j models have.
    pub fn shared_table(&self) -> Table {
        let [suppressed, exaggerated] = &self.by_models;
        Table::new("shared")
            .counts("models", 0..suppressed.len())
            .counts("suppressed", suppressed.iter().copied())
            .counts("exaggerated", exaggerated.iter().copied())
    }
}

/// Whether the whole interval of δ is on the other side of the threshold of a class. A dead concept is: its δ is ½.
fn is_clear(concept: Option<&Concept>, class: Class, rules: &Rules) -> bool {
    let Some(concept) = concept else { return true };
    concept.interval().is_some_and(|interval| match class {
        Class::Suppressed => delta(interval.low, rules.temperature) >= rules.suppressed_below,
        _ => delta(interval.high, rules.temperature) <= rules.exaggerated_above,
    })
}
