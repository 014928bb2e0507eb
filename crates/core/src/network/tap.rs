//! Taps: code that reads or changes activations at sites while a network runs.

use super::site::SiteId;
use super::state::Layout;
use crate::error::Result;

/// Reads or changes activations at sites.
pub trait Tap {
    /// Whether [`Tap::visit`] wants to see a site. Networks ask first, so that activations that are not read need not
    /// exist: a residual sum stays part of its product.
    fn wants(&self, site: SiteId) -> bool;

    /// Sees all rows of the batch at a site, and may change them.
    fn visit(&mut self, site: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()>;
}

/// A tap that looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untouched;

impl Tap for Untouched {
    fn wants(&self, _: SiteId) -> bool {
        false
    }

    fn visit(&mut self, _: SiteId, _: Layout, _: &mut [f32]) -> Result<()> {
        Ok(())
    }
}

/// Copies the activations of some sites.
#[derive(Debug, Default)]
pub struct Capture {
    sites: Vec<SiteId>,
    /// What was captured, in the order of the visits.
    pub seen: Vec<(SiteId, Layout, Vec<f32>)>,
}

impl Capture {
    /// Captures these sites.
    pub fn new(sites: &[SiteId]) -> Capture {
        Capture { sites: sites.to_vec(), seen: Vec::new() }
    }

    /// The activations of a site, if it was visited.
    pub fn of(&self, site: SiteId) -> Option<(Layout, &[f32])> {
        self.seen.iter().find(|(seen, ..)| *seen == site).map(|(_, layout, rows)| (*layout, rows.as_slice()))
    }
}

impl Tap for Capture {
    fn wants(&self, site: SiteId) -> bool {
        self.sites.contains(&site)
    }

    fn visit(&mut self, site: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        self.seen.push((site, layout, rows.to_vec()));
        Ok(())
    }
}

/// Two taps, one after the other.
pub struct Pair<'a>(pub &'a mut dyn Tap, pub &'a mut dyn Tap);

impl Tap for Pair<'_> {
    fn wants(&self, site: SiteId) -> bool {
        self.0.wants(site) || self.1.wants(site)
    }

    fn visit(&mut self, site: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        for tap in [&mut *self.0, &mut *self.1] {
            if tap.wants(site) {
                tap.visit(site, layout, rows)?;
            }
        }
        Ok(())
    }
}
