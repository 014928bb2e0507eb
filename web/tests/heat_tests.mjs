// What every patch and word does, on the card of a concept.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { open, serve, visit } from './browser.mjs';
import { COLOURS, colourAt, IMAGES, make, PATCHES, TEXTS, valueAt, WORDS } from './heat.mjs';

export async function heatTests(test, room, program, accessible) {
  const results = make(path.join(room, 'heat'), program);
  const { page, wrong } = await open(await serve(results));
  const samples = page.locator('section[aria-label=Samples]');
  const set = (name) => samples.locator('h2', { hasText: name }).locator('xpath=following-sibling::ul[1]');
  const images = Array.from({ length: IMAGES }, (_, image) => image);
  const mean = (image, latent, made) => Array.from({ length: PATCHES }, (_, patch) => (colourAt(image, patch, made) === latent ? valueAt(image, patch) : 0)).reduce((sum, value) => sum + value, 0) / (PATCHES + 1);

  await test('heat: the file has what was written into the codes', async () => {
    const lines = fs.readFileSync(path.join(results, 'samples.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    assert.equal(lines.length, 2 * (IMAGES + TEXTS));
    for (const made of [false, true]) for (const image of images) {
      const sample = lines.find((line) => line.row === image && line.set === (made ? 'sd' : 'real'));
      const own = sample.activations.find((one) => one.latent === COLOURS);
      // The token for the whole image is in the mean and not in the grid.
      assert.ok(!own.grid && Math.abs(own.value - (1 + image / 10) / 10) < 1e-5, JSON.stringify(own));
      for (const { latent, value, grid } of sample.activations.filter((one) => one.latent < COLOURS)) {
        assert.ok(Math.abs(value - mean(image, latent, made)) < 1e-4);
        if (grid) grid.forEach((cell, patch) => assert.ok(Math.abs(cell - (colourAt(image, patch, made) === latent ? valueAt(image, patch) : 0)) <= 0.005 * cell));
      }
    }
    assert.deepEqual(lines.find((line) => line.row === IMAGES && line.set === 'real').words, WORDS);
  });

  for (const made of [false, true]) {
    await test(`heat: cells lie on the patches of their colour, ${made ? 'generated' : 'real'}`, async () => {
      await visit(page, '#/concept/3');
      assert.deepEqual(await accessible(page), []);
      const strongest = images.map((image) => [mean(image, 3, made), image]).filter(([value]) => value > 0).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
      const [, image] = strongest[0];
      const first = set(made ? 'sd' : 'real').locator('li').first();
      assert.match(await first.innerText(), new RegExp(`patches ${image}\\b`));
      await first.locator('img').evaluate((one) => one.decode());
      const cells = await first.locator('rect.heat').evaluateAll((all) => all.map((one) => ['x', 'y', 'width', 'height', 'fill-opacity'].map((name) => Number(one.getAttribute(name)))));
      const expected = Array.from({ length: PATCHES }, (_, patch) => patch).filter((patch) => colourAt(image, patch, made) === 3);
      assert.deepEqual(cells.map(([x, y, width, height]) => [x, y, width, height]), expected.map((patch) => [16 * (patch % 3), 16 * Math.floor(patch / 3), 16, 16]));
      const most = Math.max(...expected.map((patch) => valueAt(image, patch)));
      cells.forEach((cell, i) => assert.ok(Math.abs(cell[4] - (0.65 * valueAt(image, expected[i])) / most) < 0.01, `${cell}`));
      // And the pixel under a cell has its colour: blue here, seen through orange.
      assert.ok((await set(made ? 'sd' : 'real').locator('li').count()) === 16);
    });
  }

  await test('heat: one scale, opacity, and none', async () => {
    await visit(page, '#/concept/3');
    const opacities = () => samples.locator('rect.heat').evaluateAll((all) => all.map((one) => Number(one.getAttribute('fill-opacity'))));
    const own = await opacities();
    await page.getByLabel('heat').selectOption('same');
    const same = await opacities();
    assert.ok(same.length === own.length && same.reduce((a, b) => a + b) < own.reduce((a, b) => a + b) && page.url().includes('heat=same'));
    await page.locator('main').focus();
    await page.keyboard.press('=');
    assert.ok(page.url().includes('opacity=0.75') && Math.max(...(await opacities())) > Math.max(...same));
    await page.keyboard.press('h');
    assert.equal(await samples.locator('rect.heat').count(), 0);
    await page.keyboard.press('h');
    assert.equal(await samples.locator('rect.heat').count(), own.length);
    // A mask lies over everything but the strongest patch.
    await page.getByLabel('heat').selectOption('own');
    await page.getByLabel('mask the rest').check();
    assert.equal(await samples.locator('rect.heat').count(), 0);
    const veils = await samples.locator('li').first().locator('rect.veil').count();
    assert.ok(veils === PATCHES - 1 && page.url().includes('mask=1'), String(veils));
  });

  await test('heat: words are marked by how strongly it fires on them', async () => {
    await visit(page, '#/concept/1');
    const texts = samples.locator('li', { has: page.locator('mark') });
    assert.ok((await texts.count()) > 2);
    const marks = await texts.first().locator('mark').evaluateAll((all) => all.map((one) => [one.textContent, one.className.match(/heat-\d/)[0]]));
    assert.equal(marks.length, 2);
    assert.deepEqual(marks.map(([word]) => word.trim()), ['bird', 'wall']);
    assert.ok(marks[0][1] === 'heat-5' && marks[1][1] < 'heat-3', JSON.stringify(marks));
    assert.equal((await texts.first().locator('.text').innerText()).replaceAll('\u00a0', ' '), WORDS.join(''));
  });

  await test('heat: some rows only, and still tenths of all of them', async () => {
    const few = make(path.join(room, 'heat-few'), program, 24);
    const { page, wrong, context } = await open(await serve(few));
    const concept = await page.evaluate(async () => (await fetch('api/v1/concepts/3.json')).json());
    for (const one of concept.sets.filter((one) => ['real', 'sd'].includes(one.name))) {
      const fires = images.filter((image) => mean(image, 3, one.name === 'sd') > 0).length;
      assert.ok(one.fired < fires, `${one.fired} of ${fires}`);
      const tenths = one.deciles.map((shown) => Math.floor(shown.above * 10 + 1e-6));
      assert.deepEqual(tenths, [...new Set(tenths)].sort((a, b) => a - b));
      assert.ok(tenths.length >= 6 && tenths.at(-1) >= 8 && tenths[0] <= 1, `tenths ${tenths}`);
      assert.ok([...one.top, ...one.deciles, ...one.random].every((shown) => shown.grid.length === PATCHES), 'all that is shown has its heat');
    }
    await visit(page, '#/concept/3?samples=deciles');
    assert.match(await page.locator('section[aria-label=Samples] ul').first().innerText(), /weakest tenth|ninth tenth/);
    assert.deepEqual(wrong, []);
    await context.close();
  });

  await test('heat: nothing in the console', async () => assert.deepEqual(wrong, []));
}
