//! Which prompts the network knows the answer of, and which of them are paired.

use std::collections::BTreeMap;

use etalon_kernel::random::{ChaCha8Rng, index, permutation, stream};
use serde::{Deserialize, Serialize};

use super::prompts::{Prompts, Tokens};
use super::settings::Settings;

/// A prompt after the network has completed it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Asked {
    pub tokens: Tokens,
    /// The first token of the completion.
    pub first: Option<u32>,
    pub is_correct: bool,
}

/// A base and a source, and what should come out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    /// Indices of prompts.
    pub base: usize,
    pub source: usize,
    /// The token that should follow.
    pub target: u32,
    /// Whether the answer should become that of the source.
    pub is_cause: bool,
}

/// The pairs of an attribute.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub train: Vec<Pair>,
    pub test: Vec<Pair>,
}

/// The prompts with a right answer, of the entities and then the templates with most of them. Ties are broken by order.
pub(super) fn known(prompts: &Prompts, asked: &[Asked], settings: &Settings) -> Vec<usize> {
    let mut known: Vec<usize> =
        (0..prompts.prompts.len()).filter(|index| asked[*index].is_correct && asked[*index].first.is_some()).collect();
    let kind_of = |prompt: usize| prompts.attributes[prompts.prompts[prompt].attribute].kind;
    known = most_frequent(known, settings.kept_entities, kind_of, |prompt| prompts.prompts[prompt].entity);
    if settings.kept_templates > 0 {
        known = most_frequent(known, settings.kept_templates, kind_of, |prompt| prompts.prompts[prompt].template);
    }
    known
}

/// Keeps the prompts of the `most` most frequent groups of every kind.
fn most_frequent(
    prompts: Vec<usize>,
    most: usize,
    kind_of: impl Fn(usize) -> usize,
    group_of: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for prompt in &prompts {
        *counts.entry((kind_of(*prompt), group_of(*prompt))).or_default() += 1;
    }
    let mut order: Vec<((usize, usize), usize)> = counts.into_iter().collect();
    order.sort_by(|(a, left), (b, right)| a.0.cmp(&b.0).then(right.cmp(left)).then(a.1.cmp(&b.1)));
    let mut kept: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for ((kind, group), _) in order {
        let groups = kept.entry(kind).or_default();
        if groups.len() < most {
            groups.push(group);
        }
    }
    kept.values_mut().for_each(|groups| groups.sort_unstable());
    let is_kept =
        |prompt: &usize| kept.get(&kind_of(*prompt)).is_some_and(|kept| kept.binary_search(&group_of(*prompt)).is_ok());
    prompts.into_iter().filter(is_kept).collect()
}

/// The pairs of all attributes.
pub(super) fn plans(prompts: &Prompts, asked: &[Asked], known: &[usize], settings: &Settings, seed: u64) -> Vec<Plan> {
    let all = Pairing { prompts, asked };
    let plan = |attribute: usize| {
        let mut random = stream(seed, "ravel/pairs", attribute as u64);
        let train_share = |count: usize| (count as f64 * settings.train_share) as usize;
        let mut plan = if settings.by_files {
            let of = |training: bool| -> Vec<usize> {
                known.iter().copied().filter(|prompt| prompts.prompts[*prompt].is_training == Some(training)).collect()
            };
            let count = train_share(settings.pairs);
            let train = all.mixed(&of(true), attribute, count, &mut random);
            Plan { train, test: all.mixed(&of(false), attribute, settings.pairs - count, &mut random) }
        } else {
            let mut train = all.mixed(known, attribute, settings.pairs, &mut random);
            let test = train.split_off(train_share(train.len()));
            Plan { train, test }
        };
        if settings.released {
            // Incomplete batches are dropped.
            for pairs in [&mut plan.train, &mut plan.test] {
                pairs.truncate(pairs.len() / settings.batch * settings.batch);
            }
        }
        plan
    };
    (0..prompts.attributes.len()).map(plan).collect()
}

struct Pairing<'a> {
    prompts: &'a Prompts,
    asked: &'a [Asked],
}

impl Pairing<'_> {
    /// Cause and isolation pairs of an attribute in random order, as many of one as of the other if there are enough.
    fn mixed(&self, known: &[usize], attribute: usize, count: usize, random: &mut ChaCha8Rng) -> Vec<Pair> {
        let cause = self.of(known, attribute, count, random);
        let kind = self.prompts.attributes[attribute].kind;
        let others = (0..self.prompts.attributes.len())
            .filter(|other| *other != attribute && self.prompts.attributes[*other].kind == kind);
        let mut isolation = Vec::new();
        for other in others {
            isolation.extend(self.of(known, other, count, random));
        }
        let order = permutation(isolation.len(), random);
        let isolation = order.into_iter().take(cause.len()).map(|index| isolation[index]);
        let first = |prompt: usize| self.asked[prompt].first.unwrap_or_default();
        let pair = |is_cause: bool, (base, source): (usize, usize)| {
            let target = first(if is_cause { source } else { base });
            Pair { base, source, target, is_cause }
        };
        let cause = cause.iter().map(|both| pair(true, *both));
        let pairs: Vec<Pair> = cause.chain(isolation.map(|both| pair(false, both))).collect();
        permutation(pairs.len(), random).into_iter().map(|index| pairs[index]).collect()
    }

    /// Bases and sources of an attribute whose labels differ: up to `count` bases, each with a random source.
    fn of(&self, known: &[usize], attribute: usize, count: usize, random: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
        let of_attribute: Vec<usize> =
            known.iter().copied().filter(|prompt| self.prompts.prompts[*prompt].attribute == attribute).collect();
        let label = |prompt: usize| self.prompts.prompts[prompt].label.as_str();
        let mut by_label: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for prompt in &of_attribute {
            by_label.entry(label(*prompt)).or_default().push(*prompt);
        }
        if by_label.len() < 2 {
            return Vec::new();
        }
        let bases: Vec<usize> = if of_attribute.len() > count {
            permutation(of_attribute.len(), random).into_iter().take(count).map(|index| of_attribute[index]).collect()
        } else {
            of_attribute.clone()
        };
        let source = |base: usize, random: &mut ChaCha8Rng| {
            let same = by_label.get(label(base)).map_or(0, Vec::len);
            let mut skip = index(of_attribute.len() - same, random);
            for (_, prompts) in by_label.iter().filter(|(other, _)| **other != label(base)) {
                if skip < prompts.len() {
                    return prompts[skip];
                }
                skip -= prompts.len();
            }
            base
        };
        bases.into_iter().map(|base| (base, source(base, random))).collect()
    }
}
