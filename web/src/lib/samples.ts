// Samples by row and set, and which of them a coalition of latents fires on.

import { load } from './data';
import type { Concept, Manifest, Sample } from './types';

export async function samples(manifest: Manifest): Promise<Sample[]> {
  return manifest.samples ? load<Sample[]>('samples') : [];
}

/** Are the activations of samples of other codes than those of a result? Files that people wrote may not say; then nobody knows. */
export function foreign(manifest: Manifest, result: string): boolean {
  const codes = manifest.results.find((one) => one.id === result)?.codes;
  return Boolean(manifest.sample_codes && codes && codes !== manifest.sample_codes);
}

/** Finds the sample of a row in a set; the real rows are those of the set `real`, or of none. */
export function finder(all: Sample[]): (set: string | null, row: number) => Sample | null {
  const places = new Map(all.flatMap((sample) => (sample.row === null ? [] : [[`${sample.set ?? 'real'} ${sample.row}`, sample] as const])));
  return (set, row) => places.get(`${set ?? 'real'} ${row}`) ?? null;
}

export type Cell = 'hits' | 'missed' | 'wrong' | 'others';

/** Samples whose labels are known, by whether they have a concept and whether one of some latents fires above a threshold. */
export async function confused(manifest: Manifest, name: string, latents: number[], threshold: number): Promise<Record<Cell, Sample[]>> {
  const all = await samples(manifest);
  const fires = new Set<number>();
  for (const latent of latents.filter((latent) => manifest.concepts.includes(latent))) {
    const concept = await load<Concept>(`concepts/${latent}`);
    concept.on.forEach((sample, place) => concept.values[place] > threshold && fires.add(sample));
  }
  const out: Record<Cell, Sample[]> = { hits: [], missed: [], wrong: [], others: [] };
  all.forEach((sample, place) => {
    if (sample.concepts === null || sample.unknown.includes(name)) return;
    const has = sample.concepts.includes(name);
    out[has ? (fires.has(place) ? 'hits' : 'missed') : fires.has(place) ? 'wrong' : 'others'].push(sample);
  });
  return out;
}
