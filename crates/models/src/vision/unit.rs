//! A convolution with its batch norm, shortcut and activation, and the sites between them.

use etalon::error::Result;
use etalon::network::{Grid, Layout, SiteId, Tap};
use etalon_kernel::neural::{Clip, Finish};
use rayon::prelude::*;

use crate::layer::{Conv, Depthwise, MapShape};

/// A convolution of either kind.
#[derive(Clone, Debug)]
pub(super) enum Kernel {
    Dense(Conv),
    Depthwise(Depthwise),
}

/// Factors and summands of a batch norm, one value per channel.
#[derive(Clone, Debug)]
pub(super) struct BatchNorm {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
}

/// The sites of a unit, in the order in which they are visited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnitSites {
    /// The output of the convolution.
    pub conv: Option<SiteId>,
    /// The output of the batch norm.
    pub norm: Option<SiteId>,
    /// The sum with the shortcut.
    pub sum: Option<SiteId>,
    /// The output of the activation, or of the whole unit.
    pub output: Option<SiteId>,
}

impl UnitSites {
    /// All of them.
    pub fn all(&self) -> [Option<SiteId>; 4] {
        [self.conv, self.norm, self.sum, self.output]
    }
}

/// A convolution with what follows it. All parts are applied while an output is in a register, except where somebody looks
/// at a site between them; the bits are the same either way.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub kernel: Kernel,
    pub norm: Option<BatchNorm>,
    pub clip: Clip,
    pub sites: UnitSites,
}

impl Unit {
    /// The shape of the result; `None` if the window is larger than the map.
    pub fn shape(&self, map: MapShape) -> Option<MapShape> {
        match &self.kernel {
            Kernel::Dense(conv) => conv.shape(map),
            Kernel::Depthwise(conv) => conv.shape(map),
        }
    }

    /// Values that [`Unit::run`] allocates.
    pub fn scratch(&self, map: MapShape) -> usize {
        match &self.kernel {
            Kernel::Dense(conv) => conv.scratch(map),
            Kernel::Depthwise(_) => 0,
        }
    }

    /// Computes the unit. `out` has the shape `to`.
    pub fn run(
        &self,
        (x, map): (&[f32], MapShape),
        shortcut: Option<&[f32]>,
        (out, to): (&mut [f32], Place),
        tap: &mut dyn Tap,
    ) -> Result<()> {
        let norm = self.norm.as_ref().map(|norm| (&norm.scale[..], &norm.shift[..]));
        let parts = [
            (self.sites.conv, Finish::NONE),
            (self.sites.norm, Finish { norm, ..Finish::NONE }),
            (self.sites.sum, Finish { shortcut, ..Finish::NONE }),
            (self.sites.output, Finish { clip: self.clip, ..Finish::NONE }),
        ];
        // What is left to do since the last site that was visited.
        let mut left = Finish::NONE;
        let mut computed = false;
        for (index, (site, part)) in parts.into_iter().enumerate() {
            left = Finish {
                bias: None,
                norm: left.norm.or(part.norm),
                shortcut: left.shortcut.or(part.shortcut),
                clip: if part.clip == Clip::NONE { left.clip } else { part.clip },
            };
            let wanted = site.filter(|site| tap.wants(*site));
            if wanted.is_none() && index + 1 < parts.len() {
                continue;
            }
            match &self.kernel {
                _ if computed => finish_rows(left, to.shape, out),
                Kernel::Dense(conv) => conv.apply(x, map, left, out),
                Kernel::Depthwise(conv) => conv.apply(x, map, left, out),
            }
            (computed, left) = (true, Finish::NONE);
            if let Some(site) = wanted {
                tap.visit(site, to.layout(), out)?;
            }
        }
        Ok(())
    }
}

/// Applies parts to rows that are already computed.
fn finish_rows(finish: Finish<'_>, shape: MapShape, rows: &mut [f32]) {
    let (line, channels) = (shape.width.max(1), shape.channels.max(1));
    rows.par_chunks_mut(line * channels).enumerate().for_each(|(index, rows)| {
        let part = index * line..index * line + rows.len() / channels;
        finish.of_rows(part, channels).apply(channels, rows);
    });
}

/// The shape of a map, and whether its positions are places in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub shape: MapShape,
    /// The positions are averaged: a row is a sample.
    pub pooled: bool,
}

impl Place {
    /// The shape of a layout of this network.
    pub fn of(layout: Layout) -> Place {
        let (height, width) = layout.grid.map_or((layout.rows, 1), |grid| (grid.height, grid.width));
        let shape = MapShape { samples: layout.samples, height, width, channels: layout.width };
        Place { shape, pooled: layout.grid.is_none() }
    }

    /// The layout of the rows.
    pub fn layout(&self) -> Layout {
        let MapShape { samples, height, width, channels } = self.shape;
        let grid = (!self.pooled).then_some(Grid { prefix: 0, height, width });
        Layout { samples, rows: height * width, width: channels, grid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Slide, WeightOrder};
    use etalon::network::{Capture, Edit, Patch, Untouched};

    /// One position, weight 2, bias 1, norm 3 y − 2, shortcut 4: sum 2 x + 1 = 7, 19, 23.
    fn unit() -> Unit {
        let conv = Conv::new(Slide::padded(1, 1, 0), [1, 1], &[2.0], WeightOrder::OutputFirst, Some(vec![1.0]));
        let site = |index: u32| Some(SiteId(index));
        Unit {
            kernel: Kernel::Dense(conv),
            norm: Some(BatchNorm { scale: vec![3.0], shift: vec![-2.0] }),
            clip: Clip::RELU6,
            sites: UnitSites { conv: site(0), norm: site(1), sum: site(2), output: site(3) },
        }
    }

    fn run(tap: &mut dyn Tap) -> f32 {
        let shape = MapShape { samples: 1, height: 1, width: 1, channels: 1 };
        let mut out = [0.0];
        let to = (&mut out[..], Place { shape, pooled: false });
        unit().run((&[3.0], shape), Some(&[4.0]), to, tap).unwrap();
        out[0]
    }

    #[test]
    fn sites_see_the_parts() {
        assert_eq!(run(&mut Untouched), 6.0);
        let sites: Vec<SiteId> = (0..4).map(SiteId).collect();
        let mut capture = Capture::new(&sites);
        assert_eq!(run(&mut capture), 6.0);
        let seen: Vec<f32> = capture.seen.iter().map(|(_, _, rows)| rows[0]).collect();
        assert_eq!(seen, [7.0, 19.0, 23.0, 6.0]);
        for (site, value) in sites.into_iter().zip(seen) {
            let mut capture = Capture::new(&[site]);
            run(&mut capture);
            assert_eq!(capture.of(site).unwrap().1, [value]);
        }
    }

    #[test]
    fn parts_after_a_patch_use_it() {
        // 0 → 3 · 0 − 2 + 4 = 2.
        assert_eq!(run(&mut Patch::new(SiteId(0), Edit::Set(vec![0.0]))), 2.0);
        assert_eq!(run(&mut Patch::new(SiteId(2), Edit::Set(vec![-1.0]))), 0.0);
        assert_eq!(run(&mut Patch::new(SiteId(3), Edit::Set(vec![-1.0]))), -1.0);
    }
}
