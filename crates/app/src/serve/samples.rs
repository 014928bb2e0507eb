//! Samples with their images, indexed by latent and by row.

use std::collections::BTreeMap;

use etalon::input::{Firing, Sample};
use etalon::samples::Gallery;
use serde_json::{Value, json};

use super::pictures::Pictures;

/// Number of co-firing latents shown per latent.
const PARTNERS: usize = 20;

/// Samples, indexed by latent and by row.
#[derive(Default)]
pub struct Samples {
    list: Vec<Sample>,
    /// By latent: sample and position among its activations, strongest first.
    firing: BTreeMap<u32, Vec<(usize, usize)>>,
    /// By row of the data: the real sample and the generated ones of its prompt.
    by_row: BTreeMap<u64, Vec<usize>>,
    /// Images by hash.
    pub pictures: Pictures,
}

impl Samples {
    pub fn new(list: Vec<Sample>, pictures: Pictures) -> Samples {
        let mut firing: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        let mut by_row: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (sample, about) in list.iter().enumerate() {
            if let Some(row) = about.row {
                by_row.entry(row).or_default().push(sample);
            }
            for (position, one) in about.activations.iter().enumerate() {
                firing.entry(one.latent).or_default().push((sample, position));
            }
        }
        let value = |&(sample, position): &(usize, usize)| list[sample].activations[position].value;
        for firing in firing.values_mut() {
            firing.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.cmp(b)));
        }
        Samples { list, firing, by_row, pictures }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The latents that fire on at least one sample.
    pub fn latents(&self) -> impl Iterator<Item = &u32> {
        self.firing.keys()
    }

    /// The rows that have samples.
    pub fn rows(&self) -> impl Iterator<Item = &u64> {
        self.by_row.keys()
    }

    /// The content hash of the codes that contain the activations.
    pub fn codes(&self) -> Option<&String> {
        self.list.iter().find_map(|sample| sample.codes.as_ref())
    }

    /// The content hash of the codes of the tokens that were pooled to [`Samples::codes`].
    pub fn token_codes(&self) -> Option<&String> {
        self.list.iter().find_map(|sample| sample.token_codes.as_ref())
    }

    /// All samples without their activations.
    pub fn all(&self) -> impl Iterator<Item = Value> {
        self.list.iter().map(|sample| self.described(sample))
    }

    /// The samples of a row, each with all its activations.
    pub fn row(&self, row: u64) -> Option<Value> {
        let whole = |&sample: &usize| {
            let about = &self.list[sample];
            let mut value = self.described(about);
            value["words"] = json!(about.words);
            value["columns"] = json!(about.columns);
            value["activations"] = json!(about.activations);
            value
        };
        self.by_row.get(&row).map(|samples| samples.iter().map(whole).collect())
    }

    /// The samples of a latent by set: the strongest, one per decile, and random ones.
    pub fn concept(&self, latent: u32) -> Option<Value> {
        let firing = self.firing.get(&latent)?;
        let mut by_set: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
        for &one in firing {
            by_set.entry(self.list[one.0].set.as_deref().unwrap_or("samples")).or_default().push(one);
        }
        let set = |(name, of): (&&str, &Vec<(usize, usize)>)| {
            // The share of all rows that fire more strongly, if known for every sample; otherwise the share of the samples.
            let stored = |rank: usize| self.firing_at(of[rank]).above.map(f64::from);
            let known = (0..of.len()).all(|rank| stored(rank).is_some());
            let share = |rank: usize| rank as f64 / of.len() as f64;
            let above = |rank: usize| stored(rank).filter(|_| known).unwrap_or_else(|| share(rank));
            let gallery = Gallery::of(latent, of.len(), above);
            let show =
                |ranks: &[usize]| ranks.iter().map(|&rank| self.shown(of[rank], above(rank))).collect::<Vec<Value>>();
            json!({
                "name": name, "fired": of.len(), "top": show(&gallery.strongest), "deciles": show(&gallery.deciles),
                "random": show(&gallery.random),
            })
        };
        let sets: Vec<Value> = by_set.iter().map(set).collect();
        // All samples on which it fires, as indices: the explorer derives the samples of a coalition from these.
        let on: Vec<usize> = firing.iter().map(|&(sample, _)| sample).collect();
        let values: Vec<f64> = firing.iter().map(|&one| self.firing_at(one).value).collect();
        Some(json!({
            "latent": latent, "fired": firing.len(), "sets": sets, "partners": self.partners(latent), "on": on, "values": values,
        }))
    }

    fn firing_at(&self, (sample, position): (usize, usize)) -> &Firing {
        &self.list[sample].activations[position]
    }

    fn described(&self, sample: &Sample) -> Value {
        json!({
            "id": sample.id, "set": sample.set, "row": sample.row, "text": sample.text, "caption": sample.caption,
            "image": self.image(sample), "concepts": sample.concepts, "unknown": sample.unknown, "boxes": sample.boxes,
        })
    }

    fn shown(&self, (sample, position): (usize, usize), above: f64) -> Value {
        let (about, firing) = (&self.list[sample], self.firing_at((sample, position)));
        json!({
            "id": about.id, "row": about.row, "value": firing.value, "text": about.text, "words": about.words,
            "caption": about.caption, "image": self.image(about), "tokens": firing.tokens, "grid": firing.grid,
            "columns": about.columns, "boxes": about.boxes, "above": above, "sample": sample,
        })
    }

    /// The hash of its image, if the image exists.
    fn image<'a>(&self, sample: &'a Sample) -> Option<&'a String> {
        sample.image.as_ref().filter(|hash| self.pictures.contains(hash))
    }

    /// Latents that fire on the same samples, by Jaccard similarity.
    fn partners(&self, latent: u32) -> Vec<Value> {
        let Some(own) = self.firing.get(&latent) else { return Vec::new() };
        let mut together: BTreeMap<u32, usize> = BTreeMap::new();
        for firing in own.iter().flat_map(|&(sample, _)| &self.list[sample].activations) {
            *together.entry(firing.latent).or_default() += 1;
        }
        let share = |(other, both): (&u32, &usize)| {
            let either = own.len() + self.firing.get(other).map_or(0, Vec::len) - both;
            (*both as f64 / either.max(1) as f64, *other, *both)
        };
        let mut partners: Vec<(f64, u32, usize)> =
            together.iter().filter(|(other, _)| **other != latent).map(share).collect();
        partners.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let partner = |&(jaccard, other, both): &(f64, u32, usize)| json!({"latent": other, "together": both, "jaccard": jaccard});
        partners.iter().take(PARTNERS).map(partner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_real_sample_and_the_generated_ones() {
        let lines = [
            r#"{"id": "a", "set": "real", "row": 7, "caption": "a bird", "activations": [{"latent": 3, "value": 2, "grid": [0, 1]}]}"#,
            r#"{"id": "b", "set": "sd", "row": 7, "activations": [{"latent": 4, "value": 1}]}"#,
            r#"{"id": "c", "activations": [{"latent": 3, "value": 1}]}"#,
        ];
        let list = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let samples = Samples::new(list, Pictures::default());
        assert_eq!(samples.rows().collect::<Vec<_>>(), [&7]);
        let row = samples.row(7).unwrap();
        assert_eq!((&row[0]["caption"], &row[1]["set"]), (&json!("a bird"), &json!("sd")));
        assert_eq!(row[0]["activations"], json!([{"latent": 3, "value": 2.0, "grid": [0, 1.0]}]));
        assert!(samples.row(8).is_none());
        let concept = samples.concept(3).unwrap();
        assert_eq!(
            (&concept["sets"][0]["top"][0]["row"], &concept["sets"][1]["top"][0]["row"]),
            (&json!(7), &json!(null))
        );
    }
}
