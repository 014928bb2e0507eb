// A results directory for the tests: results that the program computes on a small world, and synthetic results of
// `blindspots` on 32,000 latents, a layout, samples and images, written here in the program's format.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';

export const LATENTS = 32000;

/** BLAKE3 of at most 1024 bytes (one chunk), enough for a recipe. */
export function blake3(bytes) {
  const IV = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
  const ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
  if (bytes.length > 1024) throw new Error('one chunk only');
  const turn = (value, by) => (value >>> by) | (value << (32 - by));
  let chain = IV.slice();
  const blocks = Math.max(1, Math.ceil(bytes.length / 64));
  for (let block = 0; block < blocks; block++) {
    const part = bytes.subarray(block * 64, block * 64 + 64);
    const padded = Buffer.alloc(64);
    part.copy(padded);
    let words = Array.from({ length: 16 }, (_, i) => padded.readUInt32LE(4 * i));
    const flags = (block === 0 ? 1 : 0) | (block === blocks - 1 ? 2 | 8 : 0);
    const v = [...chain, ...IV.slice(0, 4), 0, 0, part.length, flags];
    const mix = (a, b, c, d, x, y) => {
      v[a] = (v[a] + v[b] + x) | 0;
      v[d] = turn(v[d] ^ v[a], 16);
      v[c] = (v[c] + v[d]) | 0;
      v[b] = turn(v[b] ^ v[c], 12);
      v[a] = (v[a] + v[b] + y) | 0;
      v[d] = turn(v[d] ^ v[a], 8);
      v[c] = (v[c] + v[d]) | 0;
      v[b] = turn(v[b] ^ v[c], 7);
    };
    for (let round = 0; round < 7; round++) {
      mix(0, 4, 8, 12, words[0], words[1]);
      mix(1, 5, 9, 13, words[2], words[3]);
      mix(2, 6, 10, 14, words[4], words[5]);
      mix(3, 7, 11, 15, words[6], words[7]);
      mix(0, 5, 10, 15, words[8], words[9]);
      mix(1, 6, 11, 12, words[10], words[11]);
      mix(2, 7, 8, 13, words[12], words[13]);
      mix(3, 4, 9, 14, words[14], words[15]);
      words = ORDER.map((index) => words[index]);
    }
    chain = chain.map((_, i) => v[i] ^ v[i + 8]);
  }
  const out = Buffer.alloc(32);
  chain.forEach((word, i) => out.writeInt32LE(word | 0, 4 * i));
  return out.toString('hex');
}

export function crc32c(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0x82f63b78 & -(crc & 1));
  }
  return (~crc >>> 0).toString(16).padStart(8, '0');
}

/** Writes a result as the archive does. */
export function writeResult(directory, { recipe, headline, tables, notes = [], about }) {
  const mark = crc32c(Buffer.from(['inputs', 'data', 'latents', 'k'].map((key) => (key in about ? JSON.stringify(about[key]) : '')).join('\n')));
  const id = `${blake3(Buffer.from(JSON.stringify(recipe))).slice(0, 32)}-${mark}`;
  const fields = { etalon: '0.1.0', ...recipe, headline, tables, notes, about };
  const body = '{' + Object.entries(fields).map(([name, value]) => `\n  ${JSON.stringify(name)}: ${JSON.stringify(value)},`).join('');
  fs.mkdirSync(path.join(directory, 'results'), { recursive: true });
  fs.writeFileSync(path.join(directory, 'results', `${id}.json`), `${body}\n  "seconds": 0.5,\n  "check": "crc32c:${crc32c(Buffer.from(body))}"\n}\n`);
  return id;
}

/** A deterministic random number generator. */
export function dice(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { next, normal: () => Math.sqrt(-2 * Math.log(next() + 1e-12)) * Math.cos(2 * Math.PI * next()) };
}

const round = (value) => Number(value.toFixed(4));

/** A PNG image from RGB pixels. */
export function png(width, height, pixels) {
  const raw = Buffer.alloc(height * (1 + 3 * width));
  for (let y = 0; y < height; y++) Buffer.from(pixels.buffer, pixels.byteOffset + 3 * width * y, 3 * width).copy(raw, y * (1 + 3 * width) + 1);
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind), data]);
    const out = Buffer.alloc(8 + body.length);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), 4 + body.length);
    return out;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), chunk('IHDR', head), chunk('IDAT', zlib.deflateSync(raw)), chunk('IEND', Buffer.alloc(0))]);
}

/** Writes an array in NumPy format. */
export function npy(file, shape, values) {
  let head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
  head = head.padEnd(118 - 1) + '\n';
  const start = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length & 255, head.length >> 8]);
  fs.writeFileSync(file, Buffer.concat([start, Buffer.from(head), Buffer.from(Float32Array.from(values).buffer)]));
}

/** An image of one colour with a lighter corner. */
function plainPicture(red, green, blue) {
  const size = 32;
  const pixels = new Uint8Array(3 * size * size);
  for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) {
    const lift = x < size / 2 && y < size / 2 ? 60 : 0;
    pixels.set([red, green, blue].map((value) => Math.min(255, value + lift)), 3 * (y * size + x));
  }
  return png(size, size, pixels);
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return ~crc >>> 0;
}

/** A comparison of two dictionaries of three sizes with two seeds, which gives content to every chart of the runs page. */
function runs(directory) {
  const chance = dice(7);
  const study = (metric, key, base, slope) => {
    for (const [name, gain] of [['topk', 0.1], ['jumprelu', 0.05], ['oracle', 0.55], ['untrained', -0.35], ['random', -0.42]]) {
      for (const latents of name === 'oracle' ? [512] : [256, 512, 1024]) {
        for (const k of name === 'topk' ? [8, 16, 32] : [16]) {
          for (const seed of name === 'topk' || name === 'jumprelu' ? [0, 1, 2] : [0]) {
            const value = round(Math.min(0.999, Math.max(0.01, base + gain + slope * (latents / 1024 - 0.5) + 0.03 * Math.log2(k / 16) * slope + 0.02 * chance.normal())));
            const half = round(0.02 + 0.02 * chance.next());
            const inputs = { codes: `blake3:${name}-${latents}-${k}` };
            writeResult(directory, {
              recipe: { metric, version: 1, profile: 'paper', seed, params: {}, inputs },
              headline: { [key]: { value, low: round(value - half), high: round(value + half), n: 24 } }, tables: {},
              about: { data: 'birds', inputs: name, k, l0: k + 0.5, latents, ...(name === 'oracle' ? { description: 'the truth itself' } : {}) },
            });
          }
        }
      }
    }
  };
  study('recovery', 'recovery', 0.4, 0.2);
  study('fms', 'fms', 0.45, -0.15);
  // A metric without a card must be shown too.
  study('future_metric', 'future_score', 0.5, 0.1);
}

function concepts(directory) {
  const chance = dice(42);
  const clusters = Array.from({ length: 24 }, () => ({ x: 3 * chance.normal(), y: 3 * chance.normal(), bias: chance.normal() }));
  const [xs, ys, bias] = [[], [], []];
  for (let latent = 0; latent < LATENTS; latent++) {
    const cluster = clusters[Math.floor(chance.next() * clusters.length)];
    xs.push(round(cluster.x + 0.45 * chance.normal()));
    ys.push(round(cluster.y + 0.45 * chance.normal()));
    bias.push(cluster.bias);
  }
  const names = { 0: 'bird feeder', 17: 'striped belly', 31999: 'stone wall' };
  fs.writeFileSync(path.join(directory, 'points.csv'), 'latent,x,y,name\n' + xs.map((x, latent) => `${latent},${x},${ys[latent]},${names[latent] ?? ''}`).join('\n') + '\n');
  const table = { model: [], latent: [], gap: [], gap_low: [], gap_high: [], relative_gap: [], q: [] };
  const latentTable = { latent: [], real_mean: [], real_fires: [], null_gap: [], null_gap_low: [], null_gap_high: [], null_q: [] };
  const add = (model, latent, gap, half) => {
    table.latent.push(latent);
    table.model.push(model);
    // One gap with more digits than a 32-bit number has, and a q that is below its range.
    table.gap.push(latent === 17 ? gap : round(gap));
    table.relative_gap.push(round(Math.tanh(gap)));
    table.gap_low.push(round(gap - half));
    table.gap_high.push(round(gap + half));
    table.q.push(latent === 17 ? 3.18e-64 : round(Math.min(1, Math.exp(-((gap / half) ** 2)))));
  };
  for (const [model, scale, shift] of [[0, 0.9, -0.15], [1, 0.7, 0]]) {
    for (let latent = 0; latent < LATENTS; latent++) {
      // Latent 5 is dead: it never fires and has no row.
      if (latent !== 5) add(model, latent, latent === 17 ? -4.0123456789 : scale * (bias[latent] + 0.8 * chance.normal()) + shift, 0.1 + 0.3 * chance.next());
    }
  }
  for (let latent = 0; latent < LATENTS; latent++) {
    latentTable.latent.push(latent);
    latentTable.real_mean.push(latent === 5 ? 0 : round(0.1 + chance.next()));
    latentTable.real_fires.push(latent === 5 ? 0 : 1 + Math.floor(9999 * chance.next() ** 3));
    const gap = latent === 5 ? null : round(0.05 * chance.normal());
    latentTable.null_gap.push(gap);
    latentTable.null_gap_low.push(gap === null ? null : round(gap - 0.1));
    latentTable.null_gap_high.push(gap === null ? null : round(gap + 0.1));
    latentTable.null_q.push(gap === null ? null : latent < 3 ? 0.01 : 0.9);
  }
  writeResult(directory, {
    recipe: { metric: 'blindspots', version: 1, profile: 'paper', seed: 0, params: { temperature: 0.8 }, inputs: { codes: 'blake3:real' } },
    headline: { suppressed: { value: 0.02, low: 0.018, high: 0.022, n: LATENTS } }, tables: { model: { name: ['sd15', 'pixart', 'real against real'] }, latent_model: table, latent: latentTable },
    about: { data: 'birds', inputs: 'sae-32k', latents: LATENTS },
  });
  fs.mkdirSync(path.join(directory, 'images'), { recursive: true });
  const lines = [];
  for (let sample = 0; sample < 60; sample++) {
    const bytes = plainPicture(40 + 3 * sample, 90, 200 - 2 * sample);
    const hash = createHash('sha256').update(bytes).digest('hex');
    fs.writeFileSync(path.join(directory, 'images', `${hash}.png`), bytes);
    const value = round(5 - sample / 13);
    lines.push({ id: `image-${sample}`, set: sample % 2 ? 'real' : 'sd15', image: hash, caption: sample ? `picture ${sample}` : '<b>not bold</b>', activations: [{ latent: 17, value, grid: [0, value, 0, value / 2] }, { latent: sample % 5, value: 1 }] });
  }
  for (const [index, text] of ['a bird at a feeder', '<script>alert("no")</script> is only text', 'two birds on a stone wall'].entries()) {
    const words = text.split(/(?<=\s)/);
    lines.push({ id: `text-${index}`, set: 'captions', text, activations: [{ latent: 0, value: 3 - index, tokens: words.map((_, i) => (i % 2 ? 1 + i : 0)) }] });
  }
  fs.writeFileSync(path.join(directory, 'samples.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n') + '\n');
}

/** Frequencies of 32,000 concepts: rare ones vary by chance, and one in twenty has a real gap. */
function frequencies(directory) {
  const chance = dice(9);
  const rows = Array.from({ length: LATENTS }, (_, latent) => ({ latent, frequency: Math.max(1e-4, Number(Math.min(1, Math.exp(1.6 * chance.normal() - 4)).toPrecision(4))) }));
  const noise = (frequency) => Math.max(-1, Math.min(1, (0.5 * chance.normal()) / Math.sqrt(10_000 * frequency)));
  // One concept is alone in its bin, which has no funnel; the others are less frequent.
  for (const row of rows) row.frequency = row.latent === LATENTS - 1 ? 0.99 : Math.min(0.5, row.frequency);
  for (const row of rows) row.null = noise(row.frequency);
  const bin = (frequency) => Math.floor(4 * Math.log10(frequency) + 1e-9);
  const bins = [...new Set(rows.map((row) => bin(row.frequency)))].sort((a, b) => a - b);
  const quantiles = bins.map((one) => {
    const inside = rows.filter((row) => bin(row.frequency) === one).map((row) => row.null).sort((a, b) => a - b);
    return { count: inside.length, at: (share) => (inside.length < 20 ? null : round(inside[Math.floor(share * (inside.length - 1))])) };
  });
  const lines = [0, 1].flatMap((model) => rows.map((row) => ({ ...row, model, relative: row.latent === LATENTS - 1 ? -0.77 : Math.max(-1, Math.min(1, noise(row.frequency) + (chance.next() < 0.05 ? 0.6 * chance.normal() : 0))) })));
  writeResult(directory, {
    recipe: { metric: 'frequency', version: 1, profile: 'paper', seed: 0, params: { temperature: 0.4 }, inputs: { codes: 'blake3:real' } },
    headline: Object.fromEntries(['frequency_gap', 'frequency_relative', 'null_frequency_gap', 'null_frequency_relative', 'outside_funnel'].map((key, index) => [key, { value: 0.3 - index / 10, low: 0.2 - index / 10, high: 0.4 - index / 10, n: LATENTS }])),
    tables: {
      model: { name: ['sd15', 'pixart'] },
      funnel: {
        frequency_from: bins.map((one) => 10 ** (one / 4)), frequency_to: bins.map((one) => 10 ** ((one + 1) / 4)), concepts: quantiles.map((one) => one.count),
        null_low: quantiles.map((one) => one.at(0.05)), null_median: quantiles.map((one) => one.at(0.5)), null_high: quantiles.map((one) => one.at(0.95)), outside_by_model: bins.map((_, index) => (quantiles[index].count < 20 ? [null, null] : [0.15, 0.2])),
      },
      latent: { latent: rows.map((row) => row.latent), frequency: rows.map((row) => row.frequency), null_relative_gap: rows.map((row) => round(row.null)) },
      latent_model: { model: lines.map((line) => line.model), latent: lines.map((line) => line.latent), gap: lines.map((line) => round(line.relative / 10)), relative_gap: lines.map((line) => round(line.relative)), relative_delta: lines.map((line) => round(1 / (1 + Math.exp(-line.relative / 0.4)))), q: lines.map((line) => (line.latent === LATENTS - 1 ? 3e-64 : 0.5)) },
    },
    about: { data: 'birds', inputs: 'sae-32k', latents: LATENTS },
  });
}

/** Makes the directory; `program` computes the results of a small world in it. */
export function make(directory, program) {
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(directory, { recursive: true });
  const world = path.join(directory, 'world');
  const run = (...words) => execFileSync(program, [...words, '--quiet'], { stdio: ['ignore', 'ignore', 'inherit'] });
  run('data', 'superposition', '--rows', '400', '--width', '16', '--features', '24', '--pairs', '80', '--out', world);
  run('sanity', '--world', world, '--codes', path.join(world, 'codes'), '--pair-codes', path.join(world, 'pair-codes'), '--metrics', 'match,tapa,probe_ceiling,monosemanticity', '--nulls', '1', '--out', directory);
  fs.rmSync(path.join(directory, 'report'), { recursive: true, force: true });
  runs(directory);
  concepts(directory);
  frequencies(directory);
}
