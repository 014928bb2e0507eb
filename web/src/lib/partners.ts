// Co-occurring concepts, from the tables of the metric `cooccurrence`: for every latent its partners with the product of
// values, Jaccard index and pointwise mutual information among real rows, and the change of each in every model.

import { load } from './data';
import { listAt, rowOfLatent } from './tables';
import type { Manifest, Result } from './types';

export const KINDS = ['jaccard', 'pmi', 'product'] as const;
export type Kind = (typeof KINDS)[number];

export interface Partner { latent: number; real: number | null; change: (number | null)[] }
export interface Partners { result: string; models: string[]; byKind: Record<Kind, Partner[]> }

/** The partners of a latent; null without a result of `cooccurrence`. */
export async function partnersOf(manifest: Manifest, latent: number): Promise<Partners | null> {
  const listed = manifest.results.find((one) => one.metric === 'cooccurrence' && one.tables.latent?.columns.includes('partners'));
  if (!listed) return null;
  const table = (await load<Result>(`results/${listed.id}`)).tables.latent;
  const row = rowOfLatent(table, latent);
  if (row < 0) return null;
  const models = Object.keys(table).flatMap((name) => (name.startsWith('jaccard change: ') ? [name.slice('jaccard change: '.length)] : []));
  const ids = listAt(table.partners, row);
  const of = (kind: Kind): Partner[] =>
    ids.map((id, index) => ({ latent: id ?? 0, real: listAt(table[kind], row)[index] ?? null, change: models.map((model) => listAt(table[`${kind} change: ${model}`], row)[index] ?? null) }));
  return { result: listed.id, models, byKind: { jaccard: of('jaccard'), pmi: of('pmi'), product: of('product') } };
}
