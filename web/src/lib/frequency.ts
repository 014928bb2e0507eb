// Frequency and relative gap of concepts, and what chance does to them, from the tables of the metric `frequency`.

import { delta } from './statistics';
import type { Column, Result } from './types';

export const NULL = 'real against real';

export interface Bin { from: number; to: number; concepts: number; low: number | null; middle: number | null; high: number | null; outside: (number | null)[] }
/** `side` is −1 below the funnel, 1 above it, 0 inside or where there is none; `beyond` is how far outside. */
export interface Point { latent: number; frequency: number; relative: number; gap: number | null; side: -1 | 0 | 1; beyond: number }

const number = (column: Column | undefined, row: number) => (typeof column?.[row] === 'number' ? (column[row] as number) : null);

export function binsOf(result: Result): Bin[] {
  const table = result.tables.funnel ?? {};
  return (table.frequency_from ?? []).map((_, row) => ({
    from: number(table.frequency_from, row) ?? 0, to: number(table.frequency_to, row) ?? 1, concepts: number(table.concepts, row) ?? 0,
    low: number(table.null_low, row), middle: number(table.null_median, row), high: number(table.null_high, row),
    outside: (table.outside_by_model?.[row] as (number | null)[]) ?? [],
  }));
}

/** The concepts of a model (a row of the table by model), or of reality against itself. */
export function pointsOf(result: Result, model: number | null): Point[] {
  const { latent, latent_model: both } = result.tables;
  const bins = binsOf(result);
  const often = new Map((latent?.latent ?? []).map((id, row) => [Number(id), number(latent.frequency, row)]));
  const found: Point[] = [];
  const add = (id: number, relative: number | null, gap: number | null) => {
    const frequency = often.get(id);
    if (!frequency || relative === null) return;
    // Ends of bins are rounded in the file.
    const bin = bins.find((bin) => frequency >= bin.from * (1 - 1e-6) && frequency < bin.to * (1 - 1e-6));
    const known = bin && bin.low !== null && bin.high !== null;
    const [below, over] = known ? [bin.low! - relative, relative - bin.high!] : [0, 0];
    found.push({ latent: id, frequency, relative, gap, side: below > 0 ? -1 : over > 0 ? 1 : 0, beyond: Math.max(0, below, over) });
  };
  if (model === null) (latent?.latent ?? []).forEach((id, row) => add(Number(id), number(latent.null_relative_gap, row), null));
  else (both?.latent ?? []).forEach((id, row) => both.model[row] === model && add(Number(id), number(both.relative_gap, row), number(both.gap, row)));
  return found;
}

/** Relative gaps as they are, or as the paper draws them. */
export function drawn(relative: number, temperature: number | null): number {
  return temperature === null ? relative : delta(relative, temperature);
}
