// What charts are drawn from, each with its test in tests/units.mjs. Means, intervals, differences and correlations come from the program.

import type { Better } from './types';

export interface Point { x: number; y: number }

/** σ(gap / T): 0.5 means that model and reality agree. */
export function delta(gap: number, temperature: number): number {
  return 1 / (1 + Math.exp(-gap / temperature));
}

/** The points that no other beats in both directions; equal points stay together. A direction of `neither` is taken as lower for x. */
export function pareto<P extends Point>(points: P[], betterX: Better, betterY: Better): P[] {
  const signX = betterX === 'higher' ? 1 : -1;
  const signY = betterY === 'lower' ? -1 : 1;
  const beats = (a: P, b: P) => {
    const dx = signX * (a.x - b.x);
    const dy = signY * (a.y - b.y);
    return dx >= 0 && dy >= 0 && (dx > 0 || dy > 0);
  };
  return points.filter((point) => !points.some((other) => beats(other, point))).sort((a, b) => a.x - b.x || a.y - b.y);
}

export interface Spread extends Point { low?: number | null; high?: number | null; lowX?: number | null; highX?: number | null }

/**
 * How sure it is that a point is on the Pareto front. `surely`: also if it is at the worse ends of its intervals and all others at
 * their better ends. `perhaps`: at its better ends, with all others at their worse ends, nothing beats it. `off`: not even then.
 * A number without an interval is taken as it is.
 */
export function frontiers(points: Spread[], betterX: Better, betterY: Better): ('surely' | 'perhaps' | 'off')[] {
  const upX = betterX === 'higher';
  const upY = betterY !== 'lower';
  const ends = (point: Spread, good: boolean): Point => ({
    x: (upX === good ? point.highX : point.lowX) ?? point.x,
    y: (upY === good ? point.high : point.low) ?? point.y,
  });
  const beats = (a: Point, b: Point) => {
    const dx = (upX ? 1 : -1) * (a.x - b.x);
    const dy = (upY ? 1 : -1) * (a.y - b.y);
    return dx >= 0 && dy >= 0 && (dx > 0 || dy > 0);
  };
  return points.map((point) => {
    const beaten = (good: boolean) => points.some((other) => other !== point && beats(ends(other, !good), ends(point, good)));
    return !beaten(false) ? 'surely' : !beaten(true) ? 'perhaps' : 'off';
  });
}

/** Values at which an axis is marked. */
export function ticks(low: number, high: number, count: number, log = false): number[] {
  if (!(high > low)) return [low];
  if (log) {
    const steps = Math.log10(high / low) < 1.5 ? [1, 2, 5] : [1];
    const out: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const step of steps) out.push(step * 10 ** power);
    }
    const within = out.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    // Over many powers of ten not all of them have room.
    const every = steps.length > 1 ? 1 : Math.ceil(within.length / (2 * count));
    return within.length >= 2 ? within.filter((_, place) => place % every === 0) : ticks(low, high, count);
  }
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const out: number[] = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) {
    out.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  }
  return out;
}

/** Inside a polygon, by counting crossings. */
export function inside(x: number, y: number, polygon: [number, number][]): boolean {
  let within = false;
  for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
    const [xa, ya] = polygon[a];
    const [xb, yb] = polygon[b];
    if (ya > y !== yb > y && x < ((xb - xa) * (y - ya)) / (yb - ya) + xa) within = !within;
  }
  return within;
}
