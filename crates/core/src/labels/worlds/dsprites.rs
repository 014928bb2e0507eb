//! `dsprites`: white shapes on black, drawn by the geometry of the published images, with dependent factors.

use super::factor_grid::{FactorSpec, Family, settings};
use super::{Setting, World, WorldCard, WorldMaker, WorldSettings};
use crate::context::Context;
use crate::error::Result;

pub(super) struct Dsprites;

static CARD: WorldCard = WorldCard {
    name: "dsprites",
    summary: "Squares, ellipses and hearts of five factors, up to four of which depend on others; a task of eight \
        classes.",
    definition: "Factors: shape (square, ellipse, heart), scale (0.5 to 1 in 6 steps), orientation (40 steps, the \
        last equal to the first), horizontal and vertical position (32 each). A pixel is white if its centre is \
        inside: centre 16 + 32·position of 64 pixels; square of half side 9.6, ellipse of half axes 12.77 and 7.21, \
        heart u = 9.6 sin³t, v = −0.6628 (13 cos t − 5 cos 2t − 2 cos 3t − cos 4t) − 1.45, times the scale, turned \
        counter-clockwise; measured on the published images, from which a few boundary pixels differ. Concepts: \
        shape is not a heart, scale in the lower half, orientation below a half turn, left half, upper half. \
        Independent factors use every second scale and position and every fourth orientation. `lambda` = 1 to 4 \
        makes scale, orientation, horizontal and vertical position dependent, one after the other: with every class of \
        the factor before go half of their classes, drawn at random from the lower three quarters where the first \
        concept is present and from the upper three quarters where it is not (`variant` = `code`: from the parts \
        that the released program uses, chosen by the concept of the factor before; hearts, whose shape that \
        program compares with the scales, have all scales or do not occur). Task: c1 ? 2 c2 + c4 : 4 + 2 c3 + c5 (`code`: c1 ? 2 c2 + c3 : 4 + 2 [x < 15] \
        + [y < 15]). Rows are drawn without replacement until all combinations are used. `corruption`: the share of \
        images whose black becomes 0.1 · class. The classes are drawn with the seed, not with the numbers of the \
        released program.",
    settings: &SETTINGS,
};

static SETTINGS: [Setting; 7] = settings(4);

static FAMILY: Family = Family {
    name: "dsprites",
    factors: &[
        FactorSpec { name: "shape", concept: "not_heart", classes: 3, threshold: 2, steps: [1, 1], parts: [3, 0] },
        FactorSpec { name: "scale", concept: "small", classes: 6, threshold: 3, steps: [2, 1], parts: [4, 2] },
        FactorSpec {
            name: "orientation",
            concept: "first_half_turn",
            classes: 40,
            threshold: 20,
            steps: [4, 2],
            parts: [30, 10],
        },
        FactorSpec { name: "x", concept: "left", classes: 32, threshold: 16, steps: [2, 1], parts: [20, 12] },
        FactorSpec { name: "y", concept: "top", classes: 32, threshold: 16, steps: [2, 1], parts: [20, 12] },
    ],
    root: 0,
    channels: 1,
    render,
    task,
    tasks: 8,
    slip: Some((1, 2)),
};

impl WorldMaker for Dsprites {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        FAMILY.make(settings, seed, context)
    }
}

/// The class of the task in the paper, or in the released program.
pub(super) fn task(factors: &[usize], code: bool) -> u32 {
    let [shape, scale, orientation, x, y] =
        [factors[0] < 2, factors[1] < 3, factors[2] < 20, factors[3] < 16, factors[4] < 16];
    let bits = |high: bool, low: bool| 2 * u32::from(high) + u32::from(low);
    match (shape, code) {
        (true, false) => bits(scale, x),
        (false, false) => 4 + bits(orientation, y),
        (true, true) => bits(scale, orientation),
        (false, true) => 4 + bits(factors[3] < 15, factors[4] < 15),
    }
}

/// Points of the heart's outline.
const OUTLINE: usize = 256;

fn heart() -> Vec<[f64; 2]> {
    let point = |number: usize| {
        let t = std::f64::consts::TAU * number as f64 / OUTLINE as f64;
        let sine = libm::sin(t);
        let v = 13.0 * libm::cos(t) - 5.0 * libm::cos(2.0 * t) - 2.0 * libm::cos(3.0 * t) - libm::cos(4.0 * t);
        [9.6 * sine * sine * sine, -0.6628 * v - 1.45]
    };
    (0..OUTLINE).map(point).collect()
}

fn render(factors: &[usize], side: usize, out: &mut [u8]) {
    let [shape, scale, orientation, x, y] = [0, 1, 2, 3, 4].map(|factor| factors[factor]);
    let scale = 0.5 + 0.1 * scale as f64;
    let angle = std::f64::consts::TAU * orientation as f64 / 39.0;
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let centre = [x, y].map(|place| 16.0 + 32.0 * place as f64 / 31.0);
    let outline = if shape == 2 { heart() } else { Vec::new() };
    for (index, pixel) in out.chunks_exact_mut(3).enumerate() {
        let at = |number: usize| (number as f64 + 0.5) * 64.0 / side as f64;
        let (dx, dy) = (at(index % side) - centre[0], at(index / side) - centre[1]);
        let (u, v) = ((cosine * dx - sine * dy) / scale, (sine * dx + cosine * dy) / scale);
        let inside = match shape {
            0 => u.abs() <= 9.6 && v.abs() <= 9.6,
            1 => (u / 12.77).powi(2) + (v / 7.21).powi(2) <= 1.0,
            // Farther than any point of the heart.
            _ => u * u + v * v < 225.0 && crossings(&outline, u, v) % 2 == 1,
        };
        pixel.fill(if inside { 255 } else { 0 });
    }
}

/// How often a ray to the right crosses a closed outline.
fn crossings(outline: &[[f64; 2]], u: f64, v: f64) -> usize {
    let next = outline.iter().skip(1).chain(outline.first());
    outline
        .iter()
        .zip(next)
        .filter(|([_, start], [_, end])| (*start > v) != (*end > v))
        .filter(|([u0, v0], [u1, v1])| u < u0 + (v - v0) * (u1 - u0) / (v1 - v0))
        .count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::labels::worlds::make;

    fn image(factors: [usize; 5]) -> Vec<u8> {
        let mut out = vec![0; 64 * 64 * 3];
        render(&factors, 64, &mut out);
        out.into_iter().step_by(3).map(|byte| byte / 255).collect()
    }

    fn world(settings: &[(&str, &str)]) -> World {
        let given: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        make("dsprites", &given, 3, &Context::silent(2, 1 << 31).unwrap()).unwrap()
    }

    #[test]
    fn shapes_have_their_areas_and_places() {
        // Scale 1, orientation 0, centre (16, 16): a square of 19.2² = 368.6 pixels, an ellipse of π · 12.77 · 7.21 = 289.3.
        let count = |factors| image(factors).iter().map(|&pixel| usize::from(pixel)).sum::<usize>();
        assert!((361..=400).contains(&count([0, 5, 0, 0, 0])), "{}", count([0, 5, 0, 0, 0]));
        assert!((280..=300).contains(&count([1, 5, 0, 0, 0])), "{}", count([1, 5, 0, 0, 0]));
        let heart = count([2, 5, 0, 16, 16]);
        assert!((180..=300).contains(&heart), "{heart}");
        // A quarter of the area at half the scale, and the last orientation is the first.
        assert!((heart / 5..=heart / 3).contains(&count([2, 0, 0, 16, 16])));
        assert_eq!(image([2, 3, 0, 9, 20]), image([2, 3, 39, 9, 20]));
        // The square at (0, 0) covers columns 7 to 25 of row 16 (6.4 to 25.6, pixel centres).
        let row: Vec<usize> = (0..64).filter(|&x| image([0, 5, 0, 0, 0])[16 * 64 + x] == 1).collect();
        assert_eq!((row.first(), row.last()), (Some(&6), Some(&25)));
        // Without a turn the tip of the heart is below: fewer pixels in the lower rows.
        let heart = image([2, 5, 0, 16, 16]);
        let in_row = |y: usize| heart[y * 64..][..64].iter().filter(|&&pixel| pixel == 1).count();
        let rows: Vec<usize> = (0..64).filter(|&y| in_row(y) > 0).collect();
        assert!(in_row(rows[rows.len() - 1]) < in_row(rows[2]));
    }

    #[test]
    fn tasks_are_those_of_the_paper_and_of_the_program() {
        // Ellipse, small, first half turn, x 15, y 31: c = 1 1 1 1 0.
        let factors = [1, 0, 0, 15, 31];
        assert_eq!((task(&factors, false), task(&factors, true)), (3, 3));
        // Heart: paper 4 + 2·1 + 0; code 4 + 2·[15 < 15] + 0.
        let factors = [2, 0, 0, 15, 31];
        assert_eq!((task(&factors, false), task(&factors, true)), (6, 4));
    }

    #[test]
    fn sizes_and_dependencies() {
        assert_eq!(FAMILY.combinations(0, true, 1).len(), 3 * 3 * 10 * 16 * 16);
        for lambda in 1..=4 {
            let all = FAMILY.combinations(lambda, true, 1);
            assert_eq!(all.len(), 23_040, "lambda {lambda}");
            // Every shape has its own three scales, and one pair of shape and scale its own orientations.
            let of = |shape: usize, factor: usize| -> std::collections::BTreeSet<usize> {
                all.iter().filter(|factors| factors[0] == shape).map(|factors| factors[factor]).collect()
            };
            assert!((0..3).all(|shape| of(shape, 1).len() == 3), "lambda {lambda}");
            assert!(lambda < 2 || (0..3).any(|shape| of(shape, 2).len() > 10), "lambda {lambda}");
            // Scale depends on the shape: its mean differs between hearts and others.
            let mean = |heart: bool| {
                let scales: Vec<usize> = all.iter().filter(|f| (f[0] == 2) == heart).map(|f| f[1]).collect();
                scales.iter().sum::<usize>() as f64 / scales.len() as f64
            };
            assert!(mean(true) > mean(false));
        }
        let hearts = |seed| FAMILY.combinations(1, false, seed).iter().filter(|factors| factors[0] == 2).count();
        let counts: Vec<usize> = (0..20).map(hearts).collect();
        assert!(counts.iter().all(|&count| count == 0 || count == 6 * 10 * 256) && counts.contains(&15_360));
    }

    #[test]
    fn corrupted_backgrounds_tell_the_class() {
        let world =
            world(&[("rows", "300"), ("corruption", "0.75"), ("pairs", "0"), ("weak_pairs", "50"), ("side", "32")]);
        let (images, classes) = (world.images.as_ref().unwrap(), world.classes.as_ref().unwrap());
        let corner = |row: usize| images.row(row).unwrap()[0];
        let told = (0..300).filter(|&row| classes[row] > 0 && corner(row) == (255 * classes[row] / 10) as u8).count();
        let possible = classes.iter().filter(|&&class| class > 0).count();
        assert!((possible * 6 / 10..possible * 9 / 10).contains(&told), "{told} of {possible}");
        assert_eq!(world.weak_pairs.len(), 50);
        let factors = world.factors.as_ref().unwrap();
        assert_eq!((factors.count(), factors.rows(), world.activations.width()), (5, 300, 32 * 32));
    }
}
