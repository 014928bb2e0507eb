// Frequency and relative gap of concepts and their null distribution, from the tables of the metric `frequency`.

import { delta, SIGNIFICANT } from './statistics';
import { listAt, numberAt } from './tables';
import type { Result } from './types';

export const NULL = 'real against real';

export interface Bin { from: number; to: number; concepts: number; low: number | null; middle: number | null; high: number | null; outside: (number | null)[] }
/**
 * `side` is −1 below the funnel, 1 above it, 0 inside; in a bin without a funnel (`byQ`), a significant gap decides. `beyond` is the distance
 * outside the funnel, or from 0 without one.
 */
export interface Point { latent: number; frequency: number; relative: number; gap: number | null; q: number | null; side: -1 | 0 | 1; byQ: boolean; beyond: number }

export function binsOf(result: Result): Bin[] {
  const table = result.tables.funnel ?? {};
  return (table.frequency_from ?? []).map((_, row) => ({
    from: numberAt(table.frequency_from, row) ?? 0, to: numberAt(table.frequency_to, row) ?? 1, concepts: numberAt(table.concepts, row) ?? 0,
    low: numberAt(table.null_low, row), middle: numberAt(table.null_median, row), high: numberAt(table.null_high, row),
    outside: listAt(table.outside_by_model, row),
  }));
}

/** The concepts of a model (a row of the table by model), or of real against real (`null`). */
export function pointsOf(result: Result, model: number | null): Point[] {
  const { latent, latent_model: both } = result.tables;
  const bins = binsOf(result);
  const frequencies = new Map((latent?.latent ?? []).map((id, row) => [Number(id), numberAt(latent.frequency, row)]));
  const points: Point[] = [];
  const add = (id: number, relative: number | null, gap: number | null, q: number | null) => {
    const frequency = frequencies.get(id);
    if (!frequency || relative === null) return;
    // Bin edges are rounded in the file.
    const bin = bins.find((bin) => frequency >= bin.from * (1 - 1e-6) && frequency < bin.to * (1 - 1e-6));
    const byQ = !bin || bin.low === null || bin.high === null;
    const [below, over] = byQ ? [-relative, relative] : [bin.low! - relative, relative - bin.high!];
    const outside = byQ ? q !== null && q < SIGNIFICANT : below > 0 || over > 0;
    points.push({ latent: id, frequency, relative, gap, q, side: !outside ? 0 : below > 0 ? -1 : over > 0 ? 1 : 0, byQ, beyond: outside ? Math.max(0, below, over) : 0 });
  };
  if (model === null) (latent?.latent ?? []).forEach((id, row) => add(Number(id), numberAt(latent.null_relative_gap, row), null, null));
  else (both?.latent ?? []).forEach((id, row) => both.model[row] === model && add(Number(id), numberAt(both.relative_gap, row), numberAt(both.gap, row), numberAt(both.q, row)));
  return points;
}

/** The class of a point, as in the table of the metric. */
export function classOf(point: Point): string {
  return `${['below', 'inside', 'above'][point.side + 1]}${point.byQ ? ' by q' : ''}`;
}

/** How many points are outside, and of how many: in bins with a funnel, and in bins without one, where q decides. */
export function countsOf(points: Point[]): { outside: number; funnel: number; significant: number; without: number } {
  const [within, without] = [points.filter((point) => !point.byQ), points.filter((point) => point.byQ)];
  const outside = (of: Point[]) => of.filter((point) => point.side).length;
  return { outside: outside(within), funnel: within.length, significant: outside(without), without: without.length };
}

/** The relative gap, or with a temperature the δ that the paper plots. */
export function drawn(relative: number, temperature: number | null): number {
  return temperature === null ? relative : delta(relative, temperature);
}
