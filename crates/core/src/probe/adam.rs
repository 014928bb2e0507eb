//! The optimizer Adam, with PyTorch's defaults.

/// Decay of the first moment.
const MEAN_DECAY: f32 = 0.9;
/// Decay of the second moment.
const SQUARE_DECAY: f32 = 0.999;
/// Added to the root of the second moment.
pub(super) const EPSILON: f32 = 1e-8;

/// Parameters with the moments of their gradients.
pub(super) struct Layer {
    /// The parameters.
    pub values: Vec<f32>,
    means: Vec<f32>,
    squares: Vec<f32>,
}

impl Layer {
    /// `len` zeros.
    pub fn new(len: usize) -> Layer {
        Layer::from(vec![0.0; len])
    }

    /// Initial parameters.
    pub fn from(values: Vec<f32>) -> Layer {
        Layer { means: vec![0.0; values.len()], squares: vec![0.0; values.len()], values }
    }

    /// The bias correction of the root of the second moment at a step (from 1).
    pub fn root(step: i32) -> f32 {
        (1.0 - f64::from(SQUARE_DECAY).powi(step)).sqrt() as f32
    }

    /// One step against the gradient.
    pub fn step(&mut self, gradient: &[f32], learning_rate: f64, step: i32, epsilon: f32) {
        let length = (learning_rate / (1.0 - f64::from(MEAN_DECAY).powi(step))) as f32;
        let root = Layer::root(step);
        let moments = self.means.iter_mut().zip(&mut self.squares);
        for ((value, (mean, square)), &slope) in self.values.iter_mut().zip(moments).zip(gradient) {
            *mean += (1.0 - MEAN_DECAY) * (slope - *mean);
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * slope * slope;
            *value -= length * *mean / (square.sqrt() / root + epsilon);
        }
    }
}
