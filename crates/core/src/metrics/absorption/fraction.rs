//! The share of a class's direction in one row that latents other than its main latents carry.

use etalon_kernel::product::dot;

/// What the latents of a row carry of the direction of a class's probe.
pub(super) struct Carried {
    main: f64,
    main_active: bool,
    others: Vec<(f64, f64)>,
}

/// The smallest code of an active main latent.
const ACTIVE: f32 = 1e-8;

impl Carried {
    /// The active latents of a row and their codes; `directions` are those of all latents, `direction` has length 1.
    pub fn of((latents, codes): (&[u32], &[f32]), main: &[u32], directions: &[f32], direction: &[f32]) -> Carried {
        let width = direction.len();
        let mut carried = Carried { main: 0.0, main_active: false, others: Vec::new() };
        for (&latent, &code) in latents.iter().zip(codes) {
            let along = &directions[latent as usize * width..][..width];
            let (product, length) = (dot(along, direction), dot(along, along).sqrt());
            let part = f64::from(code) * product;
            if main.contains(&latent) {
                carried.main += part;
                carried.main_active |= code.abs() >= ACTIVE;
            } else if length > 0.0 {
                carried.others.push((part, product / length));
            }
        }
        carried
    }

    /// The row with its projection on the direction.
    pub fn projection(&self, whole: f64) -> Projection<'_> {
        Projection { whole, main: self.main, main_active: self.main_active, others: &self.others }
    }
}

/// One row projected on the direction of its class's probe.
pub(super) struct Projection<'a> {
    /// The projection of the row.
    pub whole: f64,
    /// The part that the main latents carry.
    pub main: f64,
    /// Whether a main latent is active.
    pub main_active: bool,
    /// The other active latents, ascending: the part that each carries, and the cosine of its direction with the probe's.
    pub others: &'a [(f64, f64)],
}

/// The thresholds of a variant.
pub(super) struct Rule {
    /// Minimum cosine of other latents.
    cosine: f64,
    /// Minimum share of the whole that they carry together.
    share: f64,
    /// Maximum number of them.
    most: usize,
    /// Whether they count only up to the part that the main latents leave.
    capped: bool,
}

/// The code since March 2025.
pub(super) const CURRENT: Rule = Rule { cosine: 0.1, share: 0.4, most: 3, capped: true };
/// The paper.
pub(super) const PAPER: Rule = Rule { cosine: -1.0, share: 0.0, most: usize::MAX, capped: false };

/// Minimum cosine of a latent that fully absorbs a row.
const FULL_COSINE: f64 = 0.025;
/// Minimum share of the whole that it carries.
const FULL_SHARE: f64 = 0.4;

impl Projection<'_> {
    /// The share that others carry by a rule.
    pub fn fraction(&self, rule: &Rule) -> f64 {
        if self.main >= self.whole {
            return 0.0;
        }
        let mut carried: Vec<f64> = self
            .others
            .iter()
            .filter(|(part, cosine)| *cosine >= rule.cosine && *part > 0.0)
            .map(|(part, _)| *part)
            .collect();
        carried.sort_by(|a, b| b.total_cmp(a));
        let absorbed: f64 = carried.iter().take(rule.most).sum();
        if absorbed <= 0.0 || absorbed / self.whole < rule.share {
            return 0.0;
        }
        if self.main <= 0.0 {
            return 1.0;
        }
        let absorbed = if rule.capped { absorbed.min(self.whole - self.main) } else { absorbed };
        (absorbed / (absorbed + self.main)).clamp(0.0, 1.0)
    }

    /// The share by the code of January 2025: all latents count, also those with a negative part.
    pub fn january_fraction(&self) -> f64 {
        let total = self.main + self.others.iter().map(|(part, _)| part).sum::<f64>();
        if self.main >= self.whole || total <= 0.0 { 0.0 } else { ((total - self.main) / total).clamp(0.0, 1.0) }
    }

    /// Whether no main latent is active and one other latent carries the class.
    pub fn is_full(&self) -> bool {
        // The first of equals: latents are in ascending order.
        let strongest = self.others.iter().copied().reduce(|best, other| if other.0 > best.0 { other } else { best });
        let carries =
            |(part, cosine): (f64, f64)| cosine >= FULL_COSINE && self.whole >= 0.0 && part / self.whole >= FULL_SHARE;
        !self.main_active && strongest.is_some_and(carries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_matches_the_worked_example() {
        // The whole is 10; main carries 2, others 6, 1, 1, 0.5 and −1; the second has a small cosine.
        let others = [(6.0, 0.5), (1.0, 0.05), (1.0, 0.3), (0.5, 0.2), (-1.0, -0.4)];
        let projection = Projection { whole: 10.0, main: 2.0, main_active: true, others: &others };
        // 6 + 1 + 0.5 = 7.5 ≥ 4; at most 10 − 2 = 8: 7.5 / 9.5.
        assert!((projection.fraction(&CURRENT) - 7.5 / 9.5).abs() < 1e-12);
        // 6 + 1 + 1 + 0.5 = 8.5: 8.5 / 10.5.
        assert!((projection.fraction(&PAPER) - 8.5 / 10.5).abs() < 1e-12);
        // All: 2 + 7.5 = 9.5, without main 7.5.
        assert!((projection.january_fraction() - 7.5 / 9.5).abs() < 1e-12);
        assert!(!projection.is_full());
        assert!(Projection { main: 0.0, main_active: false, ..projection }.is_full());
    }

    #[test]
    fn limits() {
        let one = [(6.0, 0.5)];
        let projection = |whole, main, others| Projection { whole, main, main_active: main > 0.0, others };
        // Main carries everything; no other latent; too little is carried; main is negative.
        assert_eq!(projection(2.0, 2.0, &one).fraction(&CURRENT), 0.0);
        assert_eq!(projection(2.0, 1.0, &[]).fraction(&CURRENT), 0.0);
        assert_eq!(projection(2.0, 1.0, &[]).fraction(&PAPER), 0.0);
        assert_eq!(projection(20.0, 1.0, &one).fraction(&CURRENT), 0.0);
        assert_eq!(projection(10.0, -1.0, &one).fraction(&CURRENT), 1.0);
        // Others count up to the part that is missing: min(6, 4 − 3) = 1, of 1 + 3.
        assert_eq!(projection(4.0, 3.0, &one).fraction(&CURRENT), 0.25);
        assert!(!projection(0.0, 0.0, &[]).is_full());
        // Two latents carry 6 each: the lower one decides, and only a cosine of 0.025 or more counts.
        assert!(projection(10.0, 0.0, &[(6.0, 0.5), (6.0, 0.01)]).is_full());
        assert!(!projection(10.0, 0.0, &[(6.0, 0.01), (6.0, 0.5)]).is_full());
    }
}
