// A results directory made entirely by the program: a world with planted blindspots, images of its rows, a dictionary trained on the
// patches of these images, a study, a layout, and samples. Every true feature of a row is drawn as a shape with a distinct form and
// colour; the activation of a patch is proportional to the area that the shape covers. So the images show what a latent fires on, and where.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { dice, npy, png } from './fixture.mjs';

const FORMS = ['disc', 'ring', 'square', 'frame', 'cross', 'triangle', 'diamond', 'bar'];
const COLOURS = {
  red: [214, 64, 58], orange: [236, 138, 43], yellow: [228, 193, 52], green: [74, 160, 84], teal: [42, 157, 151], blue: [62, 118, 200],
  violet: [130, 88, 190], pink: [222, 116, 170], brown: [139, 96, 66], grey: [124, 130, 138], white: [252, 252, 250], black: [40, 42, 48],
};

/** Name, form and colour of a feature. */
export function figure(feature) {
  const names = Object.keys(COLOURS);
  // Coprime steps, so that neighbouring features differ in both.
  const [colour, form] = [names[(feature * 5 + Math.floor(feature / 24)) % 12], FORMS[(feature * 3 + Math.floor(feature / 12)) % 8]];
  return { colour: COLOURS[colour], form, name: `${colour} ${form}` };
}

/** Unique names: repeated names get a number. */
export function names(features) {
  const seen = new Map();
  return Array.from({ length: features }, (_, feature) => {
    const { name } = figure(feature);
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return seen.get(name) > 1 ? `${name} ${seen.get(name)}` : name;
  });
}

const SIDE = 72;
const CELLS = 3;
/** Patches along each side, two per cell. */
const PATCHES = 6;

function inside(form, x, y) {
  const far = Math.hypot(x, y);
  const most = Math.max(Math.abs(x), Math.abs(y));
  switch (form) {
    case 'disc': return far < 0.85;
    case 'ring': return far < 0.9 && far > 0.5;
    case 'square': return most < 0.75;
    case 'frame': return most < 0.82 && most > 0.48;
    case 'cross': return most < 0.85 && Math.min(Math.abs(x), Math.abs(y)) < 0.27;
    case 'triangle': return y > -0.8 && y < 0.75 && Math.abs(x) < (y + 0.8) * 0.58;
    case 'diamond': return Math.abs(x) + Math.abs(y) < 0.95;
    default: return Math.abs(y) < 0.3 && Math.abs(x) < 0.9;
  }
}

/** Draws the features of a row, one per cell; `order` permutes the cells. `cover` has the feature of every patch and the share it covers. */
function draw(features, order, ground) {
  const pixels = new Uint8Array(3 * SIDE * SIDE);
  for (let i = 0; i < SIDE * SIDE; i++) pixels.set(ground, 3 * i);
  const boxes = [];
  const cover = Array.from({ length: PATCHES * PATCHES }, () => ({ feature: -1, value: 0, share: 0 }));
  const wide = SIDE / PATCHES;
  features.slice(0, CELLS * CELLS).forEach(({ feature, value, cell }) => {
    const index = order[cell];
    const [left, top, size] = [((index % CELLS) * SIDE) / CELLS, (Math.floor(index / CELLS) * SIDE) / CELLS, SIDE / CELLS];
    const { form, colour } = figure(feature);
    for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) {
      if (!inside(form, (2 * (x + 0.5)) / size - 1, (2 * (y + 0.5)) / size - 1)) continue;
      pixels.set(colour, 3 * ((top + y) * SIDE + left + x));
      const patch = cover[Math.floor((top + y) / wide) * PATCHES + Math.floor((left + x) / wide)];
      [patch.feature, patch.value, patch.share] = [feature, value, patch.share + 1 / (wide * wide)];
    }
    boxes.push({ feature, x: left / SIDE, y: top / SIDE, width: 1 / CELLS, height: 1 / CELLS });
  });
  return { image: png(SIDE, SIDE, pixels), boxes, cover };
}

/** Unit directions: one per feature, and the last one for the background. */
function directions(count, width) {
  const chance = dice(5);
  return Array.from({ length: count + 1 }, () => {
    const line = Array.from({ length: width }, () => chance.normal());
    const length = Math.hypot(...line);
    return line.map((value) => value / length);
  });
}

/** Activations of every patch: the feature by the covered share, the background for the rest, and noise. */
function activations(cover, lines, chance) {
  return cover.flatMap(({ feature, value, share }) => lines.at(-1).map((ground, column) => (feature < 0 ? 0 : share * value * lines[feature][column]) + 0.4 * (1 - share) * ground + 0.01 * chance.normal()));
}

/** Makes the directory; `settings` configure the world and the dictionary. */
export function make(directory, program, settings = {}) {
  const { rows = 600, features = 96, width = 48, active = 5, models = 2, planted = 8, latents = 128, k = 1, epochs = 8, temperature = 0.02, others = [] } = settings;
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(directory, { recursive: true });
  const run = (...words) => execFileSync(program, [...words.map(String), '--quiet'], { cwd: directory, stdio: ['ignore', 'ignore', 'inherit'] });
  const generators = Array.from({ length: models }, (_, index) => `model_${index + 1}`);
  run('data', 'blindspots', '--rows', rows, '--features', features, '--width', width, '--active', active, '--models', models, '--planted', planted, '--strength', 0.9, '--out', 'world');

  // The features of the rows, to draw them.
  run('samples', '--codes', 'world/codes', ...generators.flatMap((name) => ['--generated', `${name}=world/generated/${name}/codes`]), '--most', rows, '--out', 'truth');
  const truth = fs.readFileSync(path.join(directory, 'truth/samples.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const real = new Map(truth.filter((sample) => sample.set === 'real').map((sample) => [sample.row, sample.activations.map((one) => one.latent)]));
  const table = ['row,set,image,caption'];
  const boxLines = ['row,concept,x,y,width,height'];
  const [called, towards] = [names(features), directions(features, width)];
  const patches = new Map();
  fs.mkdirSync(path.join(directory, 'pictures'), { recursive: true });
  for (const sample of truth) {
    const chance = dice(1000 + sample.row);
    const order = Array.from({ length: CELLS * CELLS }, (_, cell) => cell).map((cell) => [chance.next(), cell]).sort((a, b) => a[0] - b[0]).map(([, cell]) => cell);
    const ground = [224, 217, 204].map((value) => Math.round(value - 14 * chance.next()));
    // A feature of the real row keeps its cell; new ones fill the free cells.
    const there = real.get(sample.row).slice(0, CELLS * CELLS);
    const own = sample.activations.map((one) => one.latent);
    const free = order.map((_, cell) => cell).filter((cell) => cell >= there.length || !own.includes(there[cell]));
    const placed = sample.activations.map(({ latent, value }) => ({ feature: latent, value, cell: there.includes(latent) ? there.indexOf(latent) : (free.pop() ?? 0) }));
    const { image, boxes, cover } = draw(placed, order, ground);
    const file = `pictures/${sample.set}-${sample.row}.png`;
    fs.writeFileSync(path.join(directory, file), image);
    const caption = sample.set === 'real' ? `a picture with ${own.slice(0, 3).map((feature) => called[feature]).join(', ') || 'nothing'}` : '';
    table.push(`${sample.row},${sample.set},${file},"${caption}"`);
    if (sample.set === 'real') for (const box of boxes) boxLines.push([sample.row, called[box.feature], box.x, box.y, box.width, box.height].join(','));
    const of = patches.get(sample.set) ?? patches.set(sample.set, new Float32Array(rows * PATCHES * PATCHES * width)).get(sample.set);
    of.set(activations(cover, towards, chance), sample.row * PATCHES * PATCHES * width);
  }
  for (const [set, values] of patches) npy(path.join(directory, `${set}.npy`), [rows, PATCHES * PATCHES, width], values);
  fs.writeFileSync(path.join(directory, 'rows.csv'), table.join('\n') + '\n');
  fs.writeFileSync(path.join(directory, 'boxes.csv'), boxLines.join('\n') + '\n');

  const train = (name, ...words) => run('train', '--store', 'real.npy', '--epochs', epochs, '--batch', 256, '--lr', 0.003, '--out', name, ...words);
  train('dictionary', '--arch', 'topk', '--latents', latents, '--k', k);
  for (const [name, arch, latents, k] of others) train(name, '--arch', arch, '--latents', latents, '--k', k);

  // The labels of the world with the names of the shapes.
  fs.writeFileSync(path.join(directory, 'labels.csv'), fs.readFileSync(path.join(directory, 'world/labels.csv'), 'utf8').replace(/^[^\n]*/, called.join(',')));
  const lines = [
    'title = "Planted blindspots"', 'out = "results"',
    `metrics = ["blindspots", "blindspot_models", "divergence", "frequency", "cooccurrence", "fid", "match", "probe_ceiling", "monosemanticity"]`,
    '[params.blindspots]', `temperature = ${temperature}`, '[params.blindspot_models]', `temperature = ${temperature}`, '[inputs]', 'embeddings = "real.npy"', 'pool = "max"', 'labels = "labels.csv"',
    `[[set]]`, 'name = "topk"', `about = { group = "topk" }`, 'sae = "dictionary"', `generated = [${generators.map((name) => `"${name}=${name}.npy"`).join(', ')}]`,
    ...others.flatMap(([name, arch]) => ['[[set]]', `name = "${name}"`, `about = { group = "${arch}" }`, `sae = "${name}"`]),
  ];
  fs.writeFileSync(path.join(directory, 'study.toml'), lines.join('\n') + '\n');
  run('run', 'study.toml');
  run('layout', 'dictionary', '--neighbours', Math.min(15, latents - 1), '--out', 'results/points.csv');

  run('samples', '--sae', 'dictionary', '--store', 'real.npy', '--pool', 'max', '--labels', 'labels.csv', ...generators.flatMap((name) => ['--generated', `${name}=${name}.npy`]), '--rows', 'rows.csv', '--boxes', 'boxes.csv', '--most', rows, '--out', 'results');
  fs.cpSync(path.join(directory, 'dictionary'), path.join(directory, 'results/directions'), { recursive: true });
  return path.join(directory, 'results');
}
