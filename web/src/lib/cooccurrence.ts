// Curves from the tables of the metric `cooccurrence`: the number of co-occurring pairs of concepts, the spectrum, and the angles between
// the leading eigenvectors of real and generated rows. Half of the rows are compared with half of the real rows, so that counts are comparable.

import type { Curve } from '../parts/Curves.svelte';
import type { Column, Result } from './types';

const REAL = 7;
const NULL = 6;

type Table = Record<string, Column>;
const points = (table: Table, x: string, y: string) =>
  (table[x] ?? []).flatMap((value, row) => (typeof value === 'number' && typeof table[y]?.[row] === 'number' ? [{ x: value, y: table[y][row] as number }] : []));

export const colourOf = (models: string[], model: string) => Math.max(0, models.indexOf(model)) % 6;

/** The models in order: the spectra have one column per model, after the ranks and the real rows. */
export function modelsOf(result: Result): string[] {
  return Object.keys(result.tables.eigenvalue ?? {}).slice(2);
}

/** The number of pairs that co-occur more strongly than a threshold. */
export function sparsity(result: Result, models: string[]): Curve[] {
  const table = result.tables.threshold ?? {};
  return [{ label: 'real', colour: REAL, points: points(table, 'threshold', 'real') }, ...models.map((model) => ({ label: model, colour: colourOf(models, model), points: points(table, 'threshold', model) }))];
}

/** The number of pairs that only one side has: half of a model against half of the real rows, and the two real halves as null. */
export function oneSided(result: Result, model: string): Curve[] {
  const table = result.tables.threshold ?? {};
  const of = (label: string, column: string, colour: number, dashed: boolean) => ({ label, colour, dashed, points: points(table, 'threshold', column) });
  return [
    of('unique', `unique in half 2 of ${model}`, 1, false), of('missing', `missing in half 2 of ${model}`, 0, false),
    of('unique, real halves', 'only in real half 2', 1, true), of('missing, real halves', 'only in real half 1', 0, true),
  ];
}

/** Eigenvalues above the rounding error, with the same cut-off as the metric. */
export function spectra(result: Result, models: string[]): Curve[] {
  const table = result.tables.eigenvalue ?? {};
  const of = (label: string, colour: number) => {
    const all = points(table, 'rank', label);
    return { label, colour, points: all.filter((point) => point.y > 1e-10 * (all[0]?.y ?? 0)) };
  };
  return [of('real', REAL), ...models.map((model) => of(model, colourOf(models, model)))];
}

export function angles(result: Result, models: string[]): Curve[] {
  const table = result.tables['principal angle'] ?? {};
  const halves = models.map((model) => ({ label: `${model}, halves`, colour: colourOf(models, model), points: points(table, 'place', `half 2 of ${model}`) }));
  return [{ label: 'real halves', colour: NULL, dashed: true, points: points(table, 'place', 'real halves') }, ...halves];
}

/** The absolute cosine of every real eigenvector with every generated one. */
export function cosines(result: Result, model: string): number[][] {
  return ((result.tables.eigenvector?.[model] ?? []) as (number | null)[][]).map((row) => row.map((cosine) => cosine ?? 0));
}
