//! `blindspots`: real rows, and generators that suppress, exaggerate and memorise some features.

use rayon::prelude::*;

use super::draw::normal;
use super::features::{ACTIVE, FEATURES, NOISE, POWER, ROWS, WIDTH, directions, draw_value, rates};
use super::{
    Allowed, BLOCK_ROWS, Planted, Setting, World, WorldCard, WorldGenerator, WorldMaker, WorldSettings, labels_of,
    reserve,
};
use crate::codes::{Codes, CodesBuilder};
use crate::context::Context;
use crate::error::{InputError, Key, Result};
use crate::store::ActivationStore;
use etalon_kernel::random::{ChaCha8Rng, permutation, stream, unit};

pub(super) struct Blindspots;

static CARD: WorldCard = WorldCard {
    name: "blindspots",
    summary: "Real rows, and generators that make some features too rare, some too frequent, and copy some rows.",
    definition: "Real rows are those of `superposition` without hierarchy and correlation: feature i fires at a rate \
        proportional to (i + 1)^-power, `active` of them per row, with the value 1 + |N(0, 0.5)|; a row is the sum of value \
        times direction, plus N(0, noise). A generator answers the prompt of a row feature by feature: with probability \
        `fidelity` the feature fires if it fires in the real row, else it is drawn again at its rate; its value is always \
        drawn again. Means do not change. Every generator suppresses `planted` features: each firing is dropped with \
        probability `strength`, so that the mean falls to (1 − strength) of the real one. It exaggerates `planted` others: \
        where the feature would not fire it fires with probability strength · rate/(1 − rate), so that the mean rises to (1 + \
        strength) of it (rates are at most 1/2). The first half of each kind (rounded up) is the same for all generators, the \
        rest is its own. One feature is memorised by all: with probability `strength` a row whose real counterpart has it is \
        that counterpart, values and noise included.",
    settings: &[
        ROWS,
        WIDTH,
        FEATURES,
        ACTIVE,
        POWER,
        NOISE,
        Setting { name: "models", doc: "Number of generators.", default: "2", allowed: Allowed::Whole(1, 1000) },
        Setting {
            name: "planted",
            doc: "Number of features that every generator suppresses, and number that it exaggerates.",
            default: "8",
            allowed: Allowed::Whole(0, 1_000_000),
        },
        Setting {
            name: "strength",
            doc: "Strength of suppression, exaggeration and memorisation.",
            default: "0.8",
            allowed: Allowed::Number(0.0, 1.0),
        },
        Setting {
            name: "fidelity",
            doc: "Probability that a generator follows the prompt for a feature.",
            default: "0.8",
            allowed: Allowed::Number(0.0, 1.0),
        },
    ],
};

impl WorldMaker for Blindspots {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        let (rows, width, features) = (settings.whole("rows")?, settings.whole("width")?, settings.whole("features")?);
        let models = settings.whole("models")?;
        let _rows = reserve(rows.saturating_mul(models + 1), width, features, context.budget())?;
        let _directions = reserve(features, width.saturating_mul(3), 0, context.budget())?;
        let rule = Rule::new(settings, seed, context)?;
        let plans = rule.plans(models, settings.whole("planted")?)?;
        let mut activations = vec![vec![0f32; rows * width]; models + 1];
        let mut chunks: Vec<Vec<&mut [f32]>> =
            activations.iter_mut().map(|all| all.chunks_mut(BLOCK_ROWS * width).collect()).collect();
        // By block: the output of the real rows and of every generator.
        let blocks: Vec<Vec<&mut [f32]>> = (0..rows.div_ceil(BLOCK_ROWS))
            .map(|_| chunks.iter_mut().map(|side| side.remove(0)).collect::<Vec<_>>())
            .collect();
        let make = |(block, outs)| rule.block(block, outs, &plans, context);
        let made: Vec<Vec<Vec<Row>>> = blocks.into_par_iter().enumerate().map(make).collect::<Result<_>>()?;
        let codes = |side: usize| -> Result<Codes> {
            let mut builder = CodesBuilder::new(features);
            for row in made.iter().flat_map(|block| &block[side]) {
                context.check()?;
                let (latents, values): (Vec<u32>, Vec<f32>) = row.iter().copied().unzip();
                builder.push(&latents, &values)?;
            }
            Ok(builder.finish())
        };
        let mut stores = activations.into_iter().map(|values| ActivationStore::from_rows(values, width));
        let real_store = stores.next().transpose()?.ok_or_else(|| crate::error::Error::Bug("no real rows".into()))?;
        let mut generated = Vec::new();
        for ((model, store), planted) in (1..).zip(stores).zip(plans) {
            let name = format!("model_{model}");
            generated.push(WorldGenerator { name, activations: store?, codes: codes(model)?, planted });
        }
        let real = codes(0)?;
        let labels = labels_of(&real, (0..features).map(|feature| format!("feature_{feature}")).collect(), context)?;
        let mut world = World::new(CARD.name, real_store, real, labels);
        world.directions = Some(ActivationStore::from_rows(rule.directions, width)?);
        world.generated = generated;
        Ok(world)
    }
}

/// The features of a row that fire, ascending, with their values.
type Row = Vec<(u32, f32)>;

struct Rule {
    seed: u64,
    width: usize,
    noise: f64,
    strength: f64,
    fidelity: f64,
    rate: Vec<f64>,
    directions: Vec<f32>,
}

impl Rule {
    fn new(settings: &WorldSettings, seed: u64, context: &Context) -> Result<Rule> {
        let parent = vec![None; settings.whole("features")?];
        Ok(Rule {
            seed,
            width: settings.whole("width")?,
            noise: settings.number("noise")?,
            strength: settings.number("strength")?,
            fidelity: settings.number("fidelity")?,
            rate: rates(&parent, settings.number("power")?, settings.number("active")?)?,
            directions: directions(&parent, settings.whole("width")?, 0.0, seed, context)?,
        })
    }

    /// The features that each generator changes.
    fn plans(&self, models: usize, planted: usize) -> Result<Vec<Vec<(u32, Planted)>>> {
        let features = self.rate.len();
        let shared = planted.div_ceil(2);
        let own = planted - shared;
        // One more is memorised, unless nothing is planted.
        let needed = usize::from(planted > 0) + 2 * (shared + own * models);
        if needed > features {
            return Err(InputError::new(format!(
                "too few {} for {} and {}",
                Key("features"),
                Key("planted"),
                Key("models")
            ))
            .expected(format!("at least {needed} features"))
            .found(features)
            .advice(format!("raise {}, or lower {} or {}", Key("features"), Key("planted"), Key("models")))
            .into());
        }
        let mut order = permutation(features, &mut stream(self.seed, "blindspots/planted", 0)).into_iter();
        let mut take = |count: usize| order.by_ref().take(count).map(|feature| feature as u32).collect::<Vec<_>>();
        let (memorised, low, high) = (take(usize::from(planted > 0)), take(shared), take(shared));
        let plan = |_| {
            let mut plan: Vec<(u32, Planted)> =
                memorised.iter().map(|&feature| (feature, Planted::Memorised)).collect();
            plan.extend(low.iter().copied().chain(take(own)).map(|feature| (feature, Planted::Suppressed)));
            plan.extend(high.iter().copied().chain(take(own)).map(|feature| (feature, Planted::Exaggerated)));
            plan.sort_unstable();
            plan
        };
        Ok((0..models).map(plan).collect())
    }

    /// The rows of one block, the real ones first. Every generator has its own random stream, so that the number of
    /// generators does not change the rows of any.
    fn block(
        &self,
        block: usize,
        mut outs: Vec<&mut [f32]>,
        plans: &[Vec<(u32, Planted)>],
        context: &Context,
    ) -> Result<Vec<Vec<Row>>> {
        let mut random = stream(self.seed, "blindspots/rows", block as u64);
        let rows = outs.first().map_or(0, |out| out.len() / self.width);
        let mut sides: Vec<Vec<Row>> = Vec::with_capacity(outs.len());
        let draw = |_| context.check().map(|()| self.real(&mut random));
        let real: Vec<Row> = (0..rows).map(draw).collect::<Result<_>>()?;
        for (row, out) in real.iter().zip(outs[0].chunks_mut(self.width)) {
            self.write(row, &mut random, out);
        }
        sides.push(real);
        let (real_out, rest) = outs.split_at_mut(1);
        for (model, (plan, out)) in plans.iter().zip(rest).enumerate() {
            let mut random = stream(self.seed, &format!("blindspots/model/{model}"), block as u64);
            let mut made = Vec::with_capacity(rows);
            for (row, out) in out.chunks_mut(self.width).enumerate() {
                context.check()?;
                let real = &sides[0][row];
                let copied = unit(&mut random) < self.strength
                    && plan.iter().any(|(feature, what)| *what == Planted::Memorised && has(real, *feature));
                if copied {
                    out.copy_from_slice(&real_out[0][row * self.width..][..self.width]);
                    made.push(real.clone());
                } else {
                    let features = self.generated(real, plan, &mut random);
                    self.write(&features, &mut random, out);
                    made.push(features);
                }
            }
            sides.push(made);
        }
        Ok(sides)
    }

    fn real(&self, random: &mut ChaCha8Rng) -> Row {
        let mut row = Row::new();
        for (feature, rate) in self.rate.iter().enumerate() {
            if unit(random) < *rate {
                row.push((feature as u32, draw_value(random)));
            }
        }
        row
    }

    fn generated(&self, real: &Row, plan: &[(u32, Planted)], random: &mut ChaCha8Rng) -> Row {
        let mut row = Row::new();
        let mut plan = plan.iter().peekable();
        for (feature, &rate) in self.rate.iter().enumerate() {
            let feature = feature as u32;
            let follows_prompt = unit(random) < self.fidelity;
            let mut fires = if follows_prompt { has(real, feature) } else { unit(random) < rate };
            let planted = plan.next_if(|(planted, _)| *planted == feature).map(|(_, what)| *what);
            match planted {
                Some(Planted::Suppressed) => fires &= unit(random) >= self.strength,
                Some(Planted::Exaggerated) => fires |= unit(random) < self.strength * rate / (1.0 - rate),
                Some(Planted::Memorised) | None => {}
            }
            if fires {
                row.push((feature, draw_value(random)));
            }
        }
        row
    }

    /// The sum of the features of a row, plus noise.
    fn write(&self, row: &Row, random: &mut ChaCha8Rng, out: &mut [f32]) {
        let mut sum: Vec<f64> =
            (0..self.width).map(|_| if self.noise > 0.0 { self.noise * normal(random) } else { 0.0 }).collect();
        for &(feature, value) in row {
            let direction = &self.directions[feature as usize * self.width..][..self.width];
            sum.iter_mut().zip(direction).for_each(|(sum, &part)| *sum += f64::from(value) * f64::from(part));
        }
        out.iter_mut().zip(sum).for_each(|(out, sum)| *out = sum as f32);
    }
}

fn has(row: &Row, feature: u32) -> bool {
    row.binary_search_by_key(&feature, |entry| entry.0).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::codes::Latent;
    use crate::labels::worlds::make;

    fn world(settings: &[(&str, &str)]) -> World {
        let given = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        make("blindspots", &given.collect::<BTreeMap<_, _>>(), 7, &Context::silent(2, 1 << 30).unwrap()).unwrap()
    }

    fn mean(codes: &Codes, feature: u32) -> f64 {
        let (_, values) = codes.columns().unwrap().latent(Latent(feature));
        values.iter().map(|&value| f64::from(value)).sum::<f64>() / codes.rows() as f64
    }

    #[test]
    fn means_change_by_the_given_strength() {
        // Equal rates of 4/40 = 0.1 and values of mean 1 + 0.5·√(2/π) = 1.399: a mean of 0.14 with an error of about
        // 0.14·√(0.9/0.1/20000) = 0.003, and 0.08, 0.2 after suppressing and exaggerating with 0.4, 0.4.
        let world = world(&[
            ("rows", "20000"),
            ("features", "40"),
            ("active", "4"),
            ("power", "0"),
            ("strength", "0.4"),
            ("planted", "3"),
        ]);
        for made in &world.generated {
            for feature in 0..40u32 {
                let planted = made.planted.iter().find(|(other, _)| *other == feature).map(|(_, what)| *what);
                let factor = match planted {
                    Some(Planted::Suppressed) => 0.6,
                    Some(Planted::Exaggerated) => 1.4,
                    _ => 1.0,
                };
                assert!((mean(&world.codes, feature) - 0.14).abs() < 0.012);
                // Rows that are copied keep their planted features: 0.04 of all rows pull them back a little.
                let found = mean(&made.codes, feature);
                assert!((found - 0.14 * factor).abs() < 0.014, "{feature} {planted:?}: {found}");
            }
        }
        // Two of three are shared, the last is each generator's own.
        let of = |model: usize| -> Vec<u32> {
            let planted = &world.generated[model].planted;
            planted.iter().filter(|(_, what)| *what == Planted::Suppressed).map(|(feature, _)| *feature).collect()
        };
        assert_eq!(of(0).iter().filter(|feature| of(1).contains(feature)).count(), 2);
    }

    #[test]
    fn rows_with_the_memorised_feature_are_copies() {
        let world = world(&[("rows", "2000"), ("strength", "1")]);
        let made = &world.generated[1];
        let memorised = made.planted.iter().find(|(_, what)| *what == Planted::Memorised).unwrap().0;
        let (real, codes) = (world.codes.all().unwrap(), made.codes.all().unwrap());
        let (real_rows, rows) = (world.activations.tile(0..2000).unwrap(), made.activations.tile(0..2000).unwrap());
        let mut copies = 0;
        for row in 0..2000 {
            let copied = real.row(row).0.contains(&memorised);
            copies += usize::from(copied);
            assert_eq!(copied, rows.row(row) == real_rows.row(row), "row {row}");
            assert!(!copied || real.row(row) == codes.row(row));
        }
        assert!(copies > 5, "{copies}");
    }

    #[test]
    fn no_strength_plants_nothing_and_too_much_is_refused() {
        let world = world(&[("rows", "3000"), ("strength", "0"), ("features", "64")]);
        let suppressed = world.generated[0].planted[0].0;
        assert!((mean(&world.codes, suppressed) - mean(&world.generated[0].codes, suppressed)).abs() < 0.05);
        let given = BTreeMap::from([("features".to_string(), "20".to_string())]);
        let error = make("blindspots", &given, 0, &Context::silent(2, 1 << 30).unwrap()).unwrap_err().to_string();
        assert!(error.contains("`planted`") && error.contains("25"), "{error}");
    }
}
