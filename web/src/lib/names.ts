// Names of latents: from the layout, else from `match`, which has the concept for which a latent is the best single one.

import { load } from './data';
import { sameDictionary } from './dictionary';
import { listAt } from './tables';
import type { Layout, Listed, Manifest, Result } from './types';

const BASELINES = ['untrained', 'random', 'oracle'];

/** The result of `match` on the codes of the map. Without `blindspots` the codes are unknown, and a result is used only if all have the same codes. */
function matched(manifest: Manifest): Listed | undefined {
  const all = manifest.results.filter((one) => one.metric === 'match' && one.tables.concept && !BASELINES.includes(String(one.about.inputs)));
  const codes = manifest.results.find((one) => one.metric === 'blindspots')?.codes ?? manifest.sample_codes;
  if (codes) return all.find((one) => sameDictionary(manifest, one.codes, codes));
  return new Set(all.map((one) => one.codes)).size === 1 ? all[0] : undefined;
}

/** The layout with this id, or the first one. */
export async function layoutOf(manifest: Manifest, id?: string): Promise<Layout | null> {
  const known = manifest.layouts.find((one) => one.id === id)?.id ?? manifest.layouts[0]?.id;
  return known ? load<Layout>(`layouts/${known}`) : null;
}

/** The names of latents, with the names of a layout if it has any. */
export async function names(manifest: Manifest, layout: Layout | null): Promise<Map<number, string>> {
  if (layout?.name.some(Boolean)) return new Map(layout.latent.map((latent, index) => [latent, layout.name[index] || '']));
  const listed = matched(manifest);
  const titles = new Map<number, string>();
  if (!listed) return titles;
  const table = (await load<Result>(`results/${listed.id}`)).tables.concept;
  const best = new Map<number, number>();
  (table.coalition ?? []).forEach((coalition, row) => {
    const latent = Array.isArray(coalition) ? coalition[0] : null;
    const f1 = listAt(table.f1_by_step, row)[0] ?? 0;
    if (typeof latent === 'number' && f1 > (best.get(latent) ?? 0)) {
      best.set(latent, f1);
      titles.set(latent, String(table.name?.[row] ?? ''));
    }
  });
  return titles;
}

/** The names of latents, with the names of the layout that has this id. */
export async function namesOf(manifest: Manifest, layout?: string): Promise<Map<number, string>> {
  return names(manifest, await layoutOf(manifest, layout));
}
