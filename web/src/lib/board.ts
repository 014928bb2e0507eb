// Questions to a board: which numbers there are, and what they are for an input set.

import { change, type Change } from './differences';
import type { Better, Board, Card, InputSet, Measure } from './types';
import { readable } from './words';

/** Something that can stand on an axis or head a column. */
export interface Choice { id: string; title: string; better: Better; measure: number | null; key: string }

const NUMBERS: Record<string, string> = { l0: 'L0 (active latents per row)', latents: 'latents (width)', k: 'k (active latents asked for)' };

export function choices(board: Board): Choice[] {
  const names = [...new Set(board.sets.flatMap((set) => Object.keys(set.numbers)))];
  const order = ['l0', 'latents', 'k'];
  names.sort((a, b) => (order.indexOf(a) + 9) % 9 - (order.indexOf(b) + 9) % 9 || (a < b ? -1 : 1));
  const numbers: Choice[] = names.map((name) => ({
    id: name, title: NUMBERS[name] ?? readable(name), better: name === 'l0' ? 'lower' : 'neither', measure: null, key: name,
  }));
  const measures = board.measures.flatMap((measure, place) =>
    measure.keys.map(({ key, better }, which) => ({
      id: `${measure.slug}.${key}`,
      title: which === 0 ? measure.title : `${measure.title}: ${readable(key)}`,
      better, measure: place, key,
    })),
  );
  return [...numbers, ...measures];
}

/** The data set with the most to compare: where a visitor begins. */
export function richest(boards: Board[]): Board {
  return boards.reduce((best, board) => (board.cells.length > (best?.cells.length ?? -1) ? board : best), boards[0]);
}

export function mains(board: Board): Choice[] {
  const all = choices(board);
  return board.measures.flatMap((measure) => all.filter((choice) => choice.id === `${measure.slug}.${measure.keys[0]?.key}`));
}

/** What is shown of a number: its value, and the interval of the kind of noise that was asked for. */
export interface Shown { value: number; low: number | null; high: number | null; n: number; runs: number; deviation: number | null }

export function valueOf(board: Board, set: number, choice: Choice, error: 'seeds' | 'sample'): Shown | null {
  if (choice.measure === null) {
    const value = board.sets[set].numbers[choice.key];
    return value === undefined ? null : { value, low: null, high: null, n: 1, runs: 1, deviation: null };
  }
  const score = cellOf(board, set, choice)?.scores[choice.key];
  if (!score || score.value === null) return null;
  const { value, n, runs, deviation } = score;
  const [low, high] = error === 'seeds' && runs > 1 ? [score.seeds_low, score.seeds_high] : [score.low, score.high];
  return { value, low, high, n, runs, deviation };
}

function cellOf(board: Board, set: number, choice: Choice) {
  return board.cells.find((cell) => cell.set === set && cell.measure === choice.measure);
}

export function runsOf(board: Board, set: number, choice: Choice) {
  return cellOf(board, set, choice)?.runs ?? [];
}

/** The main number of a measure in one set less that in another. */
export function changeOf(board: Board, set: number, base: number, choice: Choice): Change | null {
  return choice.measure === null ? null : change(board.differences[choice.measure], set, base);
}

/** What sets have in common that are one thing in several sizes: their architecture if it is said, else their name. */
export function family(set: InputSet): string {
  return set.group ?? set.name;
}

/** A colour that sets of one family share. */
export function colour(board: Board, set: InputSet): number {
  const names = [...new Set(board.sets.filter((other) => !other.baseline).map(family))];
  return Math.max(0, names.indexOf(family(set))) % 8;
}

export function card(cards: Card[], measure: Measure | string): Card | undefined {
  const name = typeof measure === 'string' ? measure : measure.metric;
  return cards.find((card) => card.name === name);
}

/** What a result is of, for people: its input set, and its data if there are several. */
export function labelOf(boards: Board[], id: string): string {
  for (const board of boards) {
    const cell = board.cells.find((cell) => cell.runs.some((run) => run.id === id));
    if (cell) return `${board.sets[cell.set].label}${boards.length > 1 && board.name ? `, ${board.name}` : ''}`;
  }
  return id.slice(0, 12);
}
