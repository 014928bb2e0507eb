//! Activation functions of networks, with their derivatives.

use super::exp::{exp, tanh};
use super::vectorised;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x · sigmoid(x)`, also called swish.
    Silu,
    /// `x · Φ(x)` with the distribution function of the normal distribution.
    Gelu,
    /// GELU with the approximation by `tanh` (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// `x · sigmoid(1.702 x)`, as in CLIP.
    QuickGelu,
}

impl Activation {
    /// Applies the function to every value.
    pub fn apply(self, values: &mut [f32]) {
        match self {
            Activation::Relu => relu_all(values),
            Activation::Relu6 => relu6_all(values),
            Activation::Silu => silu_all(values),
            Activation::Gelu => gelu_all(values),
            Activation::GeluTanh => gelu_tanh_all(values),
            Activation::QuickGelu => quick_gelu_all(values),
        }
    }

    /// `out = f(gate) · up` for rows that hold `width` gates and then `width` other values.
    pub fn gated(self, both: &[f32], width: usize, out: &mut [f32]) {
        for (out, both) in out.chunks_exact_mut(width).zip(both.chunks_exact(2 * width)) {
            let (gate, up) = both.split_at(width);
            match self {
                Activation::Silu => silu_gated(gate, up, out),
                Activation::GeluTanh => gelu_tanh_gated(gate, up, out),
                other => {
                    out.copy_from_slice(gate);
                    other.apply(out);
                    out.iter_mut().zip(up).for_each(|(out, up)| *out *= up);
                }
            }
        }
    }

    /// Replaces every `d` by `d · f′(x)`.
    pub fn back(self, x: &[f32], d: &mut [f32]) {
        match self {
            Activation::Relu => d.iter_mut().zip(x).for_each(|(d, &x)| *d *= f32::from(x > 0.0)),
            Activation::Relu6 => d.iter_mut().zip(x).for_each(|(d, &x)| *d *= f32::from(x > 0.0 && x < 6.0)),
            Activation::Silu => silu_back(x, d),
            Activation::Gelu => gelu_back(x, d),
            Activation::GeluTanh => gelu_tanh_back(x, d),
            Activation::QuickGelu => quick_gelu_back(x, d),
        }
    }

    /// The gradient of [`Activation::gated`]: replaces gates and other values by their gradients, given that of the result.
    pub fn gated_back(self, d: &[f32], width: usize, both: &mut [f32]) {
        if self == Activation::Silu {
            for (d, both) in d.chunks_exact(width).zip(both.chunks_exact_mut(2 * width)) {
                let (gate, up) = both.split_at_mut(width);
                silu_gated_back(d, gate, up);
            }
            return;
        }
        let mut value = vec![0.0; width];
        let mut slope = vec![0.0; width];
        for (d, both) in d.chunks_exact(width).zip(both.chunks_exact_mut(2 * width)) {
            let (gate, up) = both.split_at_mut(width);
            value.copy_from_slice(gate);
            self.apply(&mut value);
            slope.iter_mut().zip(d).zip(&*up).for_each(|((slope, d), up)| *slope = d * up);
            self.back(gate, &mut slope);
            gate.copy_from_slice(&slope);
            up.iter_mut().zip(d).zip(&value).for_each(|((up, d), value)| *up = d * value);
        }
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The upper tail of the normal distribution at `|x|` is `e^(−x²/2) · t · p(t)` with `t = 1 / (1 + 0.26 |x|)`; the
/// polynomial is a minimax fit on [0, 14] with a relative error of 2.5e-8.
#[inline(always)]
fn tail(size: f32) -> f32 {
    let t = 1.0 / 0.26f32.mul_add(size, 1.0);
    let p = 0.030_504_942_f32.mul_add(t, -0.152_829_1).mul_add(t, 0.251_491_85).mul_add(t, -0.150_949_6);
    let p = p.mul_add(t, 0.160_948_3).mul_add(t, 0.051_027_5).mul_add(t, 0.103_030_3);
    let p = p.mul_add(t, 0.103_016_74).mul_add(t, 0.103_759_06);
    p * t * exp(-0.5 * size * size)
}

/// `Φ(x)`.
#[inline(always)]
fn normal(x: f32) -> f32 {
    let tail = tail(x.abs());
    if x > 0.0 { 1.0 - tail } else { tail }
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    let tail = x * tail(x.abs());
    if x > 0.0 { x - tail } else { tail }
}

/// `√(2/π)`.
const ROOT: f32 = 0.797_884_6;

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + tanh(ROOT * x * (0.044_715 * x).mul_add(x, 1.0)))
}

vectorised! {
    fn relu_all(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x = if *x > 0.0 { *x } else { 0.0 });
    }
}

vectorised! {
    fn relu6_all(values: &mut [f32]) {
        for x in values {
            let positive = if *x > 0.0 { *x } else { 0.0 };
            *x = if positive < 6.0 { positive } else { 6.0 };
        }
    }
}

vectorised! {
    fn silu_all(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x *= sigmoid(*x));
    }
}

vectorised! {
    fn gelu_all(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x = gelu(*x));
    }
}

vectorised! {
    fn gelu_tanh_all(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x = gelu_tanh(*x));
    }
}

vectorised! {
    fn quick_gelu_all(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x *= sigmoid(1.702 * *x));
    }
}

vectorised! {
    fn silu_gated(gate: &[f32], up: &[f32], out: &mut [f32]) {
        for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
            *out = gate / (1.0 + exp(-gate)) * up;
        }
    }
}

vectorised! {
    fn silu_gated_back(d: &[f32], gate: &mut [f32], up: &mut [f32]) {
        for ((&d, gate), up) in d.iter().zip(gate).zip(up) {
            let s = sigmoid(*gate);
            let value = *gate * s;
            // f(x) = x · s and f′(x) = s · (1 + x · (1 − s)).
            *gate = d * *up * (s * (1.0 + *gate * (1.0 - s)));
            *up = d * value;
        }
    }
}

vectorised! {
    fn gelu_tanh_gated(gate: &[f32], up: &[f32], out: &mut [f32]) {
        for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
            *out = gelu_tanh(gate) * up;
        }
    }
}

vectorised! {
    fn silu_back(x: &[f32], d: &mut [f32]) {
        for (d, &x) in d.iter_mut().zip(x) {
            let s = sigmoid(x);
            *d *= s * (1.0 + x * (1.0 - s));
        }
    }
}

vectorised! {
    fn gelu_back(x: &[f32], d: &mut [f32]) {
        for (d, &x) in d.iter_mut().zip(x) {
            // φ(x) = e^(−x²/2) / √(2π)
            *d *= normal(x) + x * 0.398_942_3 * exp(-0.5 * x * x);
        }
    }
}

vectorised! {
    fn gelu_tanh_back(x: &[f32], d: &mut [f32]) {
        for (d, &x) in d.iter_mut().zip(x) {
            let t = tanh(ROOT * x * (0.044_715 * x).mul_add(x, 1.0));
            let inner = ROOT * (3.0 * 0.044_715 * x).mul_add(x, 1.0);
            *d *= 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
        }
    }
}

vectorised! {
    fn quick_gelu_back(x: &[f32], d: &mut [f32]) {
        for (d, &x) in d.iter_mut().zip(x) {
            let s = sigmoid(1.702 * x);
            *d *= s * (1.0 + 1.702 * x * (1.0 - s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Activation; 6] = [
        Activation::Relu,
        Activation::Relu6,
        Activation::Silu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::QuickGelu,
    ];

    fn exact(activation: Activation, x: f64) -> f64 {
        match activation {
            Activation::Relu => x.max(0.0),
            Activation::Relu6 => x.clamp(0.0, 6.0),
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt())),
            Activation::GeluTanh => {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
            }
            Activation::QuickGelu => x / (1.0 + (-1.702 * x).exp()),
        }
    }

    #[test]
    fn values_and_slopes_agree_with_the_definitions() {
        let x: Vec<f32> = (-2_000..2_000).map(|i| i as f32 / 151.0).collect();
        for activation in ALL {
            let mut values = x.clone();
            activation.apply(&mut values);
            let mut slopes = vec![1.0; x.len()];
            activation.back(&x, &mut slopes);
            for ((&x, value), slope) in x.iter().zip(values).zip(slopes) {
                let x = f64::from(x);
                let want = exact(activation, x);
                assert!(
                    (f64::from(value) - want).abs() < 4e-7 * (1.0 + want.abs()),
                    "{activation:?} {x} {value} {want}"
                );
                let kink = matches!(activation, Activation::Relu | Activation::Relu6);
                if !kink || x.abs().min((x - 6.0).abs()) > 1e-3 {
                    let h = 1e-4;
                    let want = (exact(activation, x + h) - exact(activation, x - h)) / (2.0 * h);
                    assert!((f64::from(slope) - want).abs() < 2e-6, "{activation:?} {x} {slope} {want}");
                }
            }
        }
    }

    #[test]
    fn gated_products_and_their_gradients() {
        for activation in ALL {
            // Two rows of two gates and two other values.
            let both = [0.5, -1.0, 2.0, 3.0, 1.5, 0.25, -1.0, 4.0];
            let mut out = [0.0; 4];
            activation.gated(&both, 2, &mut out);
            let d = [1.0, -2.0, 0.5, 3.0];
            let mut gradient = both;
            activation.gated_back(&d, 2, &mut gradient);
            for (row, at) in [(0, 0), (1, 4)] {
                for i in 0..2 {
                    let (gate, up, d) = (both[at + i], both[at + 2 + i], d[row * 2 + i]);
                    let f = exact(activation, f64::from(gate)) as f32;
                    assert!((out[row * 2 + i] - f * up).abs() < 2e-6);
                    assert!((gradient[at + 2 + i] - d * f).abs() < 2e-6);
                    let mut slope = [1.0];
                    activation.back(&[gate], &mut slope);
                    assert!((gradient[at + i] - d * up * slope[0]).abs() < 2e-6);
                }
            }
        }
    }
}
