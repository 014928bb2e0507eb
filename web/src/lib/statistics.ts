// Small statistics, each with its test in tests/units.mjs.

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

/** Ranks from 1, ties share their mean. */
export function ranks(values: number[]): number[] {
  const order = values.map((_, place) => place).sort((a, b) => values[a] - values[b] || a - b);
  const out = new Array<number>(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to + 1 < order.length && values[order[to + 1]] === values[order[from]]) to++;
    for (let place = from; place <= to; place++) out[order[place]] = (from + to) / 2 + 1;
    from = to + 1;
  }
  return out;
}

export function pearson(a: number[], b: number[]): number | null {
  if (a.length < 3) return null;
  const mean = (list: number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += (a[i] - ma) * (b[i] - mb);
    aa += (a[i] - ma) ** 2;
    bb += (b[i] - mb) ** 2;
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : null;
}

export function spearman(a: number[], b: number[]): number | null {
  return pearson(ranks(a), ranks(b));
}

/** What several runs say together. */
export interface Summary { value: number; low: number | null; high: number | null; n: number; runs: number; deviation: number | null }

const STUDENT = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281];

/** `seeds` gives the interval of the mean over seeds, `sample` the mean interval of the runs. */
export function summary(runs: { value: number | null; low: number | null; high: number | null; n: number }[], error: 'seeds' | 'sample'): Summary | null {
  const defined = runs.filter((run) => run.value !== null);
  if (!defined.length) return null;
  const mean = (list: number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const values = defined.map((run) => run.value!);
  const value = mean(values);
  const count = values.length;
  const deviation = count > 1 ? Math.sqrt(values.reduce((sum, one) => sum + (one - value) ** 2, 0) / (count - 1)) : null;
  let [low, high]: (number | null)[] = [null, null];
  if (error === 'seeds' && deviation !== null) {
    const half = ((STUDENT[count - 2] ?? 1.96) * deviation) / Math.sqrt(count);
    [low, high] = [value - half, value + half];
  } else {
    const known = defined.filter((run) => run.low !== null && run.high !== null);
    if (known.length) [low, high] = [mean(known.map((run) => run.low!)), mean(known.map((run) => run.high!))];
  }
  return { value, low, high, n: defined[0].n, runs: count, deviation };
}

/** A difference with its interval: half-widths of independent numbers add as squares. `null` when nothing is known of the noise. */
export function difference(a: Summary, b: Summary): { value: number; half: number | null; noise: boolean } {
  const half = (of: Summary) => (of.low === null || of.high === null ? null : (of.high - of.low) / 2);
  const [ha, hb] = [half(a), half(b)];
  const value = a.value - b.value;
  const both = ha === null || hb === null ? null : Math.hypot(ha, hb);
  return { value, half: both, noise: both !== null && Math.abs(value) <= both };
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
