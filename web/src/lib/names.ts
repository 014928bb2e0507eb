// What latents are called. A layout may say so; else the metric `match` knows for which concept a latent is the best single one.

import { load } from './data';
import type { Layout, Listed, Manifest, Result } from './types';

const BASELINES = ['untrained', 'random', 'oracle'];

/** The result of `match` on the codes that the map is about. Without blindspots nobody can say which of several are meant, and none is taken. */
function matched(manifest: Manifest): Listed | undefined {
  const all = manifest.results.filter((one) => one.metric === 'match' && one.tables.concept && !BASELINES.includes(String(one.about.inputs)));
  const codes = manifest.results.find((one) => one.metric === 'blindspots')?.codes ?? manifest.sample_codes;
  if (codes) return all.find((one) => one.codes === codes);
  return new Set(all.map((one) => one.codes)).size === 1 ? all[0] : undefined;
}

/** By the layout of this name, or by the first. */
export async function layoutOf(manifest: Manifest, id?: string): Promise<Layout | null> {
  const found = manifest.layouts.find((one) => one.id === id)?.id ?? manifest.layouts[0]?.id;
  return found ? load<Layout>(`layouts/${found}`) : null;
}

export async function names(manifest: Manifest, layout: Layout | null): Promise<Map<number, string>> {
  if (layout?.name.some(Boolean)) return new Map(layout.latent.map((latent, place) => [latent, layout.name[place] || '']));
  const listed = matched(manifest);
  const found = new Map<number, string>();
  if (!listed) return found;
  const table = (await load<Result>(`results/${listed.id}`)).tables.concept;
  const best = new Map<number, number>();
  (table.coalition ?? []).forEach((coalition, row) => {
    const latent = Array.isArray(coalition) ? coalition[0] : null;
    const f1 = Array.isArray(table.f1_by_step?.[row]) ? ((table.f1_by_step[row] as (number | null)[])[0] ?? 0) : 0;
    if (typeof latent === 'number' && f1 > (best.get(latent) ?? 0)) {
      best.set(latent, f1);
      found.set(latent, String(table.name?.[row] ?? ''));
    }
  });
  return found;
}
