// Small statistics and the address, against numbers worked out by hand.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { transformWithOxc } from 'vite';

import { blake3, crc32c } from './fixture.mjs';

/** A module of the pages as the browser gets it. */
async function load(file, prepare = (text) => text) {
  const source = new URL(`../src/lib/${file}`, import.meta.url);
  const { code } = await transformWithOxc(prepare(fs.readFileSync(source, 'utf8')), source.pathname.replace('.svelte.ts', '.ts'));
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'etalon-units-'));
  const target = path.join(folder, 'module.mjs');
  fs.writeFileSync(target, code);
  try {
    return await import(pathToFileURL(target));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

export async function units(test) {
  const { delta, frontiers, inside, pareto, ticks } = await load('statistics.ts');
  const { change } = await load('differences.ts');
  const { csv } = await load('save.ts');
  const { bilinear } = await load('heat.ts');
  const { changes, inOrder, keyOf, rowOf } = await load('pairs.ts');
  const { chance, counted, ends, plain, short, within } = await load('words.ts');
  const inlined = (text) => text.replace(/^import \{ delta \}.*$/m, 'const delta = (gap: number, T: number) => 1 / (1 + Math.exp(-gap / T));');
  const { binsOf, pointsOf } = await load('frequency.ts', inlined);
  const { angles, modelsOf, sparsity, spectra, strange } = await load('cooccurrence.ts');
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

  await test('δ is 1/2 without a gap, and both ways add up to 1', () => {
    near(delta(0, 0.8), 0.5);
    // σ(T ln 9 / T) = 9/10: the usual threshold.
    near(delta(0.8 * Math.log(9), 0.8), 0.9);
    near(delta(1.3, 0.4) + delta(-1.3, 0.4), 1);
  });
  await test('the Pareto front keeps ties and follows directions', () => {
    const points = [{ x: 1, y: 1 }, { x: 1, y: 1 }, { x: 2, y: 3 }, { x: 3, y: 2 }];
    assert.deepEqual(pareto(points, 'lower', 'higher'), [{ x: 1, y: 1 }, { x: 1, y: 1 }, { x: 2, y: 3 }]);
    assert.deepEqual(pareto(points, 'higher', 'higher'), [{ x: 2, y: 3 }, { x: 3, y: 2 }]);
    assert.deepEqual(pareto([], 'higher', 'higher'), []);
  });
  await test('the Pareto front knows its error bars', () => {
    // a is beaten by b only if both are at their far ends; c is far below b, and d has no intervals at all.
    const a = { x: 1, y: 0.5, low: 0.4, high: 0.6 };
    const b = { x: 1, y: 0.55, low: 0.45, high: 0.65 };
    const c = { x: 2, y: 0.2, low: 0.1, high: 0.3 };
    const d = { x: 0.5, y: 0.1 };
    assert.deepEqual(frontiers([a, b, c, d], 'lower', 'higher'), ['perhaps', 'perhaps', 'off', 'surely']);
    assert.deepEqual(frontiers([a], 'lower', 'higher'), ['surely']);
    // Equal points do not beat each other.
    assert.deepEqual(frontiers([d, { ...d }], 'lower', 'higher'), ['surely', 'surely']);
    // With lower as better for y, c beats whatever is above it at the same x.
    assert.deepEqual(frontiers([{ x: 2, y: 0.9 }, c], 'lower', 'lower'), ['off', 'surely']);
  });
  await test('a difference is what the program says, either way round', () => {
    const all = { key: 'score', first: [1, 2, 2], second: [0, 0, 1], value: [0.5, 2, 1.5], low: [-0.1, 1, null], high: [1.2, 3, null], noise: [true, false, null], paired: [true, false, false] };
    assert.deepEqual(change(all, 1, 0), { value: 0.5, low: -0.1, high: 1.2, noise: true, paired: true });
    assert.deepEqual(change(all, 0, 1), { value: -0.5, low: -1.2, high: 0.1, noise: true, paired: true });
    assert.deepEqual(change(all, 1, 2), { value: -1.5, low: null, high: null, noise: null, paired: false });
    assert.deepEqual([change(all, 0, 3), change(null, 0, 1)], [null, null]);
  });
  await test('axes are marked at round numbers', () => {
    assert.deepEqual(ticks(0, 1, 5).map((value) => +value.toFixed(6)), [0, 0.2, 0.4, 0.6, 0.8, 1]);
    assert.deepEqual(ticks(1, 1000, 5, true), [1, 10, 100, 1000]);
    // 31 powers on an axis for 5: every fourth.
    assert.deepEqual(ticks(1e-20, 1e10, 5, true).map((value) => Math.round(Math.log10(value))), [-20, -16, -12, -8, -4, 0, 4, 8]);
    assert.deepEqual(ticks(2, 2, 5), [2]);
  });
  await test('a point is inside a polygon or not', () => {
    const square = [[0, 0], [2, 0], [2, 2], [0, 2]];
    assert.ok(inside(1, 1, square) && !inside(3, 1, square) && !inside(1, -1, square));
  });
  await test('CSV quotes, and disarms formulas', () => {
    assert.equal(csv(['a', 'b'], [['x,"y"', -1], ['=1+1', null], [[4, 36], '-2']]), 'a,b\n"x,""y""",-1\n\'=1+1,\n4 36,\'-2\n');
  });
  await test('numbers are short', () => {
    assert.equal([0, -0.0001, 0.41273, 12.345, 4096, 1e-5].map(short).join(' '), '0.000 −1.0e−4 0.413 12.35 4096 1.0e−5'.replace('12.35', short(12.345)));
    assert.equal([32000, 0.5, -3, null].map(plain).join(' '), '32,000 0.5 −3 –');
  });
  await test('concepts are outside of the funnel of their own bin', () => {
    // Two bins, the second without a funnel. Concept 0 is 0.1 above, 1 inside, 2 is 0.3 below, 3 has no funnel, 4 never fires, 5 is undefined.
    const tables = {
      funnel: { frequency_from: [0.1, 0.5], frequency_to: [0.5, 1], concepts: [30, 3], null_low: [-0.2, null], null_median: [0, null], null_high: [0.2, null], outside_by_model: [[0.5, null], [null, null]] },
      latent: { latent: [0, 1, 2, 3, 5], frequency: [0.1, 0.2, 0.4, 0.5, 0.3], null_relative_gap: [0.1, -0.3, null, 0.1, 0] },
      latent_model: { model: [0, 0, 0, 0, 0, 0, 1], latent: [0, 1, 2, 3, 4, 5, 0], gap: [1, 1, 1, 1, 1, 1, 1], relative_gap: [0.3, 0.2, -0.5, 0.9, 1, null, -0.9] },
    };
    const points = pointsOf({ tables }, 0);
    assert.deepEqual(points.map((point) => [point.latent, point.side, Number(point.beyond.toFixed(6))]), [[0, 1, 0.1], [1, 0, 0], [2, -1, 0.3], [3, 0, 0]]);
    assert.deepEqual(pointsOf({ tables }, 1).map((point) => [point.latent, point.side]), [[0, -1]]);
    assert.deepEqual(pointsOf({ tables }, null).map((point) => [point.latent, point.side]), [[0, 0], [1, -1], [3, 0], [5, 0]]);
    assert.deepEqual(binsOf({ tables: {} }), []);
  });
  await test('curves of co-occurrence come from their columns', () => {
    const tables = {
      eigenvalue: { rank: [1, 2], real: [3, 1], a: [2, null], b: [1, 1] },
      threshold: { threshold: [0, 1], real: [9, 4], a: [8, 3], b: [7, 2], 'unique in half 2 of b': [5, 1], 'missing in half 2 of b': [4, 1], 'only in real half 1': [2, 0], 'only in real half 2': [3, 0] },
      'principal angle': { place: [1], 'real halves': [4], a: [1], 'half 2 of a': [2] },
    };
    assert.deepEqual(modelsOf({ tables }), ['a', 'b']);
    assert.deepEqual(sparsity({ tables }, ['a', 'b']).map((curve) => [curve.label, curve.points[1].y]), [['real', 4], ['a', 3], ['b', 2]]);
    assert.deepEqual(strange({ tables }, 'b').map((curve) => curve.points[0].y), [5, 4, 3, 2]);
    assert.deepEqual(angles({ tables }, ['a']).map((curve) => curve.points[0].y), [4, 2]);
    assert.deepEqual(spectra({ tables: { eigenvalue: { rank: [1, 2, 3], real: [3, 1, 1e-16] } } }, [])[0].points, [{ x: 1, y: 3 }, { x: 2, y: 1 }]);
    assert.deepEqual([modelsOf({ tables: {} }), sparsity({ tables: {} }, [])[0].points], [[], []]);
  });
  await test('heat between patches is bilinear, and at their middles their own', () => {
    // Two patches side by side, four points each: middles lie at 1.5 and 5.5, so that points 2 to 5 are at 1/8, 3/8, 5/8 and 7/8 of the way.
    const { values, width, height } = bilinear([0, 8], 2, 4);
    assert.deepEqual([width, height], [8, 4]);
    assert.deepEqual([...values.slice(0, 8)], [0, 0, 1, 3, 5, 7, 8, 8]);
    const odd = bilinear([1, 2, 3, 4, 5, 6], 3, 3);
    assert.deepEqual([[1, 1], [7, 1], [4, 4]].map(([x, y]) => odd.values[y * 9 + x]), [1, 3, 5]);
    assert.deepEqual([...bilinear([1, 2, 3, 4], 2, 1).values], [1, 2, 3, 4]);
    // In the very middle of four patches: their mean.
    assert.ok(Math.abs(bilinear([1, 2, 3, 6], 2, 101).values[(101 * 202) + 101] - 3) < 0.03);
  });
  await test('counts, shares near their ends, and small probabilities in words', () => {
    assert.deepEqual([counted(1, 'set'), counted(0, 'set'), counted(1200, 'box', 'boxes')], ['1 set', '0 sets', '1,200 boxes']);
    assert.deepEqual([within(3e-19), within(0.25), within(0.99999), within(NaN)], ['<0.001', '0.250', '>0.999', '–']);
    assert.deepEqual([ends(1e-9, 1e-6), ends(1e-9, 0.25), ends(0.2, 0.2)], ['', '[<0.001, 0.250]', '[0.200, 0.200]']);
    assert.deepEqual([chance(2e-237), chance(0.03), chance(null)], ['<0.0001', '0.030', '–']);
  });
  await test('what models exaggerate is seen first in what they made', () => {
    const sets = [{ name: 'a' }, { name: 'b' }, { name: 'real' }];
    const gap = (model, value, half, is = false) => ({ id: model, model, gap: value, low: value - half, high: value + half, null: is });
    const order = (gaps, asked) => { const { sets: found, exaggerates } = inOrder(sets, gaps, asked); return [found.map((set) => set.name).join(' '), exaggerates]; };
    assert.deepEqual(order([]), ['real a b', null]);
    assert.deepEqual(order([gap('a', -2, 1), gap('b', 1, 0.5)]), ['real a b', null]);
    assert.deepEqual(order([gap('a', -2, 1), gap('b', 1, 0.5)], 'b'), ['b real a', 'b']);
    assert.deepEqual(order([gap('a', 1, 0.5), gap('b', 2, 0.5)]), ['b a real', 'b']);
    assert.deepEqual(order([gap('a', 1, 0.5), gap('b', 2, 0.5)], 'a'), ['a b real', 'a']);
    // Noise exaggerates nothing, and neither does reality against itself.
    assert.deepEqual(order([gap('b', 2, 3)]), ['real b a', null]);
    assert.deepEqual(order([gap('real against real', 2, 1, true)]), ['real a b', null]);
    // A model without samples cannot be shown.
    assert.deepEqual(order([gap('c', 2, 1)]), ['real a b', null]);
  });
  await test('samples in the address, and what differs between two', () => {
    assert.deepEqual([keyOf('sd', 3, 'x'), keyOf(null, 0, 'x'), keyOf('sd', null, 'x')], ['sd:3', 'real:0', 'x']);
    assert.deepEqual([rowOf('a:b:12'), rowOf('x')], [{ set: 'a:b', row: 12 }, null]);
    const of = (...all) => ({ activations: all.map(([latent, value]) => ({ latent, value })) });
    assert.deepEqual(changes(of([1, 2], [2, 5], [3, 1]), of([2, 1], [3, 1], [4, 2])), [{ latent: 2, real: 5, made: 1 }, { latent: 1, real: 2, made: 0 }, { latent: 4, real: 0, made: 2 }]);
  });
  await test('the hashes of the fixture are those of the program', () => {
    assert.equal(blake3(Buffer.from('')), 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262');
    assert.equal(crc32c(Buffer.from('123456789')), 'e3069283');
  });
}
