// What results say about one latent: its gap in every model, and its line in every table by latent.

import { load } from './data';
import { foreign } from './samples';
import { sources, values } from './sources';
import type { Board, Manifest, Measure, Result } from './types';

export interface Gap { id: string; name: string; model: string; result: string; gap: number; low: number | null; high: number | null; q: number | null; fires: number | null; null: boolean; temperature: number }

/** `other`: of another dictionary, where the same number is another latent. */
export interface Fact { metric: string; title: string; set: string; column: string; value: number; other: boolean }
export interface Coalition { set: string; names: string[]; other: boolean }
export interface Facts { gaps: Gap[]; real: { mean: number | null; fires: number | null } | null; numbers: Fact[]; coalitions: Coalition[] }

const cellOf = (table: Result['tables'][string] | undefined, name: string, row: number) => (typeof table?.[name]?.[row] === 'number' ? (table[name][row] as number) : null);

/** Its gap in every model, and in the comparison of reality with itself. */
export async function gapsOf(manifest: Manifest, boards: Board[], latent: number): Promise<Gap[]> {
  const found: Gap[] = [];
  for (const source of (await sources(manifest, boards)).filter((source) => source.kind === 'gap')) {
    const of = await values(source);
    const place = of.place.get(latent);
    if (place === undefined || Number.isNaN(of.value[place])) continue;
    const at = (column: Float32Array | null) => (column && !Number.isNaN(column[place]) ? column[place] : null);
    found.push({ id: source.id, name: source.title, model: source.name, result: source.result, gap: of.value[place], low: at(of.low), high: at(of.high), q: at(of.q), fires: at(of.fires), null: source.null, temperature: source.rules?.temperature ?? 1 });
  }
  return found;
}

export async function facts(manifest: Manifest, boards: Board[], latent: number): Promise<Facts> {
  const gaps = await gapsOf(manifest, boards, latent);
  const table = gaps.length ? (await load<Result>(`results/${gaps[0].result}`)).tables.latent : undefined;
  const row = table?.latent ? table.latent.indexOf(latent) : latent;
  const real = gaps.length ? { mean: cellOf(table, 'real_mean', row), fires: cellOf(table, 'real_fires', row) } : null;
  // The same number is another latent in another dictionary: those stand apart, if it is known which one this card is of.
  const own = manifest.results.find((one) => one.metric === 'blindspots')?.codes ?? manifest.sample_codes;
  const numbers: Fact[] = [];
  const coalitions: Coalition[] = [];
  for (const listed of manifest.results.filter((listed) => !['blindspots', 'cooccurrence'].includes(listed.metric) && listed.tables.latent?.rows)) {
    const table = (await load<Result>(`results/${listed.id}`)).tables.latent;
    const row = table.latent ? table.latent.indexOf(latent) : latent;
    const label = labelled(boards, listed.id);
    if (row < 0 || !label) continue;
    const other = own && listed.codes ? listed.codes !== own : label.baseline !== null;
    for (const [column, cells] of Object.entries(table)) {
      const cell = cells[row];
      // `index` is the number of the latent again.
      if (!['latent', 'index'].includes(column) && typeof cell === 'number') numbers.push({ metric: listed.metric, title: label.measure.title, set: label.set, column, value: cell, other });
      if (column === 'names' && typeof cell === 'string' && cell) coalitions.push({ set: label.set, names: cell.split('; '), other });
    }
  }
  // Numbers of one dictionary stand together.
  const order = [...new Set(numbers.map((one) => one.set))];
  numbers.sort((a, b) => order.indexOf(a.set) - order.indexOf(b.set));
  return { gaps, real, numbers, coalitions };
}

function labelled(boards: Board[], id: string): { set: string; measure: Measure; baseline: string | null } | undefined {
  for (const board of boards) {
    const cell = board.cells.find((cell) => cell.runs.some((run) => run.id === id));
    if (cell) return { set: board.sets[cell.set].label + (boards.length > 1 && board.name ? `, ${board.name}` : ''), measure: board.measures[cell.measure], baseline: board.sets[cell.set].baseline };
  }
}

/** The gaps of the codes that samples are of. */
export async function gapsOfSamples(manifest: Manifest, boards: Board[], latent: number): Promise<Gap[]> {
  return (await gapsOf(manifest, boards, latent)).filter((gap) => !foreign(manifest, gap.result));
}
