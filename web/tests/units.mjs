// Unit tests of the library functions, against worked examples.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { transformWithOxc } from 'vite';

import { blake3, crc32c } from './fixture.mjs';

/** Compiles the modules of the explorer that need no browser; returns a function that imports one of them. */
async function compile() {
  const lib = new URL('../src/lib/', import.meta.url);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'etalon-units-'));
  for (const file of fs.readdirSync(lib).filter((file) => !file.endsWith('.svelte.ts'))) {
    const { code } = await transformWithOxc(fs.readFileSync(new URL(file, lib), 'utf8'), file);
    fs.writeFileSync(path.join(folder, file.replace('.ts', '.mjs')), code.replace(/from (['"])(\.\/\w+)\1/g, "from '$2.mjs'"));
  }
  process.once('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  return (name) => import(pathToFileURL(path.join(folder, `${name}.mjs`)));
}

export async function units(test) {
  const load = await compile();
  const { delta, fittedTemperature, frontiers, inside, pareto, signedLevel, ticks } = await load('statistics');
  const { sameDictionary, foreign } = await load('dictionary');
  const { withModelNames } = await load('tables');
  const { change } = await load('differences');
  const { csv } = await load('download');
  const { bilinear } = await load('heat');
  const { changes, inOrder, keyOf, rowOf } = await load('pairs');
  const { counted, fraction, fractionInterval, plain, pValue, short } = await load('format');
  const { binsOf, classOf, countsOf, pointsOf } = await load('frequency');
  const { angles, modelsOf, sparsity, spectra, oneSided } = await load('cooccurrence');
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

  await test('δ is 1/2 without a gap and symmetric', () => {
    near(delta(0, 0.8), 0.5);
    // σ(T ln 9 / T) = 9/10: the usual threshold.
    near(delta(0.8 * Math.log(9), 0.8), 0.9);
    near(delta(1.3, 0.4) + delta(-1.3, 0.4), 1);
  });
  await test('a fitted temperature puts as many gaps beyond the thresholds as asked', () => {
    const gaps = [-0.3, 0.2, 0.1, -0.05, 0, NaN];
    const beyond = (T) => gaps.filter((gap) => delta(gap, T) < 0.1 || delta(gap, T) > 0.9).length;
    for (const count of [1, 2, 3, 4]) assert.equal(beyond(fittedTemperature(gaps, count, 0.1, 0.9)), count);
    // 0.3 / ln 9 = 0.13653, rounded down.
    assert.equal(fittedTemperature(gaps, 1, 0.1, 0.9), 0.136);
    assert.equal(fittedTemperature(gaps, 9, 0.1, 0.9), fittedTemperature(gaps, 4, 0.1, 0.9));
    assert.equal(fittedTemperature([0, NaN], 2, 0.1, 0.9), null);
    // 1e-5 is half of ten decades, with the sign of the gap.
    near(signedLevel(1e-5, -2), -0.5);
    assert.deepEqual([signedLevel(0, 1), Math.abs(signedLevel(1, 1))], [1, 0]);
  });
  await test('samples and their tokens belong to one dictionary', () => {
    const manifest = { sample_codes: 'pooled', sample_token_codes: 'tokens', results: [{ id: 'a', codes: 'tokens' }, { id: 'b', codes: 'other' }, { id: 'c', codes: 'pooled' }] };
    assert.ok(sameDictionary(manifest, 'tokens', 'pooled') && !sameDictionary(manifest, 'other', 'pooled') && sameDictionary(manifest, 'x', 'x'));
    assert.deepEqual(['a', 'b', 'c'].map((id) => foreign(manifest, id)), [false, true, false]);
  });
  await test('tables have the names of models', () => {
    const tables = { model: { name: ['sd', 'dalle'] }, row_model: { model: [1, 0], row: [4, 5] }, set: { model: ['sd'] } };
    assert.deepEqual(withModelNames(tables, 'row_model'), { model: ['dalle', 'sd'], row: [4, 5] });
    assert.deepEqual([withModelNames(tables, 'set'), withModelNames(tables, 'model')], [tables.set, tables.model]);
  });
  await test('the Pareto front keeps ties and respects directions', () => {
    const points = [{ x: 1, y: 1 }, { x: 1, y: 1 }, { x: 2, y: 3 }, { x: 3, y: 2 }];
    assert.deepEqual(pareto(points, 'lower', 'higher'), [{ x: 1, y: 1 }, { x: 1, y: 1 }, { x: 2, y: 3 }]);
    assert.deepEqual(pareto(points, 'higher', 'higher'), [{ x: 2, y: 3 }, { x: 3, y: 2 }]);
    assert.deepEqual(pareto([], 'higher', 'higher'), []);
  });
  await test('membership in the Pareto front depends on intervals', () => {
    // b dominates a only at some ends of their intervals; b always dominates c; d has no intervals.
    const a = { x: 1, y: 0.5, low: 0.4, high: 0.6 };
    const b = { x: 1, y: 0.55, low: 0.45, high: 0.65 };
    const c = { x: 2, y: 0.2, low: 0.1, high: 0.3 };
    const d = { x: 0.5, y: 0.1 };
    assert.deepEqual(frontiers([a, b, c, d], 'lower', 'higher'), ['perhaps', 'perhaps', 'off', 'surely']);
    assert.deepEqual(frontiers([a], 'lower', 'higher'), ['surely']);
    // Equal points do not dominate each other.
    assert.deepEqual(frontiers([d, { ...d }], 'lower', 'higher'), ['surely', 'surely']);
    // If lower y is better, c dominates any point above it at the same x.
    assert.deepEqual(frontiers([{ x: 2, y: 0.9 }, c], 'lower', 'lower'), ['off', 'surely']);
  });
  await test('a difference is that of the program, in both directions', () => {
    const all = { key: 'score', first: [1, 2, 2], second: [0, 0, 1], value: [0.5, 2, 1.5], low: [-0.1, 1, null], high: [1.2, 3, null], noise: [true, false, null], paired: [true, false, false] };
    assert.deepEqual(change(all, 1, 0), { value: 0.5, low: -0.1, high: 1.2, noise: true, paired: true });
    assert.deepEqual(change(all, 0, 1), { value: -0.5, low: -1.2, high: 0.1, noise: true, paired: true });
    assert.deepEqual(change(all, 1, 2), { value: -1.5, low: null, high: null, noise: null, paired: false });
    assert.deepEqual([change(all, 0, 3), change(null, 0, 1)], [null, null]);
  });
  await test('ticks are round numbers', () => {
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
  await test('CSV quotes cells and escapes formulas', () => {
    assert.equal(csv(['a', 'b'], [['x,"y"', -1], ['=1+1', null], [[4, 36], '-2']]), 'a,b\n"x,""y""",-1\n\'=1+1,\n4 36,\'-2\n');
  });
  await test('numbers are formatted with few digits', () => {
    assert.equal([0, -0.0001, 0.41273, 12.345, 4096, 1e-5].map(short).join(' '), '0.000 −1.0e−4 0.413 12.35 4096 1.0e−5'.replace('12.35', short(12.345)));
    assert.equal([32000, 0.5, -3, null].map(plain).join(' '), '32,000 0.5 −3 –');
  });
  await test('concepts are compared with the funnel of their bin', () => {
    // Two bins, the second without a funnel. Concept 0 is 0.1 above, 1 inside, 2 is 0.3 below, 3 has no funnel, 4 never fires, 5 is undefined.
    const tables = {
      funnel: { frequency_from: [0.1, 0.5], frequency_to: [0.5, 1], concepts: [30, 3], null_low: [-0.2, null], null_median: [0, null], null_high: [0.2, null], outside_by_model: [[0.5, null], [null, null]] },
      latent: { latent: [0, 1, 2, 3, 5], frequency: [0.1, 0.2, 0.4, 0.5, 0.3], null_relative_gap: [0.1, -0.3, null, 0.1, 0] },
      latent_model: { model: [0, 0, 0, 0, 0, 0, 1], latent: [0, 1, 2, 3, 4, 5, 0], gap: [1, 1, 1, 1, 1, 1, 1], relative_gap: [0.3, 0.2, -0.5, 0.9, 1, null, -0.9], q: [1, 0, 1, 3e-64, 1, 1, 1] },
    };
    const points = pointsOf({ tables }, 0);
    assert.deepEqual(points.map((point) => [point.latent, point.side, Number(point.beyond.toFixed(6))]), [[0, 1, 0.1], [1, 0, 0], [2, -1, 0.3], [3, 1, 0.9]]);
    assert.deepEqual(points.map(classOf), ['above', 'inside', 'below', 'above by q']);
    assert.deepEqual(countsOf(points), { outside: 2, funnel: 3, significant: 1, without: 1 });
    assert.deepEqual(pointsOf({ tables }, 1).map((point) => [point.latent, point.side]), [[0, -1]]);
    assert.deepEqual(pointsOf({ tables }, null).map((point) => [point.latent, point.side]), [[0, 0], [1, -1], [3, 0], [5, 0]]);
    assert.deepEqual(binsOf({ tables: {} }), []);
  });
  await test('curves of co-occurrence are columns of the tables', () => {
    const tables = {
      eigenvalue: { rank: [1, 2], real: [3, 1], a: [2, null], b: [1, 1] },
      threshold: { threshold: [0, 1], real: [9, 4], a: [8, 3], b: [7, 2], 'unique in half 2 of b': [5, 1], 'missing in half 2 of b': [4, 1], 'only in real half 1': [2, 0], 'only in real half 2': [3, 0] },
      'principal angle': { place: [1], 'real halves': [4], a: [1], 'half 2 of a': [2] },
    };
    assert.deepEqual(modelsOf({ tables }), ['a', 'b']);
    assert.deepEqual(sparsity({ tables }, ['a', 'b']).map((curve) => [curve.label, curve.points[1].y]), [['real', 4], ['a', 3], ['b', 2]]);
    assert.deepEqual(oneSided({ tables }, 'b').map((curve) => curve.points[0].y), [5, 4, 3, 2]);
    assert.deepEqual(angles({ tables }, ['a']).map((curve) => curve.points[0].y), [4, 2]);
    assert.deepEqual(spectra({ tables: { eigenvalue: { rank: [1, 2, 3], real: [3, 1, 1e-16] } } }, [])[0].points, [{ x: 1, y: 3 }, { x: 2, y: 1 }]);
    assert.deepEqual([modelsOf({ tables: {} }), sparsity({ tables: {} }, [])[0].points], [[], []]);
  });
  await test('heatmaps are bilinear between the centres of patches', () => {
    // Two patches with four points each: centres at 1.5 and 5.5, so points 2 to 5 are at 1/8, 3/8, 5/8 and 7/8 of the way.
    const { values, width, height } = bilinear([0, 8], 2, 4);
    assert.deepEqual([width, height], [8, 4]);
    assert.deepEqual([...values.slice(0, 8)], [0, 0, 1, 3, 5, 7, 8, 8]);
    const odd = bilinear([1, 2, 3, 4, 5, 6], 3, 3);
    assert.deepEqual([[1, 1], [7, 1], [4, 4]].map(([x, y]) => odd.values[y * 9 + x]), [1, 3, 5]);
    assert.deepEqual([...bilinear([1, 2, 3, 4], 2, 1).values], [1, 2, 3, 4]);
    // In the middle of four patches: their mean.
    assert.ok(Math.abs(bilinear([1, 2, 3, 6], 2, 101).values[(101 * 202) + 101] - 3) < 0.03);
  });
  await test('counts, fractions near 0 and 1, and small p-values', () => {
    assert.deepEqual([counted(1, 'set'), counted(0, 'set'), counted(1200, 'box', 'boxes')], ['1 set', '0 sets', '1,200 boxes']);
    assert.deepEqual([fraction(3e-19), fraction(0.25), fraction(0.99999), fraction(NaN)], ['<0.001', '0.250', '>0.999', '–']);
    assert.deepEqual([fractionInterval(1e-9, 1e-6), fractionInterval(1e-9, 0.25), fractionInterval(0.2, 0.2)], ['', '[<0.001, 0.250]', '[0.200, 0.200]']);
    assert.deepEqual([pValue(2e-237), pValue(0.03), pValue(null)], ['<0.0001', '0.030', '–']);
  });
  await test('the model that exaggerates a concept is shown first', () => {
    const sets = [{ name: 'a' }, { name: 'b' }, { name: 'real' }];
    const gap = (model, value, half, is = false) => ({ id: model, model, gap: value, low: value - half, high: value + half, null: is });
    const order = (gaps, requested) => { const { sets: sorted, exaggerates } = inOrder(sets, gaps, requested); return [sorted.map((set) => set.name).join(' '), exaggerates]; };
    assert.deepEqual(order([]), ['real a b', null]);
    assert.deepEqual(order([gap('a', -2, 1), gap('b', 1, 0.5)]), ['real a b', null]);
    assert.deepEqual(order([gap('a', -2, 1), gap('b', 1, 0.5)], 'b'), ['b real a', 'b']);
    assert.deepEqual(order([gap('a', 1, 0.5), gap('b', 2, 0.5)]), ['b a real', 'b']);
    assert.deepEqual(order([gap('a', 1, 0.5), gap('b', 2, 0.5)], 'a'), ['a b real', 'a']);
    // Neither noise nor real against real counts as exaggeration.
    assert.deepEqual(order([gap('b', 2, 3)]), ['real b a', null]);
    assert.deepEqual(order([gap('real against real', 2, 1, true)]), ['real a b', null]);
    // A model without samples is not shown.
    assert.deepEqual(order([gap('c', 2, 1)]), ['real a b', null]);
  });
  await test('keys of samples in the address, and differences between two samples', () => {
    assert.deepEqual([keyOf('sd', 3, 'x'), keyOf(null, 0, 'x'), keyOf('sd', null, 'x')], ['sd:3', 'real:0', 'x']);
    assert.deepEqual([rowOf('a:b:12'), rowOf('x')], [{ set: 'a:b', row: 12 }, null]);
    const of = (...all) => ({ activations: all.map(([latent, value]) => ({ latent, value })) });
    assert.deepEqual(changes(of([1, 2], [2, 5], [3, 1]), of([2, 1], [3, 1], [4, 2])), [{ latent: 2, real: 5, generated: 1 }, { latent: 1, real: 2, generated: 0 }, { latent: 4, real: 0, generated: 2 }]);
  });
  await test('the hashes of the fixture are those of the program', () => {
    assert.equal(blake3(Buffer.from('')), 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262');
    assert.equal(crc32c(Buffer.from('123456789')), 'e3069283');
  });
}
