// Which concepts fire together, from the tables of the metric `cooccurrence`: for every latent its partners with the product of
// values, Jaccard's index and pointwise mutual information among real rows, and for every model how much each of these changes.

import { load } from './data';
import type { Column, Manifest, Result } from './types';

export const KINDS = ['jaccard', 'pmi', 'product'] as const;
export type Kind = (typeof KINDS)[number];

export interface Partner { latent: number; real: number | null; change: (number | null)[] }
export interface Together { result: string; models: string[]; partners: Record<Kind, Partner[]> }

/** The partners of a latent; null when no result says. */
export async function together(manifest: Manifest, latent: number): Promise<Together | null> {
  const listed = manifest.results.find((one) => one.metric === 'cooccurrence' && one.tables.latent?.columns.includes('partners'));
  if (!listed) return null;
  const table = (await load<Result>(`results/${listed.id}`)).tables.latent;
  const row = table.latent ? table.latent.indexOf(latent) : latent;
  if (row < 0) return null;
  const list = (column: Column | undefined) => (column?.[row] ?? []) as (number | null)[];
  const models = Object.keys(table).flatMap((name) => (name.startsWith('jaccard change: ') ? [name.slice('jaccard change: '.length)] : []));
  const ids = list(table.partners);
  const of = (kind: Kind): Partner[] =>
    ids.map((id, place) => ({ latent: id ?? 0, real: list(table[kind])[place] ?? null, change: models.map((model) => list(table[`${kind} change: ${model}`])[place] ?? null) }));
  return { result: listed.id, models, partners: { jaccard: of('jaccard'), pmi: of('pmi'), product: of('product') } };
}
