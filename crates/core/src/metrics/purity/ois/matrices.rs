//! The purity matrix and the oracle matrix, their difference, and its variance.

use etalon_kernel::small_networks::Training;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::labels::Factors;
use crate::metrics::purity::alignment::{greedy, optimal};
use crate::metrics::purity::areas::Area;
use crate::metrics::purity::concepts::{Sources, Split, rank_normalised, separation};
use crate::metrics::purity::oracle::closed_form;
use crate::metrics::purity::probes::{Input, Probes};
use crate::run::{CODES, Job, Lazy, Work};

/// How representations are matched to concepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Representation i stands for concept i.
    InOrder,
    Greedy,
    Optimal,
}

/// The parameters of a job.
pub(super) struct OisSettings {
    pub align: Align,
    pub training: Training,
    ranks: bool,
    shared_split: bool,
    pub repeats: usize,
    candidates: usize,
    dimensions: usize,
}

impl OisSettings {
    pub fn of_job(job: &Job<'_>, sources: usize, concepts: usize) -> Result<OisSettings> {
        let rows = job.get(&CODES)?.rows();
        let align = match job.word("align")? {
            "none" => Align::InOrder,
            "greedy" => Align::Greedy,
            "optimal" => Align::Optimal,
            _ if sources == concepts => Align::InOrder,
            _ => Align::Greedy,
        };
        Ok(OisSettings {
            align,
            training: Training {
                epochs: job.whole("epochs")?,
                batch: job.whole("batch")?.min(rows).max(1),
                ..Training::default()
            },
            ranks: job.word("probe_input")? == "ranks",
            shared_split: job.word("oracle_split")? == "shared",
            repeats: job.whole("repeats")?,
            candidates: job.whole("candidates")?,
            dimensions: job.whole("dimensions")?,
        })
    }

    /// The splits of a repeat: of the purity matrix and of the oracle matrix.
    pub fn splits(&self, job: &Job<'_>, rows: usize, repeat: usize) -> [Split; 2] {
        let oracle = if self.shared_split { "ois/split" } else { "ois/oracle_split" };
        ["ois/split", oracle].map(|purpose| Split::fifth(rows, job.seed, purpose, repeat as u64))
    }

    /// The concepts with two classes in both parts of all splits.
    pub fn usable(&self, job: &Job<'_>, factors: &Factors) -> Result<Vec<usize>> {
        let rows = job.get(&CODES)?.rows();
        let mut usable: Vec<usize> = (0..factors.count()).collect();
        for repeat in 0..self.repeats {
            job.check()?;
            for split in self.splits(job, rows, repeat) {
                usable.retain(|&concept| split.is_usable(factors.column(concept)));
            }
        }
        Ok(usable)
    }
}

/// What one representation, and the labels of its concept, say about every concept.
#[derive(Clone, Default, Serialize, Deserialize)]
struct SourceAreas {
    purity: Vec<Option<f64>>,
    oracle: Vec<Option<f64>>,
    /// The variance of every difference.
    variances: Vec<f64>,
}

/// One repeat: matrices of concepts × concepts, row t being the representation of concept t, or its labels.
pub(super) struct Repeat {
    pub purity: Vec<Option<f64>>,
    pub oracle: Vec<Option<f64>>,
    /// The variance of purity minus oracle.
    pub variances: Vec<f64>,
}

impl Repeat {
    /// Purity minus oracle; `None` where one is undefined.
    pub fn impurity(&self, entry: usize) -> Option<f64> {
        Some(self.purity[entry]? - self.oracle[entry]?)
    }

    /// The norm of the difference.
    pub fn norm(&self) -> f64 {
        let squares = (0..self.purity.len()).filter_map(|entry| self.impurity(entry)).map(|value| value * value);
        squares.sum::<f64>().sqrt()
    }

    /// The sum of the variances of the difference.
    pub fn noise(&self) -> f64 {
        (0..self.purity.len()).filter(|&entry| self.impurity(entry).is_some()).map(|entry| self.variances[entry]).sum()
    }
}

/// All results of one size of helper networks.
pub(super) struct Measured {
    pub repeats: Vec<Repeat>,
    /// The representation of every usable concept.
    pub source_of: Vec<usize>,
    /// How many representations were considered.
    pub considered: usize,
}

pub(super) struct Measurement<'a> {
    pub job: &'a Job<'a>,
    pub factors: &'a Factors,
    pub settings: &'a OisSettings,
    pub usable: &'a [usize],
    pub hidden: usize,
}

impl Measurement<'_> {
    fn rows(&self) -> usize {
        self.factors.rows()
    }

    fn probes<'b>(&'b self, split: &'b Split, purpose: &'b str) -> Probes<'b> {
        let Measurement { job, factors, settings, hidden, .. } = *self;
        Probes { job, factors, training: settings.training, hidden, split, purpose }
    }

    pub fn run(&self, work: &mut Work<'_>, sources: usize) -> Result<Measured> {
        let (job, repeats, concepts) = (self.job, self.settings.repeats, self.usable.len());
        let codes = job.get(&CODES)?;
        let columns = Lazy::new(|| codes.columns());
        let candidates = self.candidates(work, sources)?;
        let source_of = if self.settings.align == Align::InOrder {
            self.usable.to_vec()
        } else {
            let count = candidates.len();
            let all = work.blocks_with(&columns, "purity", repeats * count, |columns, block| {
                let areas = self.purity(columns, block / count, candidates[block % count])?;
                Ok(areas.into_iter().map(|area| area.map(|area| area.value)).collect::<Vec<_>>())
            })?;
            // The mean over repeats; undefined entries cannot be chosen.
            let mean = |index: usize| {
                let values = (0..repeats).map(|repeat| all[repeat * count + index / concepts][index % concepts]);
                values.sum::<Option<f64>>().map_or(f64::NEG_INFINITY, |sum| sum / repeats as f64)
            };
            let scores: Vec<f64> = (0..count * concepts).map(mean).collect();
            let chosen = match self.settings.align {
                Align::Greedy => greedy(&scores, concepts),
                _ => optimal(&scores, concepts, job.context)?,
            };
            let of_concept = |source: Option<usize>| {
                source
                    .map(|source| candidates[source])
                    .ok_or_else(|| Error::Bug("a concept has no representation".into()))
            };
            chosen.into_iter().map(of_concept).collect::<Result<Vec<usize>>>()?
        };
        let found = work.blocks_with(&columns, "impurity", repeats * concepts, |columns, block| {
            let (repeat, source) = (block / concepts, block % concepts);
            let purity = self.purity(columns, repeat, source_of[source])?;
            let oracle = self.oracle(repeat, source)?;
            let value = |area: &Option<Area>| area.as_ref().map(|area| area.value);
            Ok(SourceAreas {
                variances: self.variances(repeat, &purity, &oracle),
                purity: purity.iter().map(value).collect(),
                oracle: oracle.iter().map(value).collect(),
            })
        })?;
        let measured = found.chunks(concepts).map(|own| Repeat {
            purity: own.iter().flat_map(|areas| areas.purity.iter().copied()).collect(),
            oracle: own.iter().flat_map(|areas| areas.oracle.iter().copied()).collect(),
            variances: own.iter().flat_map(|areas| areas.variances.iter().copied()).collect(),
        });
        Ok(Measured { repeats: measured.collect(), source_of, considered: candidates.len() })
    }

    /// The variances of purity minus oracle. Their splits share test rows, whose influences are correlated.
    fn variances(&self, repeat: usize, purity: &[Option<Area>], oracle: &[Option<Area>]) -> Vec<f64> {
        let [split, other] = self.settings.splits(self.job, self.rows(), repeat);
        let mut place = vec![None; self.rows()];
        other.test.iter().enumerate().for_each(|(index, &row)| place[row as usize] = Some(index));
        let shared: Vec<(usize, usize)> =
            split.test.iter().enumerate().filter_map(|(index, &row)| Some((index, place[row as usize]?))).collect();
        let of_pair = |(purity, oracle): (&Option<Area>, &Option<Area>)| {
            let (Some(purity), Some(oracle)) = (purity, oracle) else { return 0.0 };
            let together: f64 = shared.iter().map(|&(a, b)| purity.influence[a] * oracle.influence[b]).sum();
            (purity.variance() + oracle.variance() - 2.0 * together).max(0.0)
        };
        purity.iter().zip(oracle).map(of_pair).collect()
    }

    /// The areas of all concepts predicted from one representation.
    fn purity(&self, columns: &crate::codes::Columns, repeat: usize, source: usize) -> Result<Vec<Option<Area>>> {
        let [split, _] = self.settings.splits(self.job, self.rows(), repeat);
        let width = self.settings.dimensions;
        let _memory = self.job.budget().reserve(8 * (self.rows() * width) as u64, "the values of a representation")?;
        let mut values = Sources { columns, dimensions: width }.values(source);
        if self.settings.ranks {
            rank_normalised(&mut values, width);
        }
        let purpose = format!("ois/{repeat}");
        self.probes(&split, &purpose).areas(&Input { values: &values, width, number: source, known: None }, self.usable)
    }

    /// The areas of all concepts predicted from the labels of one; its own is 1.
    fn oracle(&self, repeat: usize, source: usize) -> Result<Vec<Option<Area>>> {
        let [_, split] = self.settings.splits(self.job, self.rows(), repeat);
        let own = self.factors.column(self.usable[source]);
        let is_binary = |concept: usize| self.factors.classes(concept) == 2;
        let by_table = |target: usize| is_binary(self.usable[source]) && is_binary(self.usable[target]);
        let mut areas: Vec<Option<Area>> = (0..self.usable.len())
            .map(|target| match target {
                _ if target == source => Some(Area { value: 1.0, influence: vec![0.0; split.test.len()] }),
                _ if by_table(target) => closed_form(own, self.factors.column(self.usable[target]), &split),
                _ => None,
            })
            .collect();
        let open: Vec<usize> = (0..areas.len()).filter(|&target| target != source && !by_table(target)).collect();
        if !open.is_empty() {
            let mut values: Vec<f32> = own.iter().map(|&class| class as f32).collect();
            if self.settings.ranks {
                rank_normalised(&mut values, 1);
            }
            let targets: Vec<usize> = open.iter().map(|&target| self.usable[target]).collect();
            let input = Input { values: &values, width: 1, number: self.usable[source], known: Some(own) };
            let purpose = format!("ois/oracle/{repeat}");
            let trained = self.probes(&split, &purpose).areas(&input, &targets)?;
            open.into_iter().zip(trained).for_each(|(target, area)| areas[target] = area);
        }
        Ok(areas)
    }

    /// The representations that are considered: of every concept those whose best latent separates it best. Concepts may
    /// share them: more of each are taken until there is one for every concept.
    fn candidates(&self, work: &mut Work<'_>, sources: usize) -> Result<Vec<usize>> {
        let wanted = self.settings.candidates;
        let all = wanted == 0 || wanted.saturating_mul(self.usable.len()) >= sources;
        if self.settings.align == Align::InOrder || all {
            return Ok((0..sources).collect());
        }
        let codes = self.job.get(&CODES)?;
        let columns = Lazy::new(|| codes.columns());
        let best = work.blocks_with(&columns, "candidates", sources, |columns, source| {
            let latents = Sources { columns, dimensions: self.settings.dimensions };
            let mut best = vec![0.0f64; self.usable.len()];
            for part in 0..self.settings.dimensions {
                let values = latents.latent(source * self.settings.dimensions + part);
                for (best, &concept) in best.iter_mut().zip(self.usable) {
                    *best = best.max(separation(&values, self.factors, concept));
                }
            }
            Ok(best)
        })?;
        let order_of = |concept: usize| {
            let mut order: Vec<usize> = (0..sources).collect();
            order.sort_by(|&a, &b| best[b][concept].total_cmp(&best[a][concept]).then(a.cmp(&b)));
            order
        };
        let orders: Vec<Vec<usize>> = (0..self.usable.len()).map(order_of).collect();
        let mut is_chosen = vec![false; sources];
        let mut count = 0;
        for place in 0..sources {
            if place >= wanted && count >= self.usable.len() {
                break;
            }
            for order in &orders {
                count += usize::from(!std::mem::replace(&mut is_chosen[order[place]], true));
            }
        }
        Ok((0..sources).filter(|&source| is_chosen[source]).collect())
    }
}
