//! Undoes what other programs change when they convert a model.

/// A change of a tensor after it is read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// Adds a number to every value.
    Add(f32),
    /// Reorders axes: the values are seen as an array of the shape `view`, whose axis `order[i]` becomes axis `i`. The
    /// result has the shape `shape`.
    Axes { view: Vec<usize>, order: Vec<usize>, shape: Vec<usize> },
}

impl Change {
    /// Swaps the two axes of a matrix; `None` if it is none.
    pub fn transpose(shape: &[usize]) -> Option<Change> {
        let &[rows, columns] = shape else { return None };
        Some(Change::Axes { view: vec![rows, columns], order: vec![1, 0], shape: vec![columns, rows] })
    }

    /// A convolution kernel of TensorFlow (height, width, inputs, outputs) in the order of torch (outputs, inputs,
    /// height, width); `None` if it is none.
    pub fn kernel(shape: &[usize]) -> Option<Change> {
        let &[height, width, inputs, outputs] = shape else { return None };
        let order = vec![3, 2, 0, 1];
        Some(Change::Axes { view: shape.to_vec(), order, shape: vec![outputs, inputs, height, width] })
    }

    /// The rows of a query or key matrix, for the rotation of `transformers`, which pairs dimension i of a head with
    /// dimension i + half. Programs that rotate neighbours store these two next to each other.
    pub fn pairs_to_halves(shape: &[usize], heads: usize) -> Option<Change> {
        let (&rows, inner) = shape.split_first()?;
        let half = parts(rows, heads.checked_mul(2)?)?;
        let view = vec![heads, half, 2, inner.iter().product()];
        Some(Change::Axes { view, order: vec![0, 2, 1, 3], shape: shape.to_vec() })
    }

    /// The rows of a fused matrix of queries, keys and values: all queries, all keys, all values become query, key and
    /// value of the first head, of the second head, and so on.
    pub fn heads_first(shape: &[usize], heads: usize) -> Option<Change> {
        let (&rows, inner) = shape.split_first()?;
        let width = parts(rows, heads.checked_mul(3)?)?;
        let view = vec![3, heads, width, inner.iter().product()];
        Some(Change::Axes { view, order: vec![1, 0, 2, 3], shape: shape.to_vec() })
    }

    /// The shape of a changed tensor.
    pub fn shape(&self, shape: &[usize]) -> Vec<usize> {
        match self {
            Change::Axes { shape, .. } => shape.clone(),
            Change::None | Change::Add(_) => shape.to_vec(),
        }
    }

    /// True if the values are copied.
    pub fn copies(&self) -> bool {
        matches!(self, Change::Axes { .. })
    }

    /// The changed values.
    pub fn apply(&self, mut values: Vec<f32>) -> Vec<f32> {
        match self {
            Change::None => values,
            Change::Add(number) => {
                values.iter_mut().for_each(|value| *value += number);
                values
            }
            Change::Axes { view, order, .. } => reorder(&values, view, order),
        }
    }
}

/// The size of each of `count` equal parts.
fn parts(size: usize, count: usize) -> Option<usize> {
    (count > 0 && size.is_multiple_of(count)).then(|| size / count)
}

/// The values of an array in the order in which the axes `order` are its first, second, ... axis.
fn reorder(values: &[f32], view: &[usize], order: &[usize]) -> Vec<f32> {
    let mut strides = vec![1; view.len()];
    for axis in (1..view.len()).rev() {
        strides[axis - 1] = strides[axis] * view[axis];
    }
    let axes: Vec<(usize, usize)> = order.iter().map(|&axis| (view[axis], strides[axis])).collect();
    let mut out = Vec::with_capacity(values.len());
    if !view.contains(&0) {
        copy(values, &axes, &mut out);
    }
    out
}

/// Appends an array of the given sizes and strides.
fn copy(values: &[f32], axes: &[(usize, usize)], out: &mut Vec<f32>) {
    match *axes {
        [] => out.extend(values.first()),
        [(size, 1)] => out.extend(&values[..size]),
        [(size, stride), ref inner @ ..] => (0..size).for_each(|index| copy(&values[index * stride..], inner, out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(length: usize) -> Vec<f32> {
        (0..length).map(|value| value as f32).collect()
    }

    #[test]
    fn matrices_are_transposed() {
        let change = Change::transpose(&[2, 3]).unwrap();
        assert_eq!(change.shape(&[2, 3]), [3, 2]);
        assert_eq!(change.apply(counted(6)), [0., 3., 1., 4., 2., 5.]);
        assert_eq!(Change::transpose(&[6]), None);
        assert_eq!(Change::transpose(&[0, 2]).unwrap().apply(Vec::new()), [0f32; 0]);
    }

    #[test]
    fn kernels_get_outputs_and_inputs_first() {
        // Height 1, width 2, inputs 2, outputs 3: value (0, x, i, o) is at 6x + 3i + o.
        let change = Change::kernel(&[1, 2, 2, 3]).unwrap();
        assert_eq!(change.shape(&[1, 2, 2, 3]), [3, 2, 1, 2]);
        assert_eq!(change.apply(counted(12)), [0., 6., 3., 9., 1., 7., 4., 10., 2., 8., 5., 11.]);
        assert_eq!(Change::kernel(&[3, 3]), None);
    }

    #[test]
    fn neighbours_become_halves() {
        // Two heads of 4 rows with one column. Stored pairs (0, 1), (2, 3): the first halves are rows 0 and 2.
        let change = Change::pairs_to_halves(&[8, 1], 2).unwrap();
        assert_eq!(change.apply(counted(8)), [0., 2., 1., 3., 4., 6., 5., 7.]);
        // A bias has no columns.
        assert_eq!(Change::pairs_to_halves(&[4], 1).unwrap().apply(counted(4)), [0., 2., 1., 3.]);
        assert_eq!((Change::pairs_to_halves(&[6, 1], 2), Change::pairs_to_halves(&[4, 1], 0)), (None, None));
        assert_eq!(Change::pairs_to_halves(&[4], usize::MAX), None);
    }

    #[test]
    fn neighbours_become_halves_as_llama_cpp_stores_them() {
        // llama.cpp: reshape(heads, 2, rows / heads / 2, columns), then swap axes 1 and 2.
        let (heads, half, columns) = (3, 2, 5);
        let original = counted(heads * 2 * half * columns);
        let stored = reorder(&original, &[heads, 2, half, columns], &[0, 2, 1, 3]);
        let change = Change::pairs_to_halves(&[heads * 2 * half, columns], heads).unwrap();
        assert_ne!(stored, original);
        assert_eq!(change.apply(stored), original);
    }

    #[test]
    fn queries_keys_and_values_are_grouped_by_head() {
        // Two heads of width 1: q0 q1 k0 k1 v0 v1 becomes q0 k0 v0 q1 k1 v1.
        assert_eq!(Change::heads_first(&[6], 2).unwrap().apply(counted(6)), [0., 2., 4., 1., 3., 5.]);
        let change = Change::heads_first(&[6, 2], 1).unwrap();
        assert_eq!((change.shape(&[6, 2]), change.apply(counted(12))), (vec![6, 2], counted(12)));
        assert_eq!(Change::heads_first(&[8], 2), None);
    }

    #[test]
    fn a_number_is_added() {
        assert_eq!(Change::Add(-1.0).apply(vec![1.5, 1.0]), [0.5, 0.0]);
        assert_eq!(Change::None.apply(vec![7.0]), [7.0]);
    }
}
