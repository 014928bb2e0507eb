// Heatmaps of patches and words on the card of a concept.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { decoded, open, serve, visit } from './browser.mjs';
import { COLOURS, colourAt, IMAGES, make, PATCHES, TEXTS, valueAt, WORDS } from './heat.mjs';

export async function heatTests(test, scratch, program, accessible) {
  const results = make(path.join(scratch, 'heat'), program);
  const { page, wrong } = await open(await serve(results));
  const samples = page.locator('section[aria-label=Samples]');
  const set = (name) => samples.locator('h2', { hasText: name }).locator('xpath=following-sibling::ul[1]');
  const images = Array.from({ length: IMAGES }, (_, image) => image);
  const mean = (image, latent, made) => Array.from({ length: PATCHES }, (_, patch) => (colourAt(image, patch, made) === latent ? valueAt(image, patch) : 0)).reduce((sum, value) => sum + value, 0) / (PATCHES + 1);

  await test('heat: the file has the values of the codes', async () => {
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
    await test(`heat: cells cover the patches of their colour, ${made ? 'generated' : 'real'}`, async () => {
      await visit(page, '#/concept/3?mask=0');
      assert.deepEqual(await accessible(page), []);
      const strongest = images.map((image) => [mean(image, 3, made), image]).filter(([value]) => value > 0).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
      const [, image] = strongest[0];
      const first = set(made ? 'sd' : 'real').locator('li').first();
      assert.match(await first.innerText(), new RegExp(`patches ${image}\\b`));
      await decoded(first.locator('img'));
      const cells = await first.locator('rect.heat').evaluateAll((all) => all.map((one) => ['x', 'y', 'width', 'height', 'fill-opacity'].map((name) => Number(one.getAttribute(name)))));
      const expected = Array.from({ length: PATCHES }, (_, patch) => patch).filter((patch) => colourAt(image, patch, made) === 3);
      assert.deepEqual(cells.map(([x, y, width, height]) => [x, y, width, height]), expected.map((patch) => [16 * (patch % 3), 16 * Math.floor(patch / 3), 16, 16]));
      const most = Math.max(...expected.map((patch) => valueAt(image, patch)));
      cells.forEach((cell, i) => assert.ok(Math.abs(cell[4] - (0.5 * valueAt(image, expected[i])) / most) < 0.01, `${cell}`));
      assert.ok((await set(made ? 'sd' : 'real').locator('li').count()) === 16);
    });
  }

  await test('heat: the strongest patch is not covered by default', async () => {
    await visit(page, '#/concept/3');
    assert.equal(await samples.locator('rect.heat').count(), 0);
    const image = images.map((image) => [mean(image, 3, false), image]).sort((a, b) => b[0] - a[0] || a[1] - b[1])[0][1];
    const first = set('real').locator('li').first();
    await decoded(first.locator('img'));
    const veils = await first.locator('rect.veil').evaluateAll((all) => all.map((one) => ['x', 'y', 'fill-opacity'].map((name) => Number(one.getAttribute(name)))));
    const values = Array.from({ length: PATCHES }, (_, patch) => (colourAt(image, patch, false) === 3 ? valueAt(image, patch) : 0));
    const strongest = values.indexOf(Math.max(...values));
    assert.ok(!veils.some(([x, y]) => x === 16 * (strongest % 3) && y === 16 * Math.floor(strongest / 3)), 'the strongest patch has no veil');
    assert.equal(veils.length, PATCHES - 1);
    // Silent patches are veiled most, and still visible.
    assert.ok(veils.every(([, , opacity]) => opacity <= 0.8) && veils.some(([, , opacity]) => opacity === 0.8));
  });

  await test('heat: common scale, opacity, and off', async () => {
    await visit(page, '#/concept/3?mask=0');
    const opacities = () => samples.locator('rect.heat').evaluateAll((all) => all.map((one) => Number(one.getAttribute('fill-opacity'))));
    const own = await opacities();
    await page.getByLabel('heatmap').selectOption('same');
    const same = await opacities();
    assert.ok(same.length === own.length && same.reduce((a, b) => a + b) < own.reduce((a, b) => a + b) && page.url().includes('heat=same'));
    await page.locator('main').focus();
    await page.keyboard.press('=');
    assert.ok(page.url().includes('opacity=0.60') && Math.max(...(await opacities())) > Math.max(...same));
    await page.keyboard.press('h');
    assert.equal(await samples.locator('rect.heat').count(), 0);
    await page.keyboard.press('h');
    assert.equal(await samples.locator('rect.heat').count(), own.length);
    // The mask covers everything but the strongest patch.
    await page.getByLabel('heatmap').selectOption('own');
    await page.getByLabel('mask the rest').check();
    assert.equal(await samples.locator('rect.heat').count(), 0);
    const veils = await samples.locator('li').first().locator('rect.veil').count();
    assert.ok(veils === PATCHES - 1 && !page.url().includes('mask='), String(veils));
  });

  await test('heat: smooth heatmaps have the values of patches at their centres', async () => {
    await visit(page, '#/concept/3?mask=0');
    const cells = await samples.locator('li').first().locator('rect.heat').evaluateAll((all) => all.map((one) => ['x', 'y', 'fill-opacity'].map((name) => Number(one.getAttribute(name)))));
    const drawn = await samples.locator('li', { has: page.locator('rect.heat') }).count();
    await page.getByRole('button', { name: 'smooth' }).click();
    assert.ok(page.url().includes('smooth=1') && (await samples.locator('rect.heat').count()) === 0);
    assert.equal(await samples.locator('image.heat').count(), drawn);
    const opacities = await samples.locator('li').first().locator('image.heat').evaluate(async (one, cells) => {
      const image = new Image();
      image.src = one.getAttribute('href');
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      return cells.map(([x, y]) => data[4 * (Math.floor(((y + 8) / 48) * canvas.height) * canvas.width + Math.floor(((x + 8) / 48) * canvas.width)) + 3] / 255);
    }, cells);
    opacities.forEach((opacity, i) => assert.ok(Math.abs(opacity - cells[i][2]) < 0.03, `${opacity} for ${cells[i]}`));
    assert.ok(opacities.length > 0);
    // The mask has the colour of the background.
    await page.getByLabel('mask the rest').check();
    const masked = await samples.locator('li').first().locator('image.veil').evaluate(async (one) => {
      const image = new Image();
      image.src = one.getAttribute('href');
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      const strongest = Array.from({ length: data.length / 4 }, (_, i) => 4 * i).reduce((best, i) => (data[i + 3] > data[best + 3] ? i : best), 0);
      return [...data.slice(strongest, strongest + 3)];
    });
    assert.ok(masked.every((part) => part > 250), masked.join(' '));
  });

  await test('heat: a sample opens its row, real beside generated, both with heat', async () => {
    await visit(page, '#/concept/3?mask=0');
    const dialog = page.locator('dialog');
    const lines = fs.readFileSync(path.join(results, 'samples.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    const at = (row, set) => lines.find((line) => line.row === row && line.set === set);
    // Samples shown in one set have heatmaps in the other set too.
    for (const { sets } of [await page.evaluate(async () => (await fetch('api/v1/concepts/3.json')).json())]) for (const { name, top, deciles, random } of sets) for (const { row } of [...top, ...deciles, ...random]) {
      for (const line of ['real', 'sd'].map((set) => row < IMAGES && at(row, set))) if (line) for (const one of line.activations) assert.ok(one.latent !== 3 || one.grid, `${name} ${row}`);
    }
    const opener = set('real').locator('button.open').nth(1);
    await opener.click();
    await dialog.locator('img').nth(3).waitFor();
    const row = Number((await dialog.getAttribute('data-pair')).split(':')[1]);
    assert.ok(decodeURIComponent(page.url()).includes(`pair=real:${row}`));
    assert.deepEqual(await accessible(page), []);
    assert.match(await dialog.innerText(), new RegExp(`patches ${row}\\b`));
    const heats = await dialog.locator('figure').evaluateAll((all) => all.map((one) => one.querySelectorAll('rect.heat').length));
    const patches = (made) => Array.from({ length: PATCHES }, (_, patch) => patch).filter((patch) => colourAt(row, patch, made) === 3).length;
    assert.deepEqual(heats, [0, 0, patches(false), patches(true)]);
    const [real, made] = ['real', 'sd'].map((set) => new Map(at(row, set).activations.map((one) => [one.latent, one.value])));
    const differences = [...new Set([...real.keys(), ...made.keys()])].map((latent) => [latent, (made.get(latent) ?? 0) - (real.get(latent) ?? 0)]).filter(([, by]) => by).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]) || a[0] - b[0]);
    const shown = await dialog.locator('[data-testid=changed] a').allInnerTexts();
    assert.deepEqual(shown.map((text) => Number(text.match(/#(\d+)/)[1])), differences.map(([latent]) => latent));
    // The address reproduces the dialog.
    const second = await page.context().newPage();
    await second.goto(page.url());
    await second.locator('dialog img').nth(3).waitFor();
    assert.equal(await second.locator('dialog').getAttribute('data-pair'), `real:${row}`);
    await second.close();
    // Keys: next sample, previous sample, close.
    await page.keyboard.press('ArrowRight');
    await page.waitForFunction((row) => document.querySelector('dialog').dataset.pair !== `real:${row}`, row);
    await page.keyboard.press('ArrowLeft');
    await page.waitForFunction((row) => document.querySelector('dialog').dataset.pair === `real:${row}`, row);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.ok(!page.url().includes('pair='));
    assert.equal(await opener.evaluate((one) => one === document.activeElement), true, 'focus returns');
    // Another concept of the same row.
    await opener.click();
    const other = dialog.locator('[data-testid=changed] a').last();
    await other.click();
    await page.waitForFunction(() => !location.hash.startsWith('#/concept/3') && document.querySelector('dialog img'));
    assert.equal(await dialog.getAttribute('data-pair'), `real:${row}`);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    // A text, by keyboard: Enter opens it.
    await visit(page, '#/concept/1');
    const text = set('real').locator('button.open', { has: page.locator('.text') }).first();
    await text.focus();
    await page.keyboard.press('Enter');
    await dialog.locator('mark').first().waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  await test('heat: words are marked by activation', async () => {
    await visit(page, '#/concept/1');
    const texts = samples.locator('li', { has: page.locator('mark') });
    assert.ok((await texts.count()) > 2);
    const marks = await texts.first().locator('mark').evaluateAll((all) => all.map((one) => [one.textContent, one.className.match(/heat-\d/)[0]]));
    assert.equal(marks.length, 2);
    assert.deepEqual(marks.map(([word]) => word.trim()), ['bird', 'wall']);
    assert.ok(marks[0][1] === 'heat-5' && marks[1][1] < 'heat-3', JSON.stringify(marks));
    assert.equal((await texts.first().locator('.text').innerText()).replaceAll('\u00a0', ' '), WORDS.join(''));
  });

  await test('heat: deciles refer to all rows if the file has some of them', async () => {
    const few = make(path.join(scratch, 'heat-few'), program, 24);
    const { page, wrong, context } = await open(await serve(few));
    const concept = await page.evaluate(async () => (await fetch('api/v1/concepts/3.json')).json());
    for (const one of concept.sets.filter((one) => ['real', 'sd'].includes(one.name))) {
      const fires = images.filter((image) => mean(image, 3, one.name === 'sd') > 0).length;
      assert.ok(one.fired < fires, `${one.fired} of ${fires}`);
      const tenths = one.deciles.map((shown) => Math.floor(shown.above * 10 + 1e-6));
      assert.deepEqual(tenths, [...new Set(tenths)].sort((a, b) => a - b));
      assert.ok(tenths.length >= 6 && tenths.at(-1) >= 8 && tenths[0] <= 1, `tenths ${tenths}`);
      assert.ok([...one.top, ...one.deciles, ...one.random].every((shown) => shown.grid.length === PATCHES), 'every shown sample has a heatmap');
    }
    await visit(page, '#/concept/3?samples=deciles');
    assert.match(await page.locator('section[aria-label=Samples] ul').first().innerText(), /decile (9|10)/);
    assert.deepEqual(wrong, []);
    await context.close();
  });

  await test('heat: nothing in the console', async () => assert.deepEqual(wrong, []));
}
