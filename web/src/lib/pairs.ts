// A row of the data as reality has it and as models made it.

import type { Gap } from './facts';
import type { Whole } from './types';

/** What names a sample in the address: its set and row, or its own name where no row is known. */
export function keyOf(set: string | null, row: number | null, id: string): string {
  return row === null ? id : `${set ?? 'real'}:${row}`;
}

/** The set and the row of such a name; nothing if it names no row. */
export function rowOf(key: string): { set: string; row: number } | null {
  const found = /^(.*):(\d+)$/.exec(key);
  return found ? { set: found[1], row: Number(found[2]) } : null;
}

export interface Change { latent: number; real: number; made: number }

/** The latents that differ most between two samples, first those that differ more. */
export function changes(real: Whole, made: Whole): Change[] {
  const found = new Map<number, Change>();
  for (const { latent, value } of real.activations) found.set(latent, { latent, real: value, made: 0 });
  for (const { latent, value } of made.activations) found.set(latent, { latent, real: found.get(latent)?.real ?? 0, made: value });
  const far = (one: Change) => Math.abs(one.made - one.real);
  return [...found.values()].filter(far).sort((a, b) => far(b) - far(a) || a.latent - b.latent);
}

/**
 * Sets in the order in which people look at them: what models exaggerate is seen in what they made, all else in reality. `asked` is the
 * model that somebody came from; without one the largest gap counts. An interval that holds 0 exaggerates nothing.
 */
export function inOrder<S extends { name: string }>(sets: S[], gaps: Gap[], asked?: string): { sets: S[]; exaggerates: string | null } {
  const models = gaps.filter((gap) => !gap.null);
  const lead = models.find((gap) => gap.id === asked) ?? models.reduce<Gap | null>((most, gap) => (Math.abs(gap.gap) > Math.abs(most?.gap ?? 0) ? gap : most), null);
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
