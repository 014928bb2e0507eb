// Values per latent that can colour the map: gaps of models from `blindspots`, and every other table by latent.
//
// Columns read from `blindspots`: latent, model (a row of the table by model), gap, gap_low, gap_high (its interval) and q (false discovery
// rate) of the table by latent_model; null_gap with its interval and q (real against real) and real_fires of the table by latent.

import { cellOf, labelOf } from './board';
import { load } from './data';
import { readable } from './format';
import { SIGNIFICANT } from './statistics';
import { numberAt } from './tables';
import type { Board, Column, Manifest, Result } from './types';

/** `model` is the row of a model, or null if a table has one number per latent. */
export interface Source { id: string; title: string; name: string; kind: 'gap' | 'plain'; result: string; model: number | null; column: string; null: boolean; rules: Rules | null }

/** The temperature and thresholds that a result was computed with. */
export interface Rules { temperature: number; low: number; high: number }

export interface Values {
  latent: number[]; value: Float64Array; low: Float64Array | null; high: Float64Array | null; q: Float64Array | null; fires: Float64Array | null;
  /** The relative gap, and the number of real rows on which the latent fires. */
  relative: Float64Array | null; frequency: Float64Array | null;
  /** The number of significant gaps, if known. */
  significant: number | null;
  /** The index of each latent in these arrays. */
  indexOf: Map<number, number>;
}

const numberOr = (value: unknown, otherwise: number) => (typeof value === 'number' ? value : otherwise);
const number = (cell: unknown) => (typeof cell === 'number' ? cell : NaN);
const floats = (column: Column | undefined, rows: number[]) => (column ? Float64Array.from(rows, (row) => number(column[row])) : null);

let all: Promise<Source[]> | null = null;
const cache = new Map<string, Promise<Values>>();

/** All sources, gaps first. */
export function sources(manifest: Manifest, boards: Board[]): Promise<Source[]> {
  return (all ??= find(manifest, boards));
}

/** The values of a source. */
export function values(source: Source): Promise<Values> {
  const columns = cache.get(source.id) ?? read(source);
  cache.set(source.id, columns);
  return columns;
}

async function find(manifest: Manifest, boards: Board[]): Promise<Source[]> {
  const gaps: Source[] = [];
  const plain: Source[] = [];
  for (const listed of manifest.results) {
    const cell = cellOf(boards, listed.id);
    const where = cell ? labelOf(boards, listed.id) : '';
    if (listed.metric === 'blindspots' && listed.tables.latent_model?.columns.includes('gap')) {
      const result = await load<Result>(`results/${listed.id}`);
      const rows = [...new Set(result.tables.latent_model.model.map(Number))];
      const named: [string, number | null][] = rows.map((row) => [String(result.tables.model?.name?.[row] ?? `model ${row}`), row]);
      if (listed.tables.latent?.columns.includes('null_gap')) named.push(['real against real', null]);
      for (const [name, model] of named) {
        // Several results may have a model with this name, from other seeds or dictionaries.
        const duplicate = gaps.some((other) => other.id === name);
        gaps.push({
          id: duplicate ? `${name}~${listed.id.slice(0, 8)}` : name, title: duplicate ? `${name} (${where}, seed ${listed.seed})` : name, name,
          kind: 'gap', result: listed.id, model, column: model === null ? 'null_gap' : 'gap', null: model === null,
          rules: { temperature: Number(listed.params.temperature) || 1, low: numberOr(listed.params.suppressed_below, 0.1), high: numberOr(listed.params.exaggerated_above, 0.9) },
        });
      }
    }
    for (const column of listed.tables.latent?.rows ? listed.tables.latent.numbers : []) {
      if (column === 'latent' || column.startsWith('null_')) continue;
      plain.push({ id: `${listed.id}.${column}`, title: `${cell?.measure.title ?? ''}: ${readable(column)} (${where})`, name: column, kind: 'plain', result: listed.id, model: null, column, null: false, rules: null });
    }
  }
  return [...gaps.filter((gap) => !gap.null), ...gaps.filter((gap) => gap.null), ...plain];
}

async function read(source: Source): Promise<Values> {
  const { tables } = await load<Result>(`results/${source.result}`);
  const table = source.model === null ? tables.latent : tables.latent_model;
  const count = Object.values(table)[0]?.length ?? 0;
  const rows = Array.from({ length: count }, (_, row) => row).filter((row) => source.model === null || table.model[row] === source.model);
  const latent = rows.map((row, index) => (table.latent ? number(table.latent[row]) : index));
  const gap = source.kind === 'gap';
  // The interval and q of a model, or of real against real.
  const [prefix, q] = source.null ? ['null_gap', 'null_q'] : ['gap', 'q'];
  const qs = gap ? floats(table[q], rows) : null;
  const fires = new Map((tables.latent?.latent ?? []).map((id, row) => [id, number(tables.latent.real_fires?.[row])]));
  const inTable = tables.model?.name?.indexOf(source.name) ?? -1;
  return {
    latent,
    value: floats(table[source.column], rows)!,
    low: gap ? floats(table[`${prefix}_low`], rows) : null,
    high: gap ? floats(table[`${prefix}_high`], rows) : null,
    q: qs,
    fires: gap && !source.null ? floats(table.generated_fires, rows) : null,
    relative: gap && !source.null ? floats(table.relative_gap, rows) : null,
    frequency: gap && tables.latent?.real_fires ? Float64Array.from(latent, (id) => fires.get(id) ?? NaN) : null,
    significant: qs ? qs.filter((value) => value < SIGNIFICANT).length : gap ? numberAt(tables.model?.significant, inTable) : null,
    indexOf: new Map(latent.map((id, index) => [id, index])),
  };
}

/** The correlation of the blindspots of two models, from `blindspot_models` on the same codes. */
export interface Agreement { pearson: number | null; low: number | null; high: number | null; half: number | null }

export async function agreement(manifest: Manifest, a: Source, b: Source): Promise<Agreement | null> {
  const codes = manifest.results.find((one) => one.id === a.result)?.codes;
  const listed = manifest.results.find((one) => one.metric === 'blindspot_models' && one.codes === codes && one.tables.pair);
  if (!listed || a.result !== b.result || a.name === b.name) return null;
  const pair = (await load<Result>(`results/${listed.id}`)).tables.pair;
  const row = pair.first.findIndex((first, row) => [first, pair.second[row]].includes(a.name) && [first, pair.second[row]].includes(b.name));
  return row < 0 ? null : { pearson: numberAt(pair.pearson, row), low: numberAt(pair.pearson_low, row), high: numberAt(pair.pearson_high, row), half: numberAt(pair.split_half, row) };
}
