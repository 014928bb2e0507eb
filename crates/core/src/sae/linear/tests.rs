//! Encoding and decoding of small examples, and every activation against its definition.

use std::borrow::Cow;

use super::*;
use crate::codes::Codes;
use crate::sae::matching_pursuit::MatchingPursuit;
use crate::sae::selector::Rule;
use etalon_kernel::random::{stream, unit};
use etalon_kernel::top_k::largest;

/// Each of two latents reads one coordinate; x − bias = (2, 1).
fn example(activation: Activation) -> Linear {
    Linear::new(Parts {
        arch: "test".into(),
        encoder: vec![1.0, 0.0, 0.0, 1.0],
        encoder_bias: vec![0.0, 0.5],
        decoder: vec![1.0, 0.0, 0.0, 2.0],
        bias: vec![1.0, 1.0],
        subtract_bias: true,
        input: Normalisation::None,
        activation,
    })
    .unwrap()
}

fn encode(dictionary: &Linear, values: &[f32]) -> Codes {
    let tile = Tile { first_row: 0, width: dictionary.card().width, values: Cow::Borrowed(values) };
    let mut out = CodesBuilder::new(dictionary.card().latents);
    dictionary.encode(&tile, &mut out).unwrap();
    out.finish()
}

#[test]
fn a_small_example_is_encoded_and_decoded() {
    let dictionary = example(Activation::Relu);
    let codes = encode(&dictionary, &[3.0, 2.0, 0.0, 0.0]);
    let view = codes.all().unwrap();
    // (2, 1 + 0.5); the second row gives (−1, −0.5), so nothing fires.
    assert_eq!(view.row(0), (&[0u32, 1][..], &[2.0f32, 1.5][..]));
    assert_eq!(view.row(1).0.len(), 0);
    let mut back = vec![0.0; 4];
    dictionary.decode(&view, None, &mut back).unwrap();
    assert_eq!(back, [3.0, 4.0, 1.0, 1.0]);
}

#[test]
fn activations_of_a_small_example() {
    let row = |activation| {
        let codes = encode(&example(activation), &[3.0, 2.0, -1.0, 1.0]);
        let all = codes.all().unwrap();
        (0..2).map(|row| all.row(row).0.iter().copied().zip(all.row(row).1.to_vec()).collect()).collect::<Vec<Vec<_>>>()
    };
    // Pre-activations: (2, 1.5) and (−2, 0.5).
    assert_eq!(row(Activation::TopK(1)), [vec![(0, 2.0)], vec![(1, 0.5)]]);
    assert_eq!(row(Activation::Threshold(vec![2.0, 1.0])), [vec![(1, 1.5)], vec![]]);
    assert_eq!(row(Activation::Threshold(vec![-3.0, -3.0])), [vec![(0, 2.0), (1, 1.5)], vec![(1, 0.5)]]);
    assert_eq!(row(Activation::Signed), [vec![(0, 2.0), (1, 1.5)], vec![(0, -2.0), (1, 0.5)]]);
    let gated = Activation::Gated {
        gate_bias: vec![0.0, -1.0],
        magnitude_scale: vec![2.0, 2.0],
        magnitude_bias: vec![-5.0, 1.0],
    };
    // Gates open at (2, 0.5 above 0) and (−2, −0.5): 2 · 2 − 5 < 0 is nothing, 2 · 1.5 + 1 = 4.
    assert_eq!(row(gated), [vec![(1, 4.0)], vec![]]);
}

#[test]
fn a_guess_changes_no_code() {
    let (rows, width, latents) = (40, 6, 70);
    let mut random = stream(9, "guess", 0);
    let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
    let parts = Parts {
        arch: "test".into(),
        encoder: draw(latents * width),
        encoder_bias: draw(latents),
        decoder: draw(latents * width),
        bias: vec![0.0; width],
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::TopK(8),
    };
    let (used, values) = (Linear::new(parts.clone()).unwrap(), draw(rows * width));
    // Guesses that are too high for none, some and all of the rows; rows of zeros have no length.
    for guess in [0.0f32, 1e-3, 0.3, 0.5, 0.7, 1e9, f32::MAX] {
        used.set_guess(guess);
        let mut values = values.clone();
        values[5 * width..7 * width].fill(0.0);
        let fresh = Linear::new(parts.clone()).unwrap();
        assert_eq!(encode(&used, &values).id().unwrap(), encode(&fresh, &values).id().unwrap());
    }
}

#[test]
fn codes_do_not_depend_on_the_precision() {
    let (rows, width, latents) = (150, 21, 500);
    let mut random = stream(4, "precision", 0);
    let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
    let (mut values, threshold) = (draw(rows * width), vec![1.6; latents]);
    values[..width].fill(0.0);
    values[3 * width] = 1e5;
    for (activation, rule) in [(Activation::TopK(7), Rule::PerRow(7)), (Activation::Threshold(threshold), Rule::Above)]
    {
        let parts = Parts {
            arch: "test".into(),
            encoder: draw(latents * width),
            encoder_bias: draw(latents).iter().map(|bias| bias / 9.0).collect(),
            decoder: draw(latents * width),
            bias: draw(width),
            subtract_bias: true,
            input: Normalisation::None,
            activation,
        };
        let mut exact = Linear::new(parts.clone()).unwrap();
        exact.set_precision(Precision::F32);
        let expected = encode(&exact, &values).id().unwrap();
        let mut prefiltered = Linear::new(parts).unwrap();
        prefiltered.set_precision(Precision::Int8);
        // The pre-filter starts once the first rows have set a guess.
        for round in 0..3 {
            assert_eq!(prefiltered.rounded(rule).is_some(), round > 0);
            assert_eq!(encode(&prefiltered, &values).id().unwrap(), expected);
        }
        assert!(exact.rounded(rule).is_none() && exact.precision() == "f32");
        assert_eq!(prefiltered.precision(), "int8 candidates, f32 values");
        // Overflow is refused with either precision.
        values[40 * width..][..width].fill(3e38);
        let refused = |dictionary: &Linear| {
            let tile = Tile { first_row: 0, width, values: Cow::Borrowed(&values) };
            dictionary.encode(&tile, &mut CodesBuilder::new(latents)).unwrap_err().to_string()
        };
        assert!(refused(&prefiltered).contains("row 40") && refused(&exact) == refused(&prefiltered));
        values[40 * width..][..width].fill(0.1);
    }
}

#[test]
fn parts_of_different_sizes_are_refused() {
    let parts = example(Activation::Relu).parts();
    let why = |change: fn(&mut Parts)| {
        let mut parts = parts.clone();
        change(&mut parts);
        Linear::new(parts).unwrap_err().to_string()
    };
    assert!(why(|parts| parts.encoder.truncate(3)).contains("encoder"));
    assert!(why(|parts| parts.activation = Activation::TopK(3)).contains("k from 1 to 2"));
    assert!(why(|parts| parts.activation = Activation::TopK(0)).contains("k from 1 to 2"));
    assert!(why(|parts| parts.activation = Activation::Threshold(vec![1.0])).contains("threshold"));
    assert!(why(|parts| parts.bias.clear()).contains("width 0"));
}

#[test]
fn decoding_restores_the_scale_of_a_normalised_row() {
    let mut parts = example(Activation::Signed).parts();
    parts.input = Normalisation::ConstantNorm;
    let dictionary = Linear::new(parts).unwrap();
    // The norm 5 becomes √2.
    let codes = encode(&dictionary, &[3.0, 4.0]);
    let tile = Tile { first_row: 0, width: 2, values: Cow::Borrowed(&[3.0, 4.0][..]) };
    let mut back = vec![0.0; 2];
    let view = codes.all().unwrap();
    dictionary.decode(&view, Some(&tile), &mut back).unwrap();
    // (x − 1 + (0, 0.5)) · (1, 2) + 1 with x = (3, 4) · √2 / 5, then · 5 / √2.
    let scale = 5.0 / 2f32.sqrt();
    let expected = [3.0, ((4.0 / scale - 0.5) * 2.0 + 1.0) * scale];
    assert!(back.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{back:?} {expected:?}");
    assert!(dictionary.decode(&view, None, &mut back).unwrap_err().to_string().contains("without the activations"));
}

#[test]
fn overflow_is_refused_with_its_row() {
    let tile = Tile { first_row: 40, width: 2, values: Cow::Borrowed(&[1.0, 1.0, f32::MAX, 0.0]) };
    let mut parts = example(Activation::Relu).parts();
    parts.encoder = vec![f32::MAX, 0.0, 0.0, 1.0];
    let error = Linear::new(parts).unwrap().encode(&tile, &mut CodesBuilder::new(2)).unwrap_err().to_string();
    assert!(error.contains("row 41, latent 0"), "{error}");
}

/// The dense codes of a row, by the definition.
fn plain(parts: &Parts, row: &[f32]) -> Vec<f32> {
    let chain = |weights: &[f32]| {
        let centred = row.iter().zip(&parts.bias).map(|(value, bias)| value - bias);
        centred.zip(weights).fold(0.0f32, |sum, (value, weight)| value.mul_add(*weight, sum))
    };
    let pre: Vec<f32> =
        parts.encoder.chunks_exact(row.len()).zip(&parts.encoder_bias).map(|(w, b)| chain(w) + b).collect();
    let each = |value: &dyn Fn(usize) -> f32| (0..pre.len()).map(value).collect::<Vec<f32>>();
    match &parts.activation {
        Activation::Relu => each(&|l| pre[l].max(0.0)),
        Activation::Threshold(t) => each(&|l| if pre[l] > t[l] { pre[l].max(0.0) } else { 0.0 }),
        Activation::Signed => pre,
        Activation::Standardised { .. } => unreachable!("tested against overcomplete"),
        Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => each(&|l| {
            let open = pre[l] + gate_bias[l] > 0.0;
            if open { (pre[l] * magnitude_scale[l] + magnitude_bias[l]).max(0.0) } else { 0.0 }
        }),
        Activation::TopK(k) => {
            let (mut top, mut kept) = (Vec::new(), vec![0.0; pre.len()]);
            largest(&pre, *k, &mut top);
            top.iter().filter(|(value, _)| *value > 0.0).for_each(|&(value, l)| kept[l as usize] = value);
            kept
        }
        Activation::Pursuit(pursuit) => {
            let mut residual: Vec<f32> = row.iter().zip(&parts.bias).map(|(value, bias)| value - bias).collect();
            let mut codes = vec![0.0f32; pre.len()];
            for _ in 0..pursuit.k {
                let chain = |w: &[f32]| residual.iter().zip(w).fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
                let products: Vec<f32> = parts.encoder.chunks_exact(row.len()).map(chain).collect();
                let size = |l: usize| if pursuit.signed { products[l] } else { products[l].abs() };
                let best = (1..pre.len()).fold(0, |best, l| if size(l) > size(best) { l } else { best });
                if products[best] == 0.0 {
                    break;
                }
                codes[best] += products[best];
                let direction = &parts.decoder[best * row.len()..][..row.len()];
                residual.iter_mut().zip(direction).for_each(|(r, d)| *r = (-products[best]).mul_add(*d, *r));
            }
            codes
        }
        Activation::Largest(k) => {
            let sizes: Vec<f32> = pre.iter().map(|value| value.abs()).collect();
            let (mut top, mut kept) = (Vec::new(), vec![0.0; pre.len()]);
            largest(&sizes, *k, &mut top);
            top.iter().for_each(|&(_, l)| kept[l as usize] = pre[l as usize]);
            kept
        }
        Activation::Nearest => {
            let best = (1..pre.len()).fold(0, |best, l| if pre[l] > pre[best] { l } else { best });
            each(&|l| if l == best { 1.0 } else { 0.0 })
        }
    }
}

#[test]
fn codes_equal_the_definition_bit_for_bit() {
    for (rows, width, latents) in [(1, 5, 3), (12, 8, 32), (13, 7, 33), (100, 16, 257)] {
        let mut random = stream(rows as u64, "selector test", 0);
        // Nine distinct values, so that there are ties.
        let mut draw = |count: usize| -> Vec<f32> {
            (0..count).map(|_| (unit(&mut random) * 9.0).floor() as f32 / 4.0 - 1.0).collect()
        };
        let gated = Activation::Gated {
            gate_bias: draw(latents),
            magnitude_scale: draw(latents),
            magnitude_bias: draw(latents),
        };
        let keeps = [1, 2, 5, 40].map(|k: usize| Activation::TopK(k.min(latents)));
        let others = [Activation::Relu, Activation::Signed, Activation::Threshold(draw(latents)), gated];
        let pursuits =
            [(1, false), (3, true), (3, false)].map(|(k, signed)| Activation::Pursuit(MatchingPursuit { k, signed }));
        let signed = [Activation::Nearest, Activation::Largest(1), Activation::Largest(latents.min(40))];
        let values = draw(rows * width);
        for activation in keeps.into_iter().chain(others).chain(pursuits).chain(signed) {
            let parts = Parts {
                arch: "test".into(),
                encoder: draw(latents * width),
                encoder_bias: draw(latents),
                decoder: draw(latents * width),
                bias: draw(width),
                subtract_bias: true,
                input: Normalisation::None,
                activation,
            };
            let dense: Vec<f32> = values.chunks_exact(width).flat_map(|row| plain(&parts, row)).collect();
            let expected = Codes::from_dense(&dense, latents).unwrap().id().unwrap();
            let dictionary = Linear::new(parts.clone()).unwrap();
            assert_eq!(encode(&dictionary, &values).id().unwrap(), expected, "{:?}", parts.activation);
            assert_eq!(dictionary.parts(), parts);
        }
    }
}
