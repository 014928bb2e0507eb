//! Orders of choices.

/// The order that starts with choice `by`.
pub(super) fn rotation(choices: usize, by: usize) -> Vec<usize> {
    (0..choices).map(|index| (index + by) % choices).collect()
}

/// All orders, the given one first, then in lexicographic order.
pub(super) fn all(choices: usize) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..choices {
        let longer = |order: &Vec<usize>| {
            let left: Vec<usize> = (0..choices).filter(|choice| !order.contains(choice)).collect();
            let order = order.clone();
            left.into_iter().map(move |choice| [order.as_slice(), &[choice]].concat())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_three() {
        assert_eq!(all(3), [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
        assert_eq!(all(4).len(), 24);
        assert_eq!([rotation(3, 0), rotation(3, 2)], [[0, 1, 2], [2, 0, 1]]);
    }
}
