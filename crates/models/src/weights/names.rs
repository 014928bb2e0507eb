//! The name that was probably meant.

use etalon::error::closest;

/// The name that ends with the missing one or that it ends with, such as a name with another prefix; else the name that
/// differs in the fewest letters.
pub(super) fn suggestion<'a>(missing: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = names.collect();
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|prefix| prefix.ends_with('.'));
    let other_prefix = names.iter().find(|name| ends(name, missing) || ends(missing, name));
    // A name that is a third longer or shorter is never the closest: its distance is too large.
    let near = names.iter().filter(|name| name.len().abs_diff(missing.len()) <= missing.len().div_ceil(3));
    other_prefix.copied().or_else(|| closest(missing, near.copied()))
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    #[test]
    fn another_prefix_comes_before_similar_letters() {
        let names = ["h.1.ln_1.weight", "transformer.h.0.ln_1.weight", "wte.weight"];
        assert_eq!(suggestion("h.0.ln_1.weight", names.into_iter()), Some("transformer.h.0.ln_1.weight"));
        assert_eq!(suggestion("model.wte.weight", names.into_iter()), Some("wte.weight"));
        assert_eq!(suggestion("h.1.ln_2.weight", names.into_iter()), Some("h.1.ln_1.weight"));
        assert_eq!(suggestion("encoder.pooler.dense", names.into_iter()), None);
    }
}
