// One input set less another, as the program computed it.

import type { Differences } from './types';

export interface Change { value: number; low: number | null; high: number | null; noise: boolean | null; paired: boolean }

const places = new WeakMap<Differences, Map<string, number>>();

/** Every pair is there once; the other way round it is the mirror image. Nothing if one of the sets has no value, or if they are too many for all pairs. */
export function change(all: Differences | null | undefined, set: number, base: number): Change | null {
  if (!all) return null;
  let known = places.get(all);
  if (!known) places.set(all, (known = new Map(all.first.map((first, place) => [`${first} ${all.second[place]}`, place]))));
  const [straight, mirrored] = [known.get(`${set} ${base}`), known.get(`${base} ${set}`)];
  const place = straight ?? mirrored;
  if (place === undefined) return null;
  const { value, low, high, noise, paired } = { value: all.value[place], low: all.low[place], high: all.high[place], noise: all.noise[place], paired: all.paired[place] };
  if (straight !== undefined) return { value, low, high, noise, paired };
  return { value: -value, low: high === null ? null : -high, high: low === null ? null : -low, noise, paired };
}
