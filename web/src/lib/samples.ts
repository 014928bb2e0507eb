// Samples by row and set, and the samples on which a coalition of latents fires.

import { load } from './data';
import type { Concept, Manifest, Sample } from './types';

export async function samples(manifest: Manifest): Promise<Sample[]> {
  return manifest.samples ? load<Sample[]>('samples') : [];
}

/** Finds the sample of a row in a set; real rows have the set `real` or none. */
export function finder(all: Sample[]): (set: string | null, row: number) => Sample | null {
  const byKey = new Map(all.flatMap((sample) => (sample.row === null ? [] : [[`${sample.set ?? 'real'} ${sample.row}`, sample] as const])));
  return (set, row) => byKey.get(`${set ?? 'real'} ${row}`) ?? null;
}

export type Cell = 'hits' | 'missed' | 'wrong' | 'others';

/** The confusion matrix of annotated samples: whether they have a concept, and whether a latent of the coalition fires above the threshold. */
export async function confusionOf(manifest: Manifest, name: string, latents: number[], threshold: number): Promise<Record<Cell, Sample[]>> {
  const all = await samples(manifest);
  const fires = new Set<number>();
  for (const latent of latents.filter((latent) => manifest.concepts.includes(latent))) {
    const concept = await load<Concept>(`concepts/${latent}`);
    concept.on.forEach((sample, index) => concept.values[index] > threshold && fires.add(sample));
  }
  const out: Record<Cell, Sample[]> = { hits: [], missed: [], wrong: [], others: [] };
  all.forEach((sample, index) => {
    if (sample.concepts === null || sample.unknown.includes(name)) return;
    const has = sample.concepts.includes(name);
    out[has ? (fires.has(index) ? 'hits' : 'missed') : fires.has(index) ? 'wrong' : 'others'].push(sample);
  });
  return out;
}
