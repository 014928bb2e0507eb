// A real row and the rows that models generated for its prompt.

import type { Gap } from './facts';
import type { SampleWithActivations } from './types';

/** The key of a sample in the address: set and row, or its id if the row is unknown. */
export function keyOf(set: string | null, row: number | null, id: string): string {
  return row === null ? id : `${set ?? 'real'}:${row}`;
}

/** The set and row of a key; null if it is an id. */
export function rowOf(key: string): { set: string; row: number } | null {
  const match = /^(.*):(\d+)$/.exec(key);
  return match ? { set: match[1], row: Number(match[2]) } : null;
}

export interface Change { latent: number; real: number; generated: number }

/** The latents that differ between two samples, largest difference first. */
export function changes(real: SampleWithActivations, generated: SampleWithActivations): Change[] {
  const byLatent = new Map<number, Change>();
  for (const { latent, value } of real.activations) byLatent.set(latent, { latent, real: value, generated: 0 });
  for (const { latent, value } of generated.activations) byLatent.set(latent, { latent, real: byLatent.get(latent)?.real ?? 0, generated: value });
  const size = (one: Change) => Math.abs(one.generated - one.real);
  return [...byLatent.values()].filter(size).sort((a, b) => size(b) - size(a) || a.latent - b.latent);
}

/**
 * Sets in display order: the model that exaggerates the concept first, otherwise the real rows first. `requested` is the model selected on the
 * previous page; without one the model with the largest gap is used. A gap whose interval contains 0 does not count.
 */
export function inOrder<S extends { name: string }>(sets: S[], gaps: Gap[], requested?: string): { sets: S[]; exaggerates: string | null } {
  const models = gaps.filter((gap) => !gap.null);
  const lead = models.find((gap) => gap.id === requested) ?? models.reduce<Gap | null>((largest, gap) => (Math.abs(gap.gap) > Math.abs(largest?.gap ?? 0) ? gap : largest), null);
  const exaggerates = (gap: Gap) => (gap.low ?? gap.gap) > 0;
  const first = lead && exaggerates(lead) && sets.some((set) => set.name === lead.model) ? lead : null;
  const rank = (set: S) => {
    const gap = models.find((gap) => gap.model === set.name);
    if (set.name === first?.model) return -Infinity;
    if (first && gap && exaggerates(gap)) return -gap.gap;
    return set.name === 'real' ? 1 : set.name === lead?.model ? 2 : 3;
  };
  return { sets: sets.toSorted((a, b) => rank(a) - rank(b)), exaggerates: first?.model ?? null };
}
