// Queries on a board: the numbers that can be plotted, and their values for an input set.

import { change, type Change } from './differences';
import type { Better, Board, Card, InputSet, Measure, Run } from './types';
import { readable } from './format';

/** A number that can be an axis of a chart or a column of a table. */
export interface Choice { id: string; title: string; better: Better; measure: number | null; key: string }

const NUMBERS: Record<string, string> = { l0: 'L0 (active latents per row)', latents: 'latents (width)', k: 'k (target of active latents)' };

export function choices(board: Board): Choice[] {
  const names = [...new Set(board.sets.flatMap((set) => Object.keys(set.numbers)))];
  const order = ['l0', 'latents', 'k'];
  names.sort((a, b) => (order.indexOf(a) + 9) % 9 - (order.indexOf(b) + 9) % 9 || (a < b ? -1 : 1));
  const numbers: Choice[] = names.map((name) => ({
    id: name, title: NUMBERS[name] ?? readable(name), better: name === 'l0' ? 'lower' : 'neither', measure: null, key: name,
  }));
  const measures = board.measures.flatMap((measure, index) =>
    measure.keys.map(({ key, better }, position) => ({
      id: `${measure.slug}.${key}`,
      title: position === 0 ? measure.title : `${measure.title}: ${readable(key)}`,
      better, measure: index, key,
    })),
  );
  return [...numbers, ...measures];
}

/** The data set with the most cells: the default. */
export function richest(boards: Board[]): Board {
  return boards.reduce((best, board) => (board.cells.length > (best?.cells.length ?? -1) ? board : best), boards[0]);
}

export function mains(board: Board): Choice[] {
  const all = choices(board);
  return board.measures.flatMap((measure) => all.filter((choice) => choice.id === `${measure.slug}.${measure.keys[0]?.key}`));
}

/** A value and the interval of the selected kind of noise. */
export interface Shown { value: number; low: number | null; high: number | null; n: number; runs: number; deviation: number | null }

export function valueOf(board: Board, set: number, choice: Choice, error: 'seeds' | 'sample'): Shown | null {
  if (choice.measure === null) {
    const value = board.sets[set].numbers[choice.key];
    return value === undefined ? null : { value, low: null, high: null, n: 1, runs: 1, deviation: null };
  }
  const score = cellAt(board, set, choice)?.scores[choice.key];
  if (!score || score.value === null) return null;
  const { value, n, runs, deviation } = score;
  const [low, high] = error === 'seeds' && runs > 1 ? [score.seeds_low, score.seeds_high] : [score.low, score.high];
  return { value, low, high, n, runs, deviation };
}

function cellAt(board: Board, set: number, choice: Choice) {
  return board.cells.find((cell) => cell.set === set && cell.measure === choice.measure);
}

export function runsOf(board: Board, set: number, choice: Choice) {
  return cellAt(board, set, choice)?.runs ?? [];
}

/** The difference of the main number of a measure between two sets. */
export function changeOf(board: Board, set: number, base: number, choice: Choice): Change | null {
  return choice.measure === null ? null : change(board.differences[choice.measure], set, base);
}

/** The family of a set, which its sizes share: the architecture if known, else the name. */
export function family(set: InputSet): string {
  return set.group ?? set.name;
}

/** The colour of a family. */
export function colour(board: Board, set: InputSet): number {
  const names = [...new Set(board.sets.filter((other) => !other.baseline).map(family))];
  return Math.max(0, names.indexOf(family(set))) % 8;
}

export function card(cards: Card[], measure: Measure | string): Card | undefined {
  const name = typeof measure === 'string' ? measure : measure.metric;
  return cards.find((card) => card.name === name);
}

/** The board, measure and input set of a result. */
export function cellOf(boards: Board[], id: string): { board: Board; measure: Measure; set: InputSet } | null {
  for (const board of boards) {
    const cell = board.cells.find((cell) => cell.runs.some((run) => run.id === id));
    if (cell) return { board, measure: board.measures[cell.measure], set: board.sets[cell.set] };
  }
  return null;
}

/** The label of a run: that of its input set, or the name of its dictionary if the set has dictionaries of several seeds. */
export function runLabel(set: InputSet, run: Run | undefined): string {
  return run?.name && run.name !== set.name ? run.name : set.label;
}

/** The label of a result: its input set, and its data set if there are several. */
export function labelOf(boards: Board[], id: string): string {
  const cell = cellOf(boards, id);
  const run = cell?.board.cells.flatMap((one) => one.runs).find((one) => one.id === id);
  return cell ? `${runLabel(cell.set, run)}${boards.length > 1 && cell.board.name ? `, ${cell.board.name}` : ''}` : id.slice(0, 12);
}
