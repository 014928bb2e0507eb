// Samples with tokens, from known codes: every image has a token for the whole image and 3 × 3 patches of one colour each, and latent c
// fires on patches of colour c; every text has one token per word.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { npy, png } from './fixture.mjs';

export const [IMAGES, TEXTS, PATCHES, COLOURS] = [60, 8, 9, 6];
const PAINTS = [[214, 64, 58], [236, 138, 43], [74, 160, 84], [62, 118, 200], [130, 88, 190], [60, 62, 68]];

/** The colour of a patch; generated images are shifted by one colour. */
export const colourAt = (image, patch, made = false) => (image * 5 + patch * (1 + (image % 4)) + (made ? 1 : 0)) % COLOURS;
/** The activation of a patch, different for every image and patch. */
export const valueAt = (image, patch) => Number((0.5 + ((image * 7 + patch * 3) % 40) / 16).toFixed(4));
export const WORDS = ['A', ' bird', ',', ' a', ' wall', '!'];
/** Latent 1 fires on the second and fifth word of every text. */
export const wordValue = (text, word) => (word === 1 ? 8 + text / 10 : word === 4 ? 2 : 0);

export function make(directory, program, most = 2000) {
  fs.mkdirSync(directory, { recursive: true });
  const run = (...words) => execFileSync(program, [...words.map(String), '--quiet'], { cwd: directory, stdio: ['ignore', 'ignore', 'inherit'] });
  const latents = COLOURS + 1;
  const codes = (made) => {
    const [rows, samples] = [[], []];
    const push = (sample, entries) => {
      const row = new Array(latents).fill(0);
      for (const [latent, value] of entries) row[latent] = value;
      rows.push(...row);
      samples.push(sample);
    };
    for (let image = 0; image < IMAGES; image++) {
      // The last latent fires on the token for the whole image only.
      push(image, [[COLOURS, 1 + image / 10]]);
      for (let patch = 0; patch < PATCHES; patch++) push(image, [[colourAt(image, patch, made), valueAt(image, patch)]]);
    }
    for (let text = 0; text < TEXTS; text++) WORDS.forEach((_, word) => push(IMAGES + text, [[1, wordValue(text, word)]]));
    return { rows, samples };
  };
  const [real, made] = [codes(false), codes(true)];
  npy(path.join(directory, 'real.npy'), [real.samples.length, latents], real.rows);
  npy(path.join(directory, 'made.npy'), [made.samples.length, latents], made.rows);
  npy(path.join(directory, 'samples.npy'), [real.samples.length], real.samples);
  fs.mkdirSync(path.join(directory, 'pictures'), { recursive: true });
  const table = ['row,set,image,caption,words'];
  for (const [set, is] of [['real', false], ['sd', true]]) {
    for (let image = 0; image < IMAGES; image++) {
      const pixels = new Uint8Array(3 * 48 * 48);
      for (let y = 0; y < 48; y++) for (let x = 0; x < 48; x++) pixels.set(PAINTS[colourAt(image, Math.floor(y / 16) * 3 + Math.floor(x / 16), is)], 3 * (y * 48 + x));
      fs.writeFileSync(path.join(directory, `pictures/${set}-${image}.png`), png(48, 48, pixels));
      table.push(`${image},${set},pictures/${set}-${image}.png,patches ${image},`);
    }
  }
  for (let text = 0; text < TEXTS; text++) table.push(`${IMAGES + text},real,,,"${JSON.stringify(WORDS).replaceAll('"', '""')}"`);
  fs.writeFileSync(path.join(directory, 'rows.csv'), table.join('\n') + '\n');
  run('samples', '--codes', 'real.npy', '--generated', 'sd=made.npy', '--samples', 'samples.npy', '--pool', 'mean', '--rows', 'rows.csv', '--most', most, '--out', 'results');
  fs.mkdirSync(path.join(directory, 'results/results'), { recursive: true });
  fs.writeFileSync(path.join(directory, 'results/points.csv'), 'latent,x,y,name\n' + ['red', 'orange', 'green', 'blue', 'violet', 'black', 'whole'].map((name, latent) => `${latent},${latent % 3},${Math.floor(latent / 3)},${name}`).join('\n') + '\n');
  return path.join(directory, 'results');
}
