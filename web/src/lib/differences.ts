// Differences between two input sets, as computed by the program.

import type { Differences } from './types';

export interface Change { value: number; low: number | null; high: number | null; noise: boolean | null; paired: boolean }

const indices = new WeakMap<Differences, Map<string, number>>();

/** The difference `set` minus `base`. Every pair is stored once; the reverse is negated. Null if a set has no value, or if there are too many sets to store all pairs. */
export function change(all: Differences | null | undefined, set: number, base: number): Change | null {
  if (!all) return null;
  let known = indices.get(all);
  if (!known) indices.set(all, (known = new Map(all.first.map((first, index) => [`${first} ${all.second[index]}`, index]))));
  const [direct, reversed] = [known.get(`${set} ${base}`), known.get(`${base} ${set}`)];
  const index = direct ?? reversed;
  if (index === undefined) return null;
  const { value, low, high, noise, paired } = { value: all.value[index], low: all.low[index], high: all.high[index], noise: all.noise[index], paired: all.paired[index] };
  if (direct !== undefined) return { value, low, high, noise, paired };
  return { value: -value, low: high === null ? null : -high, high: low === null ? null : -low, noise, paired };
}
