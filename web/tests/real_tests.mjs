// The explorer on results that the program computed, from the world to the layout.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { cells, ink, number, open, saved, serve, downloadCharts, visit } from './browser.mjs';
import { make } from './real.mjs';

const PAGES = ['#/runs', '#/runs?tab=small', '#/tables', '#/tables?measure=blindspots&axis=latent_model', '#/tables?measure=divergence&axis=memorised', '#/tables?measure=cooccurrence&axis=latent', '#/map', '#/map?b=model_2', '#/map?b=model_2&layout=models', '#/concept', '#/concept/SOME', '#/concept/SOME?samples=deciles&heat=same', '#/concept/SOME?pair=real:3&smooth=1&mask=1', '#/match?cell=hits', '#/match?cell=others', '#/models', '#/models?kind=pearson', '#/pairs', '#/pairs?list=far&model=model_2', '#/pairs?list=close', '#/frequency', '#/frequency?model=model_2&y=delta&list=low', '#/frequency?model=real against real', '#/cooccurrence', '#/cooccurrence?model=model_2', '#/reports'];

export async function realTests(test, scratch, program, accessible) {
  const results = make(path.join(scratch, 'real'), program);
  const address = await serve(results);
  const { page, wrong } = await open(address);
  const ask = (name) => page.evaluate(async (name) => (await fetch(`api/v1/${name}.json`)).json(), name);
  const manifest = await ask('manifest');
  const listed = manifest.results.find((one) => one.metric === 'blindspots');
  const { tables, params } = await ask(`results/${listed.id}`);
  // The latent with the best match.
  const matched = (await ask(`results/${manifest.results.find((one) => one.metric === 'match').id}`)).tables.concept;
  const best = matched.f1.reduce((best, f1, row) => (f1 > (matched.f1[best] ?? 0) ? row : best), 0);
  const some = matched.coalition[best][0];
  const pages = PAGES.map((hash) => hash.replace('SOME', some));

  await test('real: the program reads its own files without problems', async () => {
    assert.deepEqual([manifest.problems, manifest.damaged], [[], []]);
    assert.deepEqual(manifest.layouts, [{ id: 'points', points: 128 }]);
    assert.equal(manifest.directions, 128);
    assert.ok(manifest.samples >= 1000 && manifest.images > 300, `${manifest.samples} samples, ${manifest.images} images`);
    assert.equal(manifest.sample_codes, listed.codes);
  });

  for (const hash of pages) {
    await test(`real: page ${hash}`, async () => {
      await visit(page, hash);
      assert.equal(await page.locator('[data-state=error]').count(), 0);
      assert.deepEqual(await accessible(page), []);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, 'wider than the window');
    });
  }

  await test('real: all pages narrow and dark', async () => {
    const { page, wrong, context } = await open(address, { width: 420, height: 850, dark: true });
    for (const hash of pages) {
      await visit(page, hash);
      assert.deepEqual(await accessible(page), [], hash);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${hash} is wider than the window`);
    }
    assert.deepEqual(wrong, []);
    await context.close();
  });

  await test('real: the map has the positions of etalon layout', async () => {
    await visit(page, '#/map');
    assert.equal(await page.getByText('There is no layout').count(), 0);
    assert.equal(await page.getByLabel('layout').inputValue(), 'points');
    const layout = await ask('layouts/points');
    const lines = fs.readFileSync(path.join(results, 'points.csv'), 'utf8').trim().split('\n');
    assert.equal(lines[0], 'row,x,y');
    lines.slice(1).forEach((line, index) => {
      const [row, x, y] = line.split(',').map(Number);
      assert.equal(layout.latent[index], row);
      assert.ok(Math.abs(layout.x[index] - x) < 1e-4 && Math.abs(layout.y[index] - y) < 1e-4);
    });
    const drawn = await ink(page);
    assert.ok(drawn.points === 128 && drawn.blue > 50 && drawn.orange > 50, JSON.stringify(drawn));
  });

  await test('real: counts of every model and of the null are those of the result', async () => {
    assert.equal(params.temperature, 0.02);
    for (const [row, name] of [[0, 'model_1'], [1, 'model_2']]) {
      await visit(page, `#/map?a=${name}`);
      const counts = await page.locator('[data-testid=counts] dd').allInnerTexts();
      const null_ = tables.model.name.indexOf('real against real');
      // Significant gaps come first, beside those of the null.
      assert.deepEqual([number(counts[0]), number(counts[1])], [tables.model.significant[row], tables.model.significant[null_]], name);
      assert.equal(number(counts[2]), tables.model.suppressed[row], name);
      assert.equal(number(counts[3]), tables.model.exaggerated[row], name);
      assert.equal(counts[4], `${tables.model.suppressed[null_]} / ${tables.model.exaggerated[null_]}`);
    }
    assert.ok((await page.getByLabel('model A').locator('option').allInnerTexts()).includes('real against real'));
  });

  await test('real: lists are sorted by gap and have intervals', async () => {
    const of = tables.latent_model;
    await visit(page, '#/map?a=model_1');
    const listed = await page.locator('.concepts li code').allInnerTexts();
    const significant = of.latent.filter((_, row) => of.model[row] === 0 && of.q[row] < 0.05);
    assert.ok(listed.length === Math.min(60, significant.length) && listed.every((text) => significant.includes(Number(text.slice(1)))), listed.join(' '));
    await visit(page, '#/map?a=model_1&list=suppressed');
    const rows = of.latent.map((_, row) => row).filter((row) => of.model[row] === 0).sort((a, b) => of.gap[a] - of.gap[b]);
    const first = await page.locator('.concepts li').first().innerText();
    const squash = (gap) => (1 / (1 + Math.exp(-gap / 0.02))).toFixed(3);
    assert.ok(first.includes(`#${of.latent[rows[0]]}`) && first.includes(squash(of.gap[rows[0]])), first);
    assert.ok(first.includes(`[${squash(of.gap_low[rows[0]])}, ${squash(of.gap_high[rows[0]])}]`), first);
    await visit(page, '#/map?a=model_1&b=model_2&show=difference&list=differ');
    assert.equal(await page.locator('canvas').count(), 1);
    assert.ok((await page.locator('.concepts li').count()) > 10);
    const { pair } = (await ask(`results/${manifest.results.find((one) => one.metric === 'blindspot_models').id}`)).tables;
    await page.waitForFunction(() => document.querySelector('[data-testid=counts]').textContent.includes('correlation of A and B'));
    const counts = await page.locator('[data-testid=counts]').innerText();
    assert.ok(counts.includes(pair.pearson[0].toFixed(3)) && counts.includes(pair.split_half[0].toFixed(3).replace('-', '−')), counts);
  });

  await test('real: a selection is saved, restored, exported and imported', async () => {
    await visit(page, '#/map?a=model_1&sel=1,2,3&list=selection');
    await page.getByLabel('Name of the selection').fill('my, three');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    assert.ok(decodeURIComponent(page.url()).includes('called=my, three'));
    await page.getByRole('button', { name: 'Clear selection' }).click();
    await page.reload();
    await page.waitForSelector('[aria-label=Selections]');
    await page.getByRole('button', { name: 'my, three 3' }).click();
    assert.ok(page.url().includes('sel=1,2,3'));
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export CSV' }).click()]);
    const text = fs.readFileSync(await download.path(), 'utf8');
    assert.match(text, /^selection,latent,name\n"my, three",1,/);
    await page.getByRole('button', { name: 'Delete my, three' }).click();
    await page.locator('input[type=file]').setInputFiles({ name: 'selections.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
    await page.getByRole('button', { name: 'my, three 3' }).waitFor();
  });

  await test('real: the card has gaps, partners, neighbours by cosine, and samples with boxes', async () => {
    await visit(page, `#/concept/${some}`);
    await page.waitForSelector('[data-testid=cosines]');
    assert.equal(await page.locator('aside figure svg circle').count(), 3);
    const cosines = (await page.locator('[data-testid=cosines] .quiet').allInnerTexts()).map((text) => Number(text.replace('−', '-')));
    assert.ok(cosines.length === 12 && cosines.every((cosine, index) => !index || cosine <= cosines[index - 1]), cosines.join(' '));
    const near = await ask(`neighbours/${some}`);
    assert.ok(near.nearest.every((one) => one.latent !== some && Math.abs(one.cosine) <= 1));
    const together = await ask(`results/${manifest.results.find((one) => one.metric === 'cooccurrence').id}`);
    const shown = (await page.locator('[data-testid=partners] tbody a').allInnerTexts()).map((text) => Number(text.slice(1)));
    assert.ok(shown.length > 3 && shown.every((latent) => together.tables.latent.partners[some].includes(latent)), shown.join(' '));
    const image = page.locator('section[aria-label=Samples] img').first();
    assert.ok(await image.evaluate((image) => image.decode().then(() => image.naturalWidth === 72)));
    assert.ok((await page.locator('section[aria-label=Samples] rect.box').count()) > 3);
    await page.getByLabel('boxes').uncheck();
    assert.equal(await page.locator('section[aria-label=Samples] rect.box').count(), 0);
  });

  await test('real: samples of a model come first if it exaggerates the concept, else real samples', async () => {
    const of = tables.latent_model;
    const rows = of.latent.map((_, row) => row).filter((row) => of.model[row] === 0 && manifest.concepts.includes(of.latent[row])).sort((a, b) => of.gap[a] - of.gap[b]);
    for (const [row, first] of [[rows[0], 'real'], [rows.at(-1), 'model_1']]) {
      assert.ok(first === 'real' ? of.gap_high[row] < 0 : of.gap_low[row] > 0);
      await visit(page, `#/concept/${of.latent[row]}?a=model_1`);
      assert.equal((await page.locator('section[aria-label=Samples] h2').first().innerText()).split(/[\s,]/)[0], first);
    }
  });

  await test('real: the pair dialog has every model', async () => {
    await visit(page, `#/concept/${some}`);
    await page.locator('section[aria-label=Samples] button.open').first().click();
    const dialog = page.locator('dialog');
    await dialog.locator('img').nth(3).waitFor();
    const models = await dialog.getByRole('group', { name: 'Model' }).getByRole('button').allInnerTexts();
    assert.deepEqual(models.toSorted(), ['model_1', 'model_2']);
    const pressed = () => dialog.getByRole('group', { name: 'Model' }).locator('[aria-pressed=true]').innerText();
    const before = await pressed();
    await page.keyboard.press(']');
    await page.waitForFunction((before) => document.querySelector('dialog [aria-pressed=true]')?.textContent !== before, before);
    assert.ok(models.includes(await pressed()));
    assert.deepEqual(await accessible(page), []);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  await test('real: heatmaps cover the shape of the matched concept', async () => {
    const name = matched.name[best];
    const { sets } = await ask(`concepts/${some}`);
    const [inside, all] = [[], []];
    for (const shown of sets.find((one) => one.name === 'real').top) {
      const box = shown.boxes.find((one) => one.name === name);
      if (!box) continue;
      assert.equal(shown.grid.length, 36);
      shown.grid.forEach((value, patch) => {
        const [x, y] = [((patch % 6) + 0.5) / 6, (Math.floor(patch / 6) + 0.5) / 6];
        all.push(value);
        if (x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height) inside.push(value);
      });
    }
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    assert.ok(sum(all) > 0 && sum(inside) / sum(all) > 0.9, `${sum(inside)} of ${sum(all)} in the box of ${name}`);
    await visit(page, `#/concept/${some}?mask=0`);
    assert.ok((await page.locator('section[aria-label=Samples] rect.heat').count()) > 30);
  });

  await test('real: the samples of a confusion cell are as many as its count', async () => {
    await visit(page, '#/match');
    const name = await page.locator('aside h2').innerText();
    const match = (await ask(`results/${manifest.results.find((one) => one.metric === 'match').id}`)).tables.concept;
    const row = match.name.indexOf(name);
    const hits = Math.round(match.recall[row] * match.positives[row]);
    await page.getByRole('button', { name: /has the concept, and the coalition fires/ }).click();
    await page.waitForSelector('[data-testid=cell]');
    // All rows are among the samples, so the counts are equal.
    assert.equal(number((await page.locator('[data-testid=cell]').innerText()).split(' ')[0]), hits);
    assert.ok((await page.locator('aside rect.box.own').count()) > 0, 'the box of the concept is highlighted');
    await page.getByRole('button', { name: /has the concept, but the coalition is silent/ }).click();
    await page.waitForFunction(() => document.querySelector('[data-testid=cell]')?.textContent.includes('silent'));
    assert.equal(number((await page.locator('[data-testid=cell]').innerText()).split(' ')[0]), match.positives[row] - hits);
  });

  await test('real: memorisation candidates have images of the nearest real rows', async () => {
    await visit(page, '#/pairs?model=model_1');
    const found = (await ask(`results/${manifest.results.find((one) => one.metric === 'divergence').id}`)).tables;
    const count = found.memorised.model.filter((model) => model === 0).length;
    const total = found.row_model.model.filter((model) => model === 0).length;
    assert.ok((await page.locator('[data-testid=pairs]').innerText()).startsWith(`${count} of ${total.toLocaleString('en')} pairs are candidates`));
    assert.ok(count > 3);
    const first = page.locator('ol.pairs > li').first();
    assert.match(await first.innerText(), new RegExp(`row ${found.memorised.row[0]}\\b`));
    assert.equal(await first.locator('img').count(), 2 + found.memorised.nearest_real_rows[0].length);
  });

  await test('real: correlations of models are those of the result', async () => {
    const { tables } = await ask(`results/${manifest.results.find((one) => one.metric === 'blindspot_models').id}`);
    await visit(page, '#/models');
    const written = (value) => value.toFixed(2).replace('-', '−');
    const matrix = page.locator('figure').first();
    assert.deepEqual(await matrix.locator('text.cell').allTextContents(), [written(tables.pair.split_half[0]), written(tables.pair.split_half[0])]);
    await page.getByRole('tab', { name: 'Same prompts' }).click();
    assert.deepEqual(await matrix.locator('text.cell').allTextContents(), [written(tables.pair.pearson[0]), written(tables.pair.pearson[0])]);
    const [line] = await page.locator('[data-testid=model-pairs] tbody tr').allInnerTexts();
    for (const column of ['pearson', 'split_half', 'median_first', 'second_nearer']) assert.ok(line.includes(tables.pair[column][0].toFixed(3).replace('-', '−')), column);
    for (const [row, name] of tables.set.set.entries()) {
      const links = page.locator(`section[aria-label="${name} ${tables.set.model[row]}"] a`);
      assert.deepEqual((await links.allInnerTexts()).map((text) => Number(text.match(/\d+/)[0])), tables.set.latents[row].slice(0, 40));
    }
    assert.equal(Number(await page.locator('[data-shared]').getAttribute('data-shared')), 2);
  });

  await test('real: frequency has every concept, the funnel of the result, and the concepts outside', async () => {
    const { id } = manifest.results.find((one) => one.metric === 'frequency');
    const { tables, headline } = await ask(`results/${id}`);
    for (const [model, name] of [[0, 'model_1'], [1, 'model_2']]) {
      await visit(page, `#/frequency?model=${name}`);
      const rows = tables.latent_model.model.flatMap((of, row) => (of === model && tables.latent_model.relative_gap[row] !== null ? [row] : []));
      assert.equal(Number(await page.locator('[data-spots]').getAttribute('data-spots')), rows.length);
      assert.equal(await page.locator('[data-spots] [data-bin]').count(), tables.funnel.null_low.filter((low) => low !== null).length);
      // The number outside follows from the shares in the result.
      const outside = tables.funnel.concepts.reduce((sum, concepts, bin) => sum + Math.round(concepts * (tables.funnel.outside_by_model[bin][model] ?? 0)), 0);
      const text = await page.locator('[data-testid=outside]').innerText();
      const [funnel, without] = [true, false].map((has) => rows.filter((row) => /by q/.test(tables.latent_model.class[row]) !== has).length);
      const byQ = rows.filter((row) => /^(below|above) by q$/.test(tables.latent_model.class[row])).length;
      assert.ok(text.startsWith(`${name}: ${outside} of ${funnel} concepts with a funnel`) && text.includes(`${outside + byQ} concept`), text);
      if (without) assert.match(text, new RegExp(`of ${without} without one, ${byQ} ha(s|ve) q`));
    }
    const shown = await page.locator('[data-testid=frequency-numbers]').innerText();
    for (const key of ['frequency_gap', 'frequency_relative', 'null_frequency_relative']) assert.ok(headline[key].value === null || shown.includes(headline[key].value.toFixed(3).replace('-', '−')), key);
    const { name, bytes } = await saved(page, page.locator('main figure').first(), 'CSV');
    const [heads, ...lines] = cells(bytes);
    assert.equal(name, 'frequency-model_2.csv');
    assert.deepEqual(heads.slice(0, 5), ['latent', 'name', 'frequency', 'gap', 'relative gap']);
    const frequencies = new Map(tables.latent.latent.map((latent, row) => [latent, tables.latent.frequency[row]]));
    for (const [latent, , frequency] of lines) assert.equal(Number(frequency), frequencies.get(Number(latent)));
    // The classes of the page are those of the program.
    const classes = new Map(tables.latent_model.latent.flatMap((latent, row) => (tables.latent_model.model[row] === 1 ? [[latent, tables.latent_model.class[row]]] : [])));
    for (const line of lines) assert.equal(line.at(-1), classes.get(Number(line[0])), line.join(' '));
    await page.keyboard.press(']');
    await page.waitForFunction(() => location.hash.includes('real%20against%20real'));
    // A point opens its card.
    await visit(page, '#/frequency?model=model_1');
    const first = page.locator('.concepts a').first();
    await first.focus();
    assert.equal(await page.locator('[data-spots] .halo').count(), 1);
    const spot = await page.locator('[data-spots] .halo').boundingBox();
    await page.mouse.click(spot.x + spot.width / 2, spot.y + spot.height / 2);
    await page.waitForFunction(() => location.hash.startsWith('#/concept/'));
  });

  await test('real: co-occurrence charts show the tables of the result', async () => {
    const { id } = manifest.results.find((one) => one.metric === 'cooccurrence');
    const { tables, headline } = await ask(`results/${id}`);
    await visit(page, '#/cooccurrence?model=model_2');
    assert.deepEqual(await page.locator('[data-curves]').evaluateAll((all) => all.map((one) => Number(one.dataset.curves))), [3, 4, 3, 3]);
    const count = tables.eigenvector.model_2.length;
    assert.equal(Number(await page.locator('[data-cells]').getAttribute('data-cells')), count * count);
    const shown = await page.locator('main').innerText();
    for (const key of ['unique_share', 'unique_share_null', 'missing_share_half', 'subspace_alignment', 'vector_alignment', 'slope_real']) assert.ok(shown.includes(headline[key].value.toFixed(3).replace('-', '−')), key);
    for (const [title, axis] of [['Pairs that co-occur', 'threshold'], ['Spectrum', 'eigenvalue'], ['Principal angles', 'principal angle']]) {
      const [heads, ...lines] = cells((await saved(page, page.locator(`figure[aria-label="${title}"]`), 'CSV')).bytes);
      assert.deepEqual(heads, Object.keys(tables[axis]));
      heads.forEach((head, column) => lines.forEach((line, row) => assert.equal(line[column], tables[axis][head][row] === null ? '' : String(tables[axis][head][row]))));
    }
    // Arrow keys read the values.
    const spectrum = page.locator('figure[aria-label="Spectrum"]');
    await spectrum.locator('svg').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    assert.match(await spectrum.locator('.read').innerText(), /^rank 2: real /);
    assert.ok((await spectrum.locator('.read').innerText()).includes(tables.eigenvalue.real[1] >= 10 ? '' : tables.eigenvalue.real[1].toFixed(3)));
  });

  await test('real: a single input set has no chart', async () => {
    await visit(page, '#/runs');
    assert.match(await page.locator('[data-state=empty]').innerText(), /only one input set/);
    assert.deepEqual([await page.locator('main figure').count(), await page.locator('main tbody tr').count()], [0, 1]);
  });

  for (const hash of ['#/map', `#/concept/${some}`, '#/match', '#/models', '#/pairs', '#/frequency', '#/cooccurrence', '#/tables?measure=blindspots&axis=latent_model', '#/reports']) {
    await test(`real: charts of ${hash} can be downloaded`, async () => {
      await visit(page, hash);
      if (hash.startsWith('#/concept/')) await page.waitForSelector('aside figure');
      assert.ok((await downloadCharts(page)) > 0);
    });
  }

  await test('real: downloads of dark charts are dark', async () => {
    const { page, context } = await open(`${address}`, { dark: true });
    await visit(page, '#/cooccurrence');
    assert.equal(await downloadCharts(page), 5);
    assert.match(String((await saved(page, page.locator('figure').first(), 'SVG')).bytes), /fill="rgb\(20, 23, 27\)"/);
    await context.close();
  });

  await test('real: the single-file export has all pages', async () => {
    const file = path.join(scratch, 'real.html');
    execFileSync(program, ['export', results, '--single', file, '--quiet']);
    const { page, wrong, context } = await open(`file://${file}`);
    for (const hash of pages) {
      await visit(page, hash);
      assert.equal(await page.locator('[data-state=error]').count(), 0, hash);
    }
    await visit(page, `#/concept/${some}`);
    await page.waitForSelector('[data-testid=cosines]');
    await visit(page, '#/pairs');
    assert.ok(await page.locator('ol.pairs img').first().evaluate((image) => image.decode().then(() => image.naturalWidth === 72)));
    assert.deepEqual(wrong, []);
    await context.close();
  });

  await test('real: no console errors, no requests to other servers', async () => assert.deepEqual(wrong, []));
}
