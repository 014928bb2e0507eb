// Results of `ois`, `nis` and `mis` that the program computes: pure and impure codes, and units that react to the colour of images.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { dice, npy, png } from './fixture.mjs';

export const [IMAGES, COLOURS, UNITS, TASKS, EXPLANATIONS] = [120, 6, 8, 5, 3];
const PAINTS = [[214, 64, 58], [236, 138, 43], [74, 160, 84], [62, 118, 200], [130, 88, 190], [60, 62, 68]];
export const colourOf = (row) => row % COLOURS;

export function make(directory, program) {
  fs.mkdirSync(path.join(directory, 'pictures'), { recursive: true });
  const run = (...words) => execFileSync(program, [...words.map(String), '--quiet'], { cwd: directory, stdio: ['ignore', 'ignore', 'inherit'] });
  const chance = dice(3);
  const [units, similarity, rows] = [[], [], ['row,image,caption']];
  for (let image = 0; image < IMAGES; image++) {
    const colour = colourOf(image);
    // Unit c reacts to colour c, the unit after the last colour is constant, and the last one reacts to nothing that can be seen.
    for (let unit = 0; unit < COLOURS; unit++) units.push((unit === colour ? 2 : 0) + image / 1000);
    units.push(1, chance.next());
    for (let axis = 0; axis < COLOURS; axis++) similarity.push((axis === colour ? 1 : 0) + 0.05 * chance.normal());
    const pixels = new Uint8Array(3 * 24 * 24);
    for (let at = 0; at < 24 * 24; at++) pixels.set(PAINTS[colour].map((part) => Math.min(255, part + (at % 24 === image % 24 ? 40 : 0))), 3 * at);
    fs.writeFileSync(path.join(directory, `pictures/${image}.png`), png(24, 24, pixels));
    rows.push(`${image},pictures/${image}.png,picture ${image}`);
  }
  npy(path.join(directory, 'units.npy'), [IMAGES, UNITS], units);
  npy(path.join(directory, 'similarity.npy'), [IMAGES, COLOURS], similarity);
  fs.writeFileSync(path.join(directory, 'rows.csv'), rows.join('\n') + '\n');
  fs.writeFileSync(path.join(directory, 'units.csv'), 'model,layer,type,depth,width\n' + Array.from({ length: UNITS }, (_, unit) => `net,${unit < 4 ? 'first' : 'second'},conv,${unit < 4 ? 0 : 1},4`).join('\n') + '\n');
  for (const mode of ['pure', 'impure']) run('data', 'impure-codes', '--rows', 600, '--concepts', 4, '--mode', mode, '--out', mode);
  const set = (mode) => `[[set]]\nname = "${mode}"\nmetrics = ["ois", "nis"]\ncodes = "${mode}/activations"\nlabels = "${mode}/labels.csv"\ntask-labels = "${mode}/task-labels.csv"\n`;
  fs.writeFileSync(path.join(directory, 'study.toml'), `title = "Purity and units"\nout = "results"\nmetrics = ["ois", "nis", "mis"]\n[params.ois]\nrepeats = 2\n[params.mis]\ntasks = ${TASKS}\nexplanations = ${EXPLANATIONS}\nextreme_units = 2\n${set('pure')}${set('impure')}[[set]]\nname = "units"\nmetrics = ["mis"]\ncodes = "units.npy"\nsimilarity = "similarity.npy"\nunits = "units.csv"\n`);
  run('run', 'study.toml');
  run('samples', '--codes', 'units.npy', '--rows', 'rows.csv', '--out', 'results');
  return path.join(directory, 'results');
}
