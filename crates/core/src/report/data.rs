//! Results by data set. Results on different data are never compared: each data set has its own tables and page.

use super::words::{natural, slug, tidy};
use crate::results::Stored;

/// The results on one data set.
pub struct OnData<'a> {
    /// The name of the data set; empty if it has none.
    pub name: String,
    /// The name of its page and of its folder of figures.
    pub slug: String,
    /// The results.
    pub results: Vec<&'a Stored>,
}

/// Groups results by the field `data` of their metadata, in the order of names.
pub fn by_data(results: &[Stored]) -> Vec<OnData<'_>> {
    let mut parts: Vec<OnData<'_>> = Vec::new();
    for stored in results {
        let name = stored.about.get("data").and_then(|value| value.as_str()).map(tidy).unwrap_or_default();
        match parts.iter_mut().find(|part| part.name == name) {
            Some(part) => part.results.push(stored),
            None => parts.push(OnData { slug: slug(&name), name, results: vec![stored] }),
        }
    }
    parts.sort_by(|a, b| natural(&a.name, &b.name).then_with(|| a.name.cmp(&b.name)));
    // Different names may have the same slug.
    for index in 1..parts.len() {
        if parts[..index].iter().any(|part| part.slug == parts[index].slug) {
            parts[index].slug = format!("{}-{index}", parts[index].slug);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::results::{Metadata, Profile, Recipe, ResultFile, Scores};

    #[test]
    fn every_data_set_has_its_own_page() {
        let stored = |data: &str| {
            let recipe = Recipe {
                metric: "match".into(),
                version: 1,
                profile: Profile::Paper,
                seed: 0,
                params: BTreeMap::new(),
                inputs: BTreeMap::new(),
            };
            let result = ResultFile { etalon: "0".into(), recipe, scores: Scores::default(), seconds: 0.0 };
            Stored::new(result, Metadata::from([("data".into(), json!(data))])).unwrap()
        };
        let results = ["b", "a!", "b", "a?"].map(stored);
        let parts = by_data(&results);
        let names: Vec<(&str, usize)> = parts.iter().map(|part| (part.name.as_str(), part.results.len())).collect();
        assert_eq!(names, [("a!", 1), ("a?", 1), ("b", 2)]);
        assert_ne!(parts[0].slug, parts[1].slug);
    }
}
