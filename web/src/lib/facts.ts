// The values of one latent in all results: its gap in every model, and its row in every table by latent.

import { cellOf, labelOf } from './board';
import { load } from './data';
import { foreign, sameDictionary } from './dictionary';
import { sources, values } from './sources';
import { numberAt, rowOfLatent } from './tables';
import type { Board, Manifest, Result } from './types';

export interface Gap { id: string; name: string; model: string; result: string; gap: number; low: number | null; high: number | null; q: number | null; fires: number | null; null: boolean; temperature: number }

/** `other`: from another dictionary, where the same index is a different latent. */
export interface Fact { metric: string; title: string; set: string; column: string; value: number; other: boolean }
export interface Coalition { set: string; names: string[]; other: boolean }
export interface Facts { gaps: Gap[]; real: { mean: number | null; fires: number | null } | null; numbers: Fact[]; coalitions: Coalition[] }

/** The gap in every model, and in real against real. */
export async function gapsOf(manifest: Manifest, boards: Board[], latent: number): Promise<Gap[]> {
  const gaps: Gap[] = [];
  for (const source of (await sources(manifest, boards)).filter((source) => source.kind === 'gap')) {
    const columns = await values(source);
    const index = columns.indexOf.get(latent);
    if (index === undefined || Number.isNaN(columns.value[index])) continue;
    const at = (column: Float64Array | null) => (column && !Number.isNaN(column[index]) ? column[index] : null);
    gaps.push({ id: source.id, name: source.title, model: source.name, result: source.result, gap: columns.value[index], low: at(columns.low), high: at(columns.high), q: at(columns.q), fires: at(columns.fires), null: source.null, temperature: source.rules?.temperature ?? 1 });
  }
  return gaps;
}

export async function facts(manifest: Manifest, boards: Board[], latent: number): Promise<Facts> {
  const gaps = await gapsOf(manifest, boards, latent);
  const table = gaps.length ? (await load<Result>(`results/${gaps[0].result}`)).tables.latent : undefined;
  const row = table ? rowOfLatent(table, latent) : -1;
  const real = gaps.length ? { mean: numberAt(table?.real_mean, row), fires: numberAt(table?.real_fires, row) } : null;
  // The same index is a different latent in another dictionary: mark those, if the dictionary of this card is known.
  const own = manifest.results.find((one) => one.metric === 'blindspots')?.codes ?? manifest.sample_codes;
  const numbers: Fact[] = [];
  const coalitions: Coalition[] = [];
  for (const listed of manifest.results.filter((listed) => !['blindspots', 'cooccurrence'].includes(listed.metric) && listed.tables.latent?.rows)) {
    const table = (await load<Result>(`results/${listed.id}`)).tables.latent;
    const row = rowOfLatent(table, latent);
    const cell = cellOf(boards, listed.id);
    if (row < 0 || !cell) continue;
    const { measure, set } = cell;
    const label = labelOf(boards, listed.id);
    const other = own && listed.codes ? !sameDictionary(manifest, listed.codes, own) : set.baseline !== null;
    for (const [column, cells] of Object.entries(table)) {
      const value = cells[row];
      // `index` repeats the index of the latent.
      if (!['latent', 'index'].includes(column) && typeof value === 'number') numbers.push({ metric: listed.metric, title: measure.title, set: label, column, value, other });
      if (column === 'names' && typeof value === 'string' && value) coalitions.push({ set: label, names: value.split('; '), other });
    }
  }
  // Group the numbers by dictionary.
  const order = [...new Set(numbers.map((one) => one.set))];
  numbers.sort((a, b) => order.indexOf(a.set) - order.indexOf(b.set));
  return { gaps, real, numbers, coalitions };
}

/** The gaps that belong to the codes of the samples. */
export async function gapsOfSamples(manifest: Manifest, boards: Board[], latent: number): Promise<Gap[]> {
  return (await gapsOf(manifest, boards, latent)).filter((gap) => !foreign(manifest, gap.result));
}
