//! `shapes3d-like`: an object on a coloured floor before a coloured wall, ray-cast. Not the published 3dshapes, which were
//! drawn with another program, with textures and shadows.

use super::factor_grid::{FactorSpec, Family, settings};
use super::{Setting, World, WorldCard, WorldMaker, WorldSettings};
use crate::context::Context;
use crate::error::Result;

pub(super) struct Shapes3d;

static CARD: WorldCard = WorldCard {
    name: "shapes3d-like",
    summary: "Ray-cast images in the manner of 3dshapes, of six factors, up to five of which depend on others; not \
        the published images.",
    definition: "Factors: hue of floor, wall and object (10 each), scale (8), shape (cube, cylinder, sphere, \
        capsule), orientation of the camera (15 from −30° to 30°). A pinhole camera 6 units from the object, \
        looking at it from a height of 1.4, in a room of 20 × 20 units with walls of 5 units and a light sky; \
        ambient light 0.55 and diffuse light 0.45 from the upper left; no texture and no shadow. Concepts: each \
        factor in the lower half. Independent factors use every second hue and every fourth orientation. `lambda` = \
        1 to 5 makes wall, object, scale, shape and orientation dependent on the factor before, one after the other, \
        as in `dsprites`; in the paper the concept of the shape chooses the part, also for the shape itself, in the \
        program (`variant` = `code`) the concept of the factor before. Task: c5 ? 4 c1 + 2 c2 + c3 : 8 + 2 c4 + c6 (`code`: c5 ? 4 \
        + 4 c3 + 2 c4 + c6 : 2 c1 + c2). `corruption` changes pixels of value 0 only, of which there are few here.",
    settings: &SETTINGS,
};

static SETTINGS: [Setting; 7] = settings(5);

static FAMILY: Family = Family {
    name: "shapes3d-like",
    factors: &[
        FactorSpec {
            name: "floor_hue",
            concept: "warm_floor",
            classes: 10,
            threshold: 5,
            steps: [2, 2],
            parts: [7, 3],
        },
        FactorSpec { name: "wall_hue", concept: "warm_wall", classes: 10, threshold: 5, steps: [2, 1], parts: [7, 3] },
        FactorSpec {
            name: "object_hue",
            concept: "warm_object",
            classes: 10,
            threshold: 5,
            steps: [2, 1],
            parts: [7, 3],
        },
        FactorSpec { name: "scale", concept: "small", classes: 8, threshold: 4, steps: [1, 1], parts: [6, 2] },
        FactorSpec {
            name: "shape",
            concept: "cube_or_cylinder",
            classes: 4,
            threshold: 2,
            steps: [1, 1],
            parts: [3, 1],
        },
        FactorSpec {
            name: "orientation",
            concept: "seen_from_left",
            classes: 15,
            threshold: 7,
            steps: [4, 1],
            parts: [9, 6],
        },
    ],
    root: 4,
    channels: 3,
    render,
    task,
    tasks: 12,
    slip: None,
};

impl WorldMaker for Shapes3d {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        FAMILY.make(settings, seed, context)
    }
}

/// The class of the task in the paper, or in the released program.
pub(super) fn task(factors: &[usize], code: bool) -> u32 {
    let c: Vec<u32> =
        FAMILY.factors.iter().zip(factors).map(|(spec, &class)| u32::from(class < spec.threshold)).collect();
    match (c[4] == 1, code) {
        (true, false) => 4 * c[0] + 2 * c[1] + c[2],
        (false, false) => 8 + 2 * c[3] + c[5],
        (true, true) => 4 + 4 * c[2] + 2 * c[3] + c[5],
        (false, true) => 2 * c[0] + c[1],
    }
}

type Vector = [f64; 3];

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn along(start: Vector, direction: Vector, distance: f64) -> Vector {
    std::array::from_fn(|axis| start[axis] + distance * direction[axis])
}

fn unit_length(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}

/// Full saturation and brightness at a hue of tenths.
fn colour(hue: usize) -> Vector {
    let sector = hue as f64 * 0.6;
    let part = |offset: f64| {
        let distance = ((sector + offset) % 6.0 - 3.0).abs() - 1.0;
        distance.clamp(0.0, 1.0)
    };
    [part(0.0), part(4.0), part(2.0)]
}

/// The height of the floor; the object stands on it.
const FLOOR: f64 = -1.0;

/// The nearest hit of a ray with the object: distance and normal.
fn object(shape: usize, size: f64, start: Vector, direction: Vector) -> Option<(f64, Vector)> {
    let centre = [0.0, FLOOR + size, 0.0];
    let from: Vector = std::array::from_fn(|axis| start[axis] - centre[axis]);
    let sphere = |middle: f64| {
        let from = [from[0], from[1] - middle, from[2]];
        let radius = if shape == 3 { 0.6 * size } else { size };
        let (half, rest) = (dot(from, direction), dot(from, from) - radius * radius);
        let root = half * half - rest;
        let distance = -half - root.max(0.0).sqrt();
        (root > 0.0 && distance > 0.0).then(|| (distance, unit_length(along(from, direction, distance))))
    };
    let round = |radius: f64, half: f64| {
        let (a, b) = (direction[0].powi(2) + direction[2].powi(2), from[0] * direction[0] + from[2] * direction[2]);
        let root = b * b - a * (from[0].powi(2) + from[2].powi(2) - radius * radius);
        let distance = (-b - root.max(0.0).sqrt()) / a;
        let at = along(from, direction, distance);
        let side =
            (root > 0.0 && distance > 0.0 && at[1].abs() <= half).then(|| (distance, unit_length([at[0], 0.0, at[2]])));
        let top = (half - from[1]) / direction[1];
        let at = along(from, direction, top);
        let lid = (top > 0.0 && at[0].powi(2) + at[2].powi(2) <= radius * radius).then_some((top, [0.0, 1.0, 0.0]));
        (side, lid)
    };
    let nearest = |hits: [Option<(f64, Vector)>; 3]| hits.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
    match shape {
        0 => {
            let half = 0.85 * size;
            // Slabs; the object is turned by nothing, the camera moves.
            let mut enter = (f64::NEG_INFINITY, [0.0; 3]);
            let mut leave = f64::INFINITY;
            for axis in 0..3 {
                let bounds = if axis == 1 { [-size, 2.0 * half - size] } else { [-half, half] };
                let [near, far] = {
                    let hits = bounds.map(|bound| (bound - from[axis]) / direction[axis]);
                    [hits[0].min(hits[1]), hits[0].max(hits[1])]
                };
                if near > enter.0 {
                    let mut normal = [0.0; 3];
                    normal[axis] = -direction[axis].signum();
                    enter = (near, normal);
                }
                leave = leave.min(far);
            }
            (enter.0 > 0.0 && enter.0 < leave).then_some(enter)
        }
        1 => {
            let (side, lid) = round(0.8 * size, size);
            nearest([side, lid, None])
        }
        2 => sphere(0.0),
        _ => {
            let (side, _) = round(0.6 * size, 0.4 * size);
            nearest([side, sphere(0.4 * size), sphere(-0.4 * size)])
        }
    }
}

fn render(factors: &[usize], side: usize, out: &mut [u8]) {
    let [floor, wall, thing] = [0, 1, 2].map(|factor| colour(factors[factor]));
    let size = 0.75 + 0.5 * factors[3] as f64 / 7.0;
    let angle = (-30.0 + 60.0 * factors[5] as f64 / 14.0) * std::f64::consts::PI / 180.0;
    let camera = [6.0 * libm::sin(angle), 1.4, -6.0 * libm::cos(angle)];
    let forward = unit_length([-camera[0], -camera[1], -camera[2]]);
    let right = unit_length([forward[2], 0.0, -forward[0]]);
    let up = [
        forward[1] * right[2] - forward[2] * right[1],
        forward[2] * right[0] - forward[0] * right[2],
        forward[0] * right[1] - forward[1] * right[0],
    ];
    let light = unit_length([-0.6, 1.0, -0.6]);
    for (index, pixel) in out.chunks_exact_mut(3).enumerate() {
        let at = |number: usize| ((number as f64 + 0.5) / side as f64 - 0.5) * 64.0 / 48.0;
        let (x, y) = (at(index % side), -at(index / side));
        let direction = unit_length(std::array::from_fn(|axis| forward[axis] + x * right[axis] + y * up[axis]));
        let hit = object(factors[4], size, camera, direction).map(|(distance, normal)| (distance, normal, thing));
        let ground = (FLOOR - camera[1]) / direction[1];
        let mut hits = vec![(ground > 0.0).then_some((ground, [0.0, 1.0, 0.0], floor)), hit];
        for axis in [0, 2] {
            let sign = direction[axis].signum();
            let distance = (10.0 * sign - camera[axis]) / direction[axis];
            let mut normal = [0.0; 3];
            normal[axis] = -sign;
            let below = along(camera, direction, distance)[1] <= FLOOR + 5.0;
            hits.push((distance > 0.0 && below).then_some((distance, normal, wall)));
        }
        let nearest = hits.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
        let shown = match nearest {
            Some((_, normal, colour)) => colour.map(|part| part * (0.55 + 0.45 * dot(normal, light).max(0.0)) * 255.0),
            None => [153.0, 226.0, 249.0],
        };
        pixel.iter_mut().zip(shown).for_each(|(byte, value)| *byte = value.round() as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_and_tasks() {
        assert_eq!((colour(0), colour(5)), ([1.0, 0.0, 0.0], [0.0, 1.0, 1.0]));
        // All concepts: paper 4 + 2 + 1, code 4 + 4 + 2 + 1. Only the shape is high: 8 + 2 + 1, and 2 + 1.
        assert_eq!((task(&[0; 6], false), task(&[0; 6], true)), (7, 11));
        let sphere = [0, 0, 0, 0, 2, 0];
        assert_eq!((task(&sphere, false), task(&sphere, true)), (11, 3));
    }

    #[test]
    fn every_factor_changes_the_image() {
        let image = |factors: [usize; 6]| {
            let mut out = vec![0; 32 * 32 * 3];
            render(&factors, 32, &mut out);
            out
        };
        let base = [0, 2, 4, 3, 1, 7];
        for factor in 0..6 {
            let mut other = base;
            other[factor] += 1;
            assert_ne!(image(base), image(other), "factor {factor}");
        }
        // The middle shows the object, the lowest row the floor, the highest the sky.
        let shown = image(base);
        let at = |x: usize, y: usize| &shown[(y * 32 + x) * 3..][..3];
        assert!(at(16, 31)[0] > 100 && at(16, 31)[1] < 20, "{:?}", at(16, 31));
        assert_eq!(at(16, 0), [153, 226, 249]);
        assert!(at(16, 17)[1] > 100, "{:?}", at(16, 17));
    }

    #[test]
    fn sizes() {
        assert_eq!(FAMILY.combinations(0, true, 1).len(), 5 * 5 * 5 * 8 * 4 * 4);
        // The halves of the program: wall and object 5 of 10, as many as without a dependency; scale 4 of 8, shape 2 of 4,
        // orientation 7 of 15 instead of 4.
        for (lambda, size) in [(1, 16_000), (2, 16_000), (3, 8_000), (4, 4_000), (5, 7_000)] {
            assert_eq!(FAMILY.combinations(lambda, false, 1).len(), size, "lambda {lambda}");
        }
        for (lambda, size) in [(1, 16_000), (2, 16_000), (3, 8_000)] {
            assert_eq!(FAMILY.combinations(lambda, true, 1).len(), size, "lambda {lambda}");
        }
        // A shape is kept if it is among two of three that go with the scale: each with probability 2/3.
        let count = FAMILY.combinations(4, true, 1).len();
        assert!((3_000..8_000).contains(&count), "{count}");
    }
}
