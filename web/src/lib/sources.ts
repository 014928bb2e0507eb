// Numbers per latent that a map can be coloured by: gaps of models from `blindspots`, and every other table by latent.
//
// Of a table of `blindspots` these columns are read: latent, model, gap, low and high (the interval of the gap), q (the share of
// false discoveries), and freely real, generated, fired. A model named null… or real… is the comparison of reality with itself.

import { load } from './data';
import type { Board, Column, Manifest, Result } from './types';
import { readable } from './words';

export interface Source { id: string; title: string; kind: 'gap' | 'plain'; result: string; model: string | null; column: string; null: boolean }

export interface Values {
  latent: number[]; value: Float32Array; low: Float32Array | null; high: Float32Array | null; q: Float32Array | null;
  place: Map<number, number>;
}

const number = (cell: unknown) => (typeof cell === 'number' ? cell : NaN);
const floats = (column: Column | undefined, rows: number[]) => (column ? Float32Array.from(rows, (row) => number(column[row])) : null);

export const isNull = (model: string) => /^(null|real)/i.test(model);

/** Everything a map can show, gaps first. The models of a result are known only when it is loaded. */
export function sources(manifest: Manifest, boards: Board[]): Promise<Source[]> {
  return (found ??= find(manifest, boards));
}

let found: Promise<Source[]> | null = null;
const known = new Map<string, Promise<Values>>();

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
    const table = listed.tables.latent;
    if (!table?.rows) continue;
    const { set, measure, data } = label(listed.id);
    if (listed.metric === 'blindspots' && table.columns.includes('gap')) {
      const result = await load<Result>(`results/${listed.id}`);
      const models = result.tables.latent.model ? [...new Set(result.tables.latent.model.map(String))] : [null];
      for (const model of models) {
        const name = model ?? set;
        const seed = gaps.some((other) => other.id === name) ? `~${listed.id.slice(0, 8)}` : '';
        gaps.push({ id: name + seed, title: name + (seed ? ` (seed ${listed.seed})` : ''), kind: 'gap', result: listed.id, model, column: 'gap', null: isNull(name) });
      }
    } else {
      for (const column of table.columns.filter((name) => name !== 'latent' && name !== 'names' && name !== 'concepts')) {
        const where = [set, data].filter(Boolean).join(', ');
        plain.push({ id: `${listed.id}.${column}`, title: `${measure}: ${readable(column)} (${where})`, kind: 'plain', result: listed.id, model: null, column, null: false });
      }
    }
  }
  return [...gaps, ...plain];
}

export function values(source: Source): Promise<Values> {
  const own = known.get(source.id) ?? read(source);
  known.set(source.id, own);
  return own;
}

async function read(source: Source): Promise<Values> {
  const table = (await load<Result>(`results/${source.result}`)).tables.latent;
  const models = table.model;
  const rows: number[] = [];
  const count = Object.values(table)[0]?.length ?? 0;
  for (let row = 0; row < count; row++) if (source.model === null || String(models?.[row]) === source.model) rows.push(row);
  const latent = rows.map((row, place) => (table.latent ? number(table.latent[row]) : place));
  const gap = source.kind === 'gap';
  return {
    latent,
    value: floats(table[source.column], rows)!,
    low: gap ? floats(table.low, rows) : null,
    high: gap ? floats(table.high, rows) : null,
    q: gap ? floats(table.q, rows) : null,
    place: new Map(latent.map((id, place) => [id, place])),
  };
}
