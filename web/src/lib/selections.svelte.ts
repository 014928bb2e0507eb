// Selections of latents under names that people give them. They are kept in the browser, for each results directory by itself; the
// address of a page carries the selection that is shown with its name, and a CSV file carries all of them elsewhere.

import { csv, keepText } from './save';

export interface Selection { name: string; latents: number[] }

export const selections: { all: Selection[] } = $state({ all: [] });
let key = '';

/** Brings back what was kept for a results directory. */
export function recall(title: string) {
  if (key === `etalon selections of ${title}`) return;
  key = `etalon selections of ${title}`;
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    selections.all = Array.isArray(found) ? found.filter((one) => typeof one?.name === 'string' && Array.isArray(one.latents)) : [];
  } catch {
    // A page from disk may have no storage: then selections last as long as the page.
    selections.all = [];
  }
}

function remember() {
  try {
    localStorage.setItem(key, JSON.stringify(selections.all));
  } catch {
    // See above.
  }
}

/** Keeps a selection; one of the same name is replaced. */
export function keep(name: string, latents: number[]) {
  const one = { name: name.trim(), latents: [...new Set(latents)].sort((a, b) => a - b) };
  if (!one.name || !one.latents.length) return;
  selections.all = [...selections.all.filter((other) => other.name !== one.name), one].sort((a, b) => (a.name < b.name ? -1 : 1));
  remember();
}

export function drop(name: string) {
  selections.all = selections.all.filter((one) => one.name !== name);
  remember();
}

const HEAD = ['selection', 'latent', 'name'];

export function write(name: (latent: number) => string) {
  keepText('selections.csv', csv(HEAD, selections.all.flatMap((one) => one.latents.map((latent) => [one.name, latent, name(latent)]))));
}

/** Reads such a file; gives the number of selections in it. */
export function read(text: string): number {
  const found = new Map<string, number[]>();
  for (const line of text.split(/\r?\n/).slice(1)) {
    // A name in quotation marks may hold commas, and doubled quotation marks.
    const [, quoted, plain, latent] = /^(?:"((?:[^"]|"")*)"|([^,]*)),(\d+)(?:,|$)/.exec(line) ?? [];
    const name = (quoted?.replaceAll('""', '"') ?? plain ?? '').replace(/^'(?=[=+\-@])/, '');
    if (name && latent !== undefined) found.set(name, [...(found.get(name) ?? []), Number(latent)]);
  }
  for (const [name, latents] of found) keep(name, latents);
  return found.size;
}
