// Named selections of latents. They are stored in the browser, per results directory. The address of a page contains the current
// selection and its name; a CSV file transfers all selections.

import { csv, downloadText } from './download';

export interface Selection { name: string; latents: number[] }

export const stored: { all: Selection[] } = $state({ all: [] });
let key = '';

/** Restores the selections of a results directory. */
export function restore(title: string) {
  if (key === `etalon selections of ${title}`) return;
  key = `etalon selections of ${title}`;
  try {
    const parsed: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    stored.all = Array.isArray(parsed) ? parsed.filter((one) => typeof one?.name === 'string' && Array.isArray(one.latents)) : [];
  } catch {
    // A page from disk may have no storage: then selections last until the page is closed.
    stored.all = [];
  }
}

function store() {
  try {
    localStorage.setItem(key, JSON.stringify(stored.all));
  } catch {
    // See above.
  }
}

/** Stores a selection; replaces one with the same name. */
export function save(name: string, latents: number[]) {
  const one = { name: name.trim(), latents: [...new Set(latents)].sort((a, b) => a - b) };
  if (!one.name || !one.latents.length) return;
  stored.all = [...stored.all.filter((other) => other.name !== one.name), one].sort((a, b) => (a.name < b.name ? -1 : 1));
  store();
}

export function remove(name: string) {
  stored.all = stored.all.filter((one) => one.name !== name);
  store();
}

const HEAD = ['selection', 'latent', 'name'];

export function exportCsv(name: (latent: number) => string) {
  downloadText('selections.csv', csv(HEAD, stored.all.flatMap((one) => one.latents.map((latent) => [one.name, latent, name(latent)]))));
}

/** Reads an exported file; returns the number of selections in it. */
export function importCsv(text: string): number {
  const byName = new Map<string, number[]>();
  for (const line of text.split(/\r?\n/).slice(1)) {
    // A quoted name may contain commas and doubled quotation marks.
    const [, quoted, plain, latent] = /^(?:"((?:[^"]|"")*)"|([^,]*)),(\d+)(?:,|$)/.exec(line) ?? [];
    const name = (quoted?.replaceAll('""', '"') ?? plain ?? '').replace(/^'(?=[=+\-@])/, '');
    if (name && latent !== undefined) byName.set(name, [...(byName.get(name) ?? []), Number(latent)]);
  }
  for (const [name, latents] of byName) save(name, latents);
  return byName.size;
}
