// Numbers per latent that a map can be coloured by: gaps of models from `blindspots`, and every other table by latent.
//
// Of `blindspots` these are read: the table by latent_model with latent, model (a row of the table by model), gap, gap_low, gap_high
// (its interval) and q (the share of false discoveries); and from the table by latent null_gap, the comparison of reality with itself.

import { load } from './data';
import type { Board, Column, Manifest, Result } from './types';
import { readable } from './words';

/** `model` is the row of a model, and null where a table has one number per latent. */
export interface Source { id: string; title: string; name: string; kind: 'gap' | 'plain'; result: string; model: number | null; column: string; null: boolean; rules: Rules | null }

/** The temperature and thresholds that a result was computed with. */
export interface Rules { temperature: number; low: number; high: number }

export interface Values {
  latent: number[]; value: Float32Array; low: Float32Array | null; high: Float32Array | null; q: Float32Array | null; fires: Float32Array | null;
  place: Map<number, number>;
}

const given = (value: unknown, otherwise: number) => (typeof value === 'number' ? value : otherwise);
const number = (cell: unknown) => (typeof cell === 'number' ? cell : NaN);
const floats = (column: Column | undefined, rows: number[]) => (column ? Float32Array.from(rows, (row) => number(column[row])) : null);

let found: Promise<Source[]> | null = null;
const known = new Map<string, Promise<Values>>();

/** Everything a map can show, gaps first. */
export function sources(manifest: Manifest, boards: Board[]): Promise<Source[]> {
  return (found ??= find(manifest, boards));
}

/** The numbers of a source. */
export function values(source: Source): Promise<Values> {
  const own = known.get(source.id) ?? read(source);
  known.set(source.id, own);
  return own;
}

async function find(manifest: Manifest, boards: Board[]): Promise<Source[]> {
  const label = (id: string) => {
    for (const board of boards) {
      const cell = board.cells.find((cell) => cell.runs.some((run) => run.id === id));
      if (cell) return { set: board.sets[cell.set].label, measure: board.measures[cell.measure].title, data: boards.length > 1 ? board.name : '' };
    }
    return { set: '', measure: '', data: '' };
  };
  const gaps: Source[] = [];
  const plain: Source[] = [];
  for (const listed of manifest.results) {
    const { set, measure, data } = label(listed.id);
    const where = [set, data].filter(Boolean).join(', ');
    if (listed.metric === 'blindspots' && listed.tables.latent_model?.columns.includes('gap')) {
      const result = await load<Result>(`results/${listed.id}`);
      const rows = [...new Set(result.tables.latent_model.model.map(Number))];
      const named: [string, number | null][] = rows.map((row) => [String(result.tables.model?.name?.[row] ?? `model ${row}`), row]);
      if (listed.tables.latent?.columns.includes('null_gap')) named.push(['real against real', null]);
      for (const [name, model] of named) {
        // Several results may have a model of one name: with other seeds, or other dictionaries.
        const twice = gaps.some((other) => other.id === name);
        gaps.push({
          id: twice ? `${name}~${listed.id.slice(0, 8)}` : name, title: twice ? `${name} (${where}, seed ${listed.seed})` : name, name,
          kind: 'gap', result: listed.id, model, column: model === null ? 'null_gap' : 'gap', null: model === null,
          rules: { temperature: Number(listed.params.temperature) || 1, low: given(listed.params.suppressed_below, 0.1), high: given(listed.params.exaggerated_above, 0.9) },
        });
      }
    }
    for (const column of listed.tables.latent?.rows ? listed.tables.latent.numbers : []) {
      if (['latent', 'null_gap', 'null_deviation'].includes(column)) continue;
      plain.push({ id: `${listed.id}.${column}`, title: `${measure}: ${readable(column)} (${where})`, name: column, kind: 'plain', result: listed.id, model: null, column, null: false, rules: null });
    }
  }
  return [...gaps.filter((gap) => !gap.null), ...gaps.filter((gap) => gap.null), ...plain];
}

async function read(source: Source): Promise<Values> {
  const { tables } = await load<Result>(`results/${source.result}`);
  const table = source.model === null ? tables.latent : tables.latent_model;
  const count = Object.values(table)[0]?.length ?? 0;
  const rows = Array.from({ length: count }, (_, row) => row).filter((row) => source.model === null || table.model[row] === source.model);
  const latent = rows.map((row, place) => (table.latent ? number(table.latent[row]) : place));
  const gap = source.model !== null;
  return {
    latent,
    value: floats(table[source.column], rows)!,
    low: gap ? floats(table.gap_low, rows) : null,
    high: gap ? floats(table.gap_high, rows) : null,
    q: gap ? floats(table.q, rows) : null,
    fires: gap ? floats(table.generated_fires, rows) : null,
    place: new Map(latent.map((id, place) => [id, place])),
  };
}

/** How far two models have the same blindspots, as `blindspot_models` says of the same codes. */
export interface Agreement { pearson: number | null; low: number | null; high: number | null; half: number | null }

export async function agreement(manifest: Manifest, a: Source, b: Source): Promise<Agreement | null> {
  const codes = manifest.results.find((one) => one.id === a.result)?.codes;
  const listed = manifest.results.find((one) => one.metric === 'blindspot_models' && one.codes === codes && one.tables.pair);
  if (!listed || a.result !== b.result || a.name === b.name) return null;
  const pair = (await load<Result>(`results/${listed.id}`)).tables.pair;
  const row = pair.first.findIndex((first, row) => [first, pair.second[row]].includes(a.name) && [first, pair.second[row]].includes(b.name));
  const cell = (name: string) => (typeof pair[name]?.[row] === 'number' ? (pair[name][row] as number) : null);
  return row < 0 ? null : { pearson: cell('pearson'), low: cell('pearson_low'), high: cell('pearson_high'), half: cell('split_half') };
}
