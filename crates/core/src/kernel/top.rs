//! The largest values of a list, with a total order: value descending, then index ascending.

use std::cmp::Ordering;

/// Larger value first; among equal values the lower index first.
pub fn by_value(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The `keep` largest values with their indices, best first. `scratch` is reused between calls.
pub fn largest(values: &[f32], keep: usize, scratch: &mut Vec<(f32, u32)>) {
    scratch.clear();
    scratch.extend(values.iter().enumerate().map(|(index, &value)| (value, index as u32)));
    truncate_to_largest(scratch, keep);
}

/// Keeps the `keep` best entries of a list, best first.
pub fn truncate_to_largest(list: &mut Vec<(f32, u32)>, keep: usize) {
    if keep == 0 {
        list.clear();
    } else if list.len() > keep {
        list.select_nth_unstable_by(keep - 1, by_value);
        list.truncate(keep);
    }
    list.sort_unstable_by(by_value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_index() {
        let mut top = Vec::new();
        largest(&[1.0, 3.0, 3.0, 2.0, 3.0], 3, &mut top);
        assert_eq!(top, [(3.0, 1), (3.0, 2), (3.0, 4)]);
        largest(&[1.0], 5, &mut top);
        assert_eq!(top, [(1.0, 0)]);
        largest(&[1.0], 0, &mut top);
        assert!(top.is_empty());
    }
}
