//! Sparse features: firing rates, groups that fire together, and directions.

use rayon::prelude::*;

use super::draw::normal;
use super::{Allowed, Setting};
use crate::context::{Context, Monitor};
use crate::error::{InputError, Key, Result};
use etalon_kernel::random::{ChaCha8Rng, permutation, stream};

/// Settings of worlds of features. Worlds choose the number of rows.
pub(super) const ROWS: Setting =
    Setting { name: "rows", doc: "Number of rows.", default: "4000", allowed: Allowed::Whole(0, u64::MAX) };
pub(super) const WIDTH: Setting =
    Setting { name: "width", doc: "Dimensions of the activations.", default: "64", allowed: Allowed::Whole(1, 65_536) };
pub(super) const FEATURES: Setting = Setting {
    name: "features",
    doc: "Number of true features.",
    default: "256",
    allowed: Allowed::Whole(1, 1_048_576),
};
pub(super) const ACTIVE: Setting = Setting {
    name: "active",
    doc: "Average number of features that fire in a row.",
    default: "8",
    allowed: Allowed::Number(0.001, 100_000.0),
};
pub(super) const POWER: Setting = Setting {
    name: "power",
    doc: "Exponent of Zipf's law, by which firing rates fall from feature to feature; 0 for equal rates.",
    default: "0.5",
    allowed: Allowed::Number(0.0, 3.0),
};
pub(super) const NOISE: Setting = Setting {
    name: "noise",
    doc: "Standard deviation of the noise in every dimension.",
    default: "0.05",
    allowed: Allowed::Number(0.0, 100.0),
};

/// Maximum number of features in a group.
const GROUP: usize = 8;
/// Maximum rate of a feature, and of a child among the rows of its parent.
const LARGEST_RATE: f64 = 0.5;
/// Exact orthogonality costs features² × width; beyond this, random directions are nearly orthogonal.
const LARGEST_ORTHOGONAL: usize = 2048;

/// The value of a feature that fires: 1 + |N(0, 0.5)|.
pub(super) fn draw_value(random: &mut ChaCha8Rng) -> f32 {
    (1.0 + (0.5 * normal(random)).abs()) as f32
}

/// Firing rates that follow the power law, respect hierarchy and bounds, and add up to `active`.
pub(super) fn rates(parent: &[Option<usize>], power: f64, active: f64) -> Result<Vec<f64>> {
    let law: Vec<f64> = (0..parent.len()).map(|feature| libm::pow(feature as f64 + 1.0, -power)).collect();
    let scaled = |scale: f64| {
        let mut rates = vec![0.0; parent.len()];
        for feature in 0..parent.len() {
            let bound = parent[feature].map_or(LARGEST_RATE, |parent| LARGEST_RATE * rates[parent]);
            rates[feature] = (scale * law[feature]).min(bound);
        }
        rates
    };
    let total = |scale: f64| scaled(scale).iter().sum::<f64>();
    // At this scale every feature has reached its bound.
    let (mut low, mut high) = (0.0, libm::pow(parent.len() as f64, power));
    let largest = total(high);
    if active > largest {
        return Err(InputError::new(format!("{} is too large for these features", Key("active")))
            .expected(format!("at most {largest:.2} with this number of features, power and hierarchy"))
            .found(active)
            .advice(format!(
                "raise {}, or lower {}, {} or {}",
                Key("features"),
                Key("active"),
                Key("power"),
                Key("hierarchy")
            ))
            .into());
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if total(middle) < active {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(scaled(high))
}

/// The threshold that a standard normal number exceeds with a given probability above 0.
pub(super) fn exceeded_at(probability: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(middle / std::f64::consts::SQRT_2) > probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The group of every feature, and the number of groups: roots in random groups, children with their siblings. Parent
/// and child are never in one group, so that grouping does not change a child's rate among the rows of its parent.
pub(super) fn groups(parent: &[Option<usize>], random: &mut ChaCha8Rng) -> (Vec<usize>, usize) {
    let mut families: Vec<Vec<usize>> = vec![Vec::new(); parent.len() + 1];
    for feature in permutation(parent.len(), random) {
        families[parent[feature].map_or(0, |parent| parent + 1)].push(feature);
    }
    let mut group = vec![0; parent.len()];
    let mut next = 0;
    for members in families.iter().flat_map(|family| family.chunks(GROUP)) {
        members.iter().for_each(|&feature| group[feature] = next);
        next += 1;
    }
    (group, next)
}

/// Unit vectors, one per feature. A child has the cosine `splitting` with its parent.
pub(super) fn directions(
    parent: &[Option<usize>],
    width: usize,
    splitting: f64,
    seed: u64,
    context: &Context,
) -> Result<Vec<f32>> {
    let features = parent.len();
    let mut drawn: Vec<f64> = (0..features)
        .into_par_iter()
        .flat_map_iter(|feature| {
            let mut random = stream(seed, "superposition/directions", feature as u64);
            let width = if context.is_cancelled() { 0 } else { width };
            let direction: Vec<f64> = (0..width).map(|_| normal(&mut random)).collect();
            direction
        })
        .collect();
    let orthogonal = features <= width && features <= LARGEST_ORTHOGONAL;
    for feature in 0..features {
        // Checked before the first use: some directions are missing after a cancellation.
        context.check()?;
        let (earlier, rest) = drawn.split_at_mut(feature * width);
        let own = &mut rest[..width];
        if orthogonal {
            earlier.chunks_exact(width).for_each(|other| subtract_projection(own, other));
        }
        scale_to_unit(own);
    }
    if splitting > 0.0 {
        for feature in 0..features {
            let Some(parent) = parent[feature] else { continue };
            context.check()?;
            let (earlier, rest) = drawn.split_at_mut(feature * width);
            let (own, other) = (&mut rest[..width], &earlier[parent * width..][..width]);
            subtract_projection(own, other);
            scale_to_unit(own);
            let rest = (1.0 - splitting * splitting).sqrt();
            own.iter_mut().zip(other).for_each(|(own, other)| *own = splitting * other + rest * *own);
            // In one dimension no orthogonal part is left; the child then has the direction of its parent.
            scale_to_unit(own);
        }
    }
    Ok(drawn.into_iter().map(|part| part as f32).collect())
}

/// Subtracts the projection on a unit vector.
fn subtract_projection(own: &mut [f64], unit: &[f64]) {
    let along: f64 = own.iter().zip(unit).map(|(a, b)| a * b).sum();
    own.iter_mut().zip(unit).for_each(|(own, unit)| *own -= along * unit);
}

fn scale_to_unit(own: &mut [f64]) {
    let length = own.iter().map(|part| part * part).sum::<f64>().sqrt();
    if length > 1e-9 {
        own.iter_mut().for_each(|part| *part /= length);
    } else {
        own.fill(0.0);
    }
}
