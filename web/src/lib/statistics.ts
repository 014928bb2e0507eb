// Helper functions for charts, tested in tests/units.mjs. Means, intervals, differences and correlations are computed by the program.

import type { Better } from './types';

export interface Point { x: number; y: number }

/** σ(gap / T); 0.5 means no gap. */
export function delta(gap: number, temperature: number): number {
  return 1 / (1 + Math.exp(-gap / temperature));
}

/** Gaps with a smaller q are significant. */
export const SIGNIFICANT = 0.05;

/** −log10 of q with the sign of the gap, as a share of 10 decades: −1 to 1. */
export function signedLevel(q: number, gap: number): number {
  return Math.sign(gap) * Math.min(1, -Math.log10(Math.max(q, 1e-300)) / 10);
}

/** The temperature at which `count` of the gaps are beyond the thresholds, or as many as can be; null if all gaps are 0. */
export function fittedTemperature(gaps: ArrayLike<number>, count: number, low: number, high: number): number | null {
  // δ < low means gap / T < −ln((1 − low) / low), and δ > high means gap / T > ln(high / (1 − high)).
  const reach = (gap: number) => Math.abs(gap) / (gap < 0 ? Math.log((1 - low) / low) : Math.log(high / (1 - high)));
  const temperatures = Array.from(gaps, (gap) => reach(gap)).filter((value) => Number.isFinite(value) && value > 0).sort((a, b) => b - a);
  const last = temperatures[Math.min(count, temperatures.length) - 1];
  // Three digits, rounded down, so that the last one is beyond the threshold too.
  if (!last) return null;
  const step = 10 ** (Math.floor(Math.log10(last)) - 2);
  return Number((Math.ceil(last / step - 1 - 1e-9) * step).toPrecision(3));
}

/** The Pareto front: points that no other point dominates; equal points do not dominate each other. `neither` counts as lower for x and higher for y. */
export function pareto<P extends Point>(points: P[], betterX: Better, betterY: Better): P[] {
  const signX = betterX === 'higher' ? 1 : -1;
  const signY = betterY === 'lower' ? -1 : 1;
  const dominates = (a: P, b: P) => {
    const dx = signX * (a.x - b.x);
    const dy = signY * (a.y - b.y);
    return dx >= 0 && dy >= 0 && (dx > 0 || dy > 0);
  };
  return points.filter((point) => !points.some((other) => dominates(other, point))).sort((a, b) => a.x - b.x || a.y - b.y);
}

export interface Spread extends Point { low?: number | null; high?: number | null; lowX?: number | null; highX?: number | null }

/**
 * Whether a point is on the Pareto front, given its intervals. `surely`: not dominated even at the worse ends of its intervals with all others
 * at their better ends. `perhaps`: not dominated at its better ends with all others at their worse ends. `off`: dominated in both cases.
 * A number without an interval counts as exact.
 *
 * Only compares ends of intervals that the program computed. It depends on the two axes, the kind of interval and the filter that the user
 * selects: for all combinations the program would have to send more data than the whole board has.
 */
export function frontiers(points: Spread[], betterX: Better, betterY: Better): ('surely' | 'perhaps' | 'off')[] {
  const upX = betterX === 'higher';
  const upY = betterY !== 'lower';
  const ends = (point: Spread, good: boolean): Point => ({
    x: (upX === good ? point.highX : point.lowX) ?? point.x,
    y: (upY === good ? point.high : point.low) ?? point.y,
  });
  const dominates = (a: Point, b: Point) => {
    const dx = (upX ? 1 : -1) * (a.x - b.x);
    const dy = (upY ? 1 : -1) * (a.y - b.y);
    return dx >= 0 && dy >= 0 && (dx > 0 || dy > 0);
  };
  return points.map((point) => {
    const dominated = (good: boolean) => points.some((other) => other !== point && dominates(ends(other, !good), ends(point, good)));
    return !dominated(false) ? 'surely' : !dominated(true) ? 'perhaps' : 'off';
  });
}

/** Tick positions of an axis. */
export function ticks(low: number, high: number, count: number, log = false): number[] {
  if (!(high > low)) return [low];
  if (log) {
    const steps = Math.log10(high / low) < 1.5 ? [1, 2, 5] : [1];
    const out: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const step of steps) out.push(step * 10 ** power);
    }
    const within = out.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    // Over many powers of ten, skip some.
    const every = steps.length > 1 ? 1 : Math.ceil(within.length / (2 * count));
    return within.length >= 2 ? within.filter((_, index) => index % every === 0) : ticks(low, high, count);
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

/** Whether a point is inside a polygon, by counting crossings. */
export function inside(x: number, y: number, polygon: [number, number][]): boolean {
  let within = false;
  for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
    const [xa, ya] = polygon[a];
    const [xb, yb] = polygon[b];
    if (ya > y !== yb > y && x < ((xb - xa) * (y - ya)) / (yb - ya) + xa) within = !within;
  }
  return within;
}
