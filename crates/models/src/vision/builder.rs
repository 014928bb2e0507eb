//! Reads the layers of a network of convolutions and names its sites.

use etalon::context::{Budget, Reservation};
use etalon::error::Result;
use etalon::network::{NetworkCard, RowKind, Site, SiteId};

use super::convnet::{ConvNet, Layer, Shortcut, Stage};
use super::layer_types::mark_stages;
use super::unit::{BatchNorm, Kernel, Unit, UnitSites};
use crate::layer::{Conv, Depthwise, Slide, WeightOrder};
use crate::weights::{Model, Weights};
use etalon_kernel::neural::Clip;

/// What has been read of a network so far.
pub(super) struct Builder<'a> {
    pub weights: &'a Weights,
    /// Added to variances.
    pub eps: f32,
    sites: Vec<Site>,
    stages: Vec<Stage>,
    memory: Reservation,
}

impl<'a> Builder<'a> {
    /// A network without stages. Memory for all weights is reserved.
    pub fn new(weights: &'a Weights, eps: f32, budget: &Budget) -> Result<Builder<'a>> {
        let memory = budget.reserve(weights.size(), "the weights of the network")?;
        Ok(Builder { weights, eps, sites: Vec::new(), stages: Vec::new(), memory })
    }

    /// A size of a tensor; 0 if there is no such tensor or axis. Reading the tensor then says what is wrong.
    pub fn size(&self, name: &str, axis: usize) -> usize {
        self.weights.shape(name).and_then(|shape| shape.get(axis)).copied().unwrap_or(0)
    }

    /// Adds a site of the next stage.
    pub fn add(&mut self, mut site: Site) -> SiteId {
        site.stage = self.stages.len();
        self.sites.push(site);
        SiteId(self.sites.len() as u32 - 1)
    }

    /// Adds a site whose rows are positions.
    pub fn map(&mut self, name: impl Into<String>, width: usize) -> SiteId {
        self.add(Site::new(name, width, RowKind::Position, 0))
    }

    /// Adds a site whose rows are positions before an activation function.
    pub fn map_before(&mut self, name: impl Into<String>, width: usize) -> SiteId {
        self.add(Site::new(name, width, RowKind::Position, 0).before_activation())
    }

    /// Adds another name to a site.
    pub fn alias(&mut self, site: SiteId, name: impl Into<String>) {
        if let Some(site) = self.sites.get_mut(site.0 as usize) {
            site.aliases.push(name.into());
        }
    }

    /// Reads a convolution; a bias is optional.
    pub fn conv(&self, name: &str, slide: Slide, [from, to]: [usize; 2]) -> Result<Kernel> {
        let weight = self.weights.tensor(&format!("{name}.weight"), &[to, from, slide.size, slide.size])?;
        let bias = self.weights.optional(&format!("{name}.bias"), &[to])?;
        Ok(Kernel::Dense(Conv::new(slide, [from, to], &weight, WeightOrder::OutputFirst, bias)))
    }

    /// Reads a depthwise convolution.
    pub fn depthwise(&self, name: &str, slide: Slide, channels: usize) -> Result<Kernel> {
        let weight = self.weights.tensor(&format!("{name}.weight"), &[channels, 1, slide.size, slide.size])?;
        Ok(Kernel::Depthwise(Depthwise::new(slide, channels, &weight)))
    }

    /// Reads a batch norm as factors and summands.
    pub fn norm(&self, name: &str, channels: usize) -> Result<BatchNorm> {
        let tensor = |part: &str| self.weights.tensor(&format!("{name}.{part}"), &[channels]);
        let (weight, bias) = (tensor("weight")?, tensor("bias")?);
        let (mean, variance) = (tensor("running_mean")?, tensor("running_var")?);
        let factor = |(weight, variance): (&f32, &f32)| f64::from(*weight) / f64::from(variance + self.eps).sqrt();
        let scale: Vec<f64> = weight.iter().zip(&variance).map(factor).collect();
        let summand = |((bias, mean), scale): ((&f32, &f32), &f64)| f64::from(*bias) - f64::from(*mean) * scale;
        let shift = bias.iter().zip(&mean).zip(&scale).map(|parts| summand(parts) as f32).collect();
        Ok(BatchNorm { scale: scale.iter().map(|scale| *scale as f32).collect(), shift })
    }

    /// Ends a stage.
    pub fn stage(&mut self, layers: Vec<Layer>, shortcut: Shortcut) {
        self.stages.push(Stage { layers, shortcut });
    }

    /// The last stage: the mean over positions, and a classifier if the file has one.
    pub fn head(&mut self, pooled: [&str; 2], classifier: &str, width: usize) -> Result<()> {
        let rows = RowKind::Sample;
        let site = self.add(Site::new(pooled[0], width, rows, 0).alias(pooled[1]));
        let mut layers = vec![Layer::Mean(site)];
        let name = format!("{classifier}.weight");
        if self.weights.has(&name) {
            let classes = self.size(&name, 0);
            let weight = self.weights.tensor(&name, &[classes, width])?;
            let bias = self.weights.optional(&format!("{classifier}.bias"), &[classes])?;
            let conv = Conv::new(Slide::padded(1, 1, 0), [width, classes], &weight, WeightOrder::OutputFirst, bias);
            let output = Some(self.add(Site::new(classifier, classes, rows, 0)));
            let sites = UnitSites { output, ..UnitSites::default() };
            layers.push(Layer::Unit(Unit { kernel: Kernel::Dense(conv), norm: None, clip: Clip::NONE, sites }));
        }
        self.stage(layers, Shortcut::None);
        Ok(())
    }

    /// The network. Tensors that were not requested are refused, except those that `ignored` names.
    pub fn finish(self, card: NetworkCard, ignored: fn(&str) -> bool) -> Result<ConvNet> {
        self.weights.refuse_unread(ignored)?;
        let Builder { mut sites, stages, memory, .. } = self;
        mark_stages(&stages, &mut sites);
        Ok(ConvNet { card, sites, stages, memory })
    }
}

/// A card with what the file says.
pub(super) fn card(family: &'static str, model: &Model) -> Result<NetworkCard> {
    Ok(NetworkCard {
        weights: model.recognised.clone(),
        id: model.id()?,
        parameters: model.weights.parameters(),
        ..NetworkCard::new(family)
    })
}
