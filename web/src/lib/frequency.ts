// Frequency and relative gap of concepts and their null distribution, from the tables of the metric `frequency`.

import { delta } from './statistics';
import { listAt, numberAt } from './tables';
import type { Result } from './types';

export const NULL = 'real against real';

export interface Bin { from: number; to: number; concepts: number; low: number | null; middle: number | null; high: number | null; outside: (number | null)[] }
/** `side` is −1 below the funnel, 1 above it, 0 inside or without a funnel; `beyond` is the distance outside. */
export interface Point { latent: number; frequency: number; relative: number; gap: number | null; side: -1 | 0 | 1; beyond: number }

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
  const add = (id: number, relative: number | null, gap: number | null) => {
    const frequency = frequencies.get(id);
    if (!frequency || relative === null) return;
    // Bin edges are rounded in the file.
    const bin = bins.find((bin) => frequency >= bin.from * (1 - 1e-6) && frequency < bin.to * (1 - 1e-6));
    const known = bin && bin.low !== null && bin.high !== null;
    const [below, over] = known ? [bin.low! - relative, relative - bin.high!] : [0, 0];
    points.push({ latent: id, frequency, relative, gap, side: below > 0 ? -1 : over > 0 ? 1 : 0, beyond: Math.max(0, below, over) });
  };
  if (model === null) (latent?.latent ?? []).forEach((id, row) => add(Number(id), numberAt(latent.null_relative_gap, row), null));
  else (both?.latent ?? []).forEach((id, row) => both.model[row] === model && add(Number(id), numberAt(both.relative_gap, row), numberAt(both.gap, row)));
  return points;
}

/** The relative gap, or with a temperature the δ that the paper plots. */
export function drawn(relative: number, temperature: number | null): number {
  return temperature === null ? relative : delta(relative, temperature);
}
