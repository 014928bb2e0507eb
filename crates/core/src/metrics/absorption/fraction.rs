//! How much of a class's direction in one row is carried by latents that are not its main ones.

/// One row under the probe of its class.
pub(super) struct Reading<'a> {
    /// The part of the row along the probe's direction.
    pub whole: f64,
    /// What the main latents carry of it.
    pub main: f64,
    /// Is any main latent active at all?
    pub main_active: bool,
    /// The other active latents: what each carries, and the cosine of its direction with the probe's.
    pub others: &'a [(f64, f64)],
}

/// The thresholds of a variant.
pub(super) struct Rule {
    /// Others must point this much along the probe.
    cosine: f64,
    /// Together they must carry this share of the whole.
    share: f64,
    /// At most so many of them count.
    most: usize,
    /// They are counted only as far as the whole is not yet carried.
    capped: bool,
}

/// Since March 2025.
pub(super) const CURRENT: Rule = Rule { cosine: 0.1, share: 0.4, most: 3, capped: true };
/// As the paper writes it.
pub(super) const PAPER: Rule = Rule { cosine: -1.0, share: 0.0, most: usize::MAX, capped: false };

/// The cosine that the strongest latent must have to absorb a row entirely.
const FULL_COSINE: f64 = 0.025;
/// The share of the whole that it must carry.
const FULL_SHARE: f64 = 0.4;

impl Reading<'_> {
    /// The share that others carry, under a rule.
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

    /// The share as it was defined in January 2025: all latents count, those against the direction too.
    pub fn fraction_of_january(&self) -> f64 {
        let total = self.main + self.others.iter().map(|(part, _)| part).sum::<f64>();
        if self.main >= self.whole || total <= 0.0 { 0.0 } else { ((total - self.main) / total).clamp(0.0, 1.0) }
    }

    /// Do the main latents fail while one other latent stands in for them?
    pub fn is_full(&self) -> bool {
        let strongest = self.others.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
        let stands_in =
            |(part, cosine): (f64, f64)| cosine >= FULL_COSINE && self.whole >= 0.0 && part / self.whole >= FULL_SHARE;
        !self.main_active && strongest.is_some_and(stands_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_by_hand() {
        // The whole is 10; main carries 2, others 6, 1, 1, 0.5 and −1; the second has a small cosine.
        let others = [(6.0, 0.5), (1.0, 0.05), (1.0, 0.3), (0.5, 0.2), (-1.0, -0.4)];
        let reading = Reading { whole: 10.0, main: 2.0, main_active: true, others: &others };
        // 6 + 1 + 0.5 = 7.5 ≥ 4; at most 10 − 2 = 8: 7.5 / 9.5.
        assert!((reading.fraction(&CURRENT) - 7.5 / 9.5).abs() < 1e-12);
        // 6 + 1 + 1 + 0.5 = 8.5: 8.5 / 10.5.
        assert!((reading.fraction(&PAPER) - 8.5 / 10.5).abs() < 1e-12);
        // All: 2 + 7.5 = 9.5, without main 7.5.
        assert!((reading.fraction_of_january() - 7.5 / 9.5).abs() < 1e-12);
        assert!(!reading.is_full());
        assert!(Reading { main: 0.0, main_active: false, ..reading }.is_full());
    }

    #[test]
    fn ends() {
        let one = [(6.0, 0.5)];
        let reading = |whole, main, others| Reading { whole, main, main_active: main > 0.0, others };
        // Main explains everything; nobody else is there; too little is carried; main is against it.
        assert_eq!(reading(2.0, 2.0, &one).fraction(&CURRENT), 0.0);
        assert_eq!(reading(2.0, 1.0, &[]).fraction(&CURRENT), 0.0);
        assert_eq!(reading(2.0, 1.0, &[]).fraction(&PAPER), 0.0);
        assert_eq!(reading(20.0, 1.0, &one).fraction(&CURRENT), 0.0);
        assert_eq!(reading(10.0, -1.0, &one).fraction(&CURRENT), 1.0);
        // More than what is missing does not count: min(6, 4 − 3) = 1, of 1 + 3.
        assert_eq!(reading(4.0, 3.0, &one).fraction(&CURRENT), 0.25);
        assert!(!reading(0.0, 0.0, &[]).is_full());
    }
}
