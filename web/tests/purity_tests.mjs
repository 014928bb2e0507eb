// Purity and units, on results that the program computed.

import assert from 'node:assert/strict';
import path from 'node:path';

import { downloadCharts, open, serve, visit } from './browser.mjs';
import { colourOf, EXPLANATIONS, make, UNITS } from './purity.mjs';

const PAGES = ['#/purity', '#/units', '#/units?unit=6', '#/units?unit=7&answers=0', '#/units?sort=-mis&layer=first&tasked=1', '#/reports'];

export async function purityTests(test, scratch, program, accessible) {
  const results = make(path.join(scratch, 'purity'), program);
  const address = await serve(results);
  const { page, wrong } = await open(address);
  const ask = (name) => page.evaluate(async (name) => (await fetch(`api/v1/${name}.json`)).json(), name);
  const manifest = await ask('manifest');
  const found = (metric, set) => ask(`results/${manifest.results.find((one) => one.metric === metric && one.about.inputs === set).id}`);
  const link = (one) => `#/purity?result=${one.id}`;

  for (const hash of PAGES) {
    await test(`purity: page ${hash}`, async () => {
      await visit(page, hash);
      assert.equal(await page.locator('[data-state=error]').count(), 0);
      assert.deepEqual(await accessible(page), []);
    });
  }

  await test('purity: all pages at four widths, light and dark', async () => {
    for (const width of [400, 900, 1400, 1920]) for (const dark of [false, true]) {
      const { page, wrong, context } = await open(address, { width, dark });
      for (const hash of PAGES) {
        await visit(page, hash);
        assert.deepEqual(await accessible(page), [], `${hash} at ${width}`);
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${hash} is wider than ${width}`);
      }
      assert.deepEqual(wrong, []);
      await context.close();
    }
  });

  await test('purity: three matrices have the numbers of the table', async () => {
    for (const set of ['pure', 'impure']) {
      const { id, tables: { entry }, headline } = await found('ois', set);
      await visit(page, link({ id }));
      const shown = (value) => value.toFixed(2).replace('-0.00', '0.00').replace('-', '−');
      for (const [title, column] of [['Learned', 'purity'], ['Oracle', 'oracle'], ['Difference', 'impurity']]) {
        const cells = await page.locator(`figure[aria-label=${title}] svg text.cell`).allTextContents();
        assert.deepEqual(cells, entry[column].filter((value) => value !== null).map(shown), `${set}, ${title}`);
      }
      const numbers = await page.locator('[data-testid=numbers]').innerText();
      const nis = await found('nis', set);
      for (const value of [headline.ois.value, headline.ois_noise.value, nis.headline.nis.value]) assert.ok(numbers.includes(value.toFixed(3)), `${value} in ${numbers}`);
      // The mean and a curve for each of four concepts.
      assert.equal(await page.locator('[data-curves]').getAttribute('data-curves'), '5');
    }
  });

  await test('purity: colours follow the range of each matrix', async () => {
    const { id } = await found('ois', 'impure');
    await visit(page, link({ id }));
    const fills = (title) => page.locator(`figure[aria-label=${title}] svg rect`).evaluateAll((all) => all.map((one) => one.getAttribute('fill')));
    // Areas of 1 on the diagonal have the colour of the upper end, differences of 0 that of the middle.
    assert.equal((await fills('Oracle'))[0], 'rgb(212 92 0)');
    assert.equal((await fills('Difference'))[0], 'rgb(184 189 196)');
  });

  await test('purity: results by key, definitions, downloads', async () => {
    await visit(page, '#/purity');
    const first = await page.getByLabel('result').inputValue();
    await page.locator('main').focus();
    await page.keyboard.press(']');
    await page.waitForFunction((first) => location.hash.includes('result=') && !location.hash.includes(first), first);
    await page.waitForSelector('figure svg');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    assert.match(await page.getByRole('dialog').innerText(), /Definition/);
    await page.keyboard.press('Escape');
    assert.equal(await downloadCharts(page), 4);
  });

  await test('units: the list has the scores, sorted and filtered', async () => {
    const { tables } = await found('mis', 'units');
    await visit(page, '#/units');
    const scores = () => page.locator('[aria-label="Units by score"] tbody tr td:nth-of-type(2)').allInnerTexts();
    const expected = tables.latent.mis.map((value) => (value === null ? '–' : value.toFixed(3)));
    assert.deepEqual([...(await scores())].sort(), [...expected].sort());
    const order = (await scores()).filter((text) => text !== '–').map(Number);
    assert.deepEqual(order, [...order].sort((a, b) => b - a));
    await page.getByLabel('order').selectOption('-mis');
    assert.equal((await scores())[0], Math.min(...tables.latent.mis.filter((value) => value !== null)).toFixed(3));
    assert.equal((await scores()).at(-1), '–', 'a constant unit is last');
    await page.getByLabel('layer').selectOption('first');
    assert.equal((await scores()).length, UNITS / 2);
    assert.ok(page.url().includes('layer=first') && page.url().includes('sort=-mis'));
  });

  await test('units: tasks show examples, queries and the right answer', async () => {
    const { task } = (await found('mis', 'units')).tables;
    for (const unit of [...new Set(task.unit)]) {
      await visit(page, `#/units?unit=${unit}`);
      const rows = task.unit.flatMap((one, row) => (one === unit ? [row] : []));
      assert.equal(await page.locator('[data-task]').count(), rows.length);
      for (const [index, row] of rows.entries()) {
        const one = page.locator('[data-task]').nth(index);
        const captions = async (side) => (await one.locator('.side').nth(side).locator('img').evaluateAll((all) => all.map((image) => Number(image.alt.replace('picture ', '')))));
        assert.deepEqual([await captions(0), await captions(2)], [task.lowest[row], task.highest[row]]);
        assert.equal((await captions(0)).length, EXPLANATIONS);
        assert.deepEqual([...(await captions(1))].sort(), [task.low_query[row], task.high_query[row]].sort());
        assert.equal(Number((await one.locator('.query.right img').getAttribute('alt')).replace('picture ', '')), task.high_query[row]);
        assert.ok((await one.innerText()).includes(task.probability[row].toFixed(3)));
        if (unit < 6) assert.ok(task.highest[row].every((image) => colourOf(image) === unit), 'a unit of a colour is explained by images of that colour');
      }
    }
    assert.ok(await page.locator('[data-task] img').first().evaluate((image) => image.decode().then(() => image.naturalWidth === 24)));
  });

  await test('units: a person can try without the answers; j and Enter choose a unit', async () => {
    const { task } = (await found('mis', 'units')).tables;
    await visit(page, `#/units?unit=${task.unit[0]}`);
    assert.equal(await page.locator('.query.right').count(), task.unit.filter((unit) => unit === task.unit[0]).length);
    await page.getByLabel('answers').uncheck();
    assert.ok(page.url().includes('answers=0'));
    assert.equal(await page.locator('.query.right').count(), 0);
    assert.doesNotMatch(await page.locator('[data-testid=unit]').innerText(), /probability|activates$/);
    await page.locator('main').focus();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    const name = (await page.evaluate(() => document.activeElement.textContent)).match(/\d+/)[0];
    await page.keyboard.press('Enter');
    assert.ok(page.url().includes(`unit=${name}`));
    assert.match(await page.locator('[data-testid=unit] h2').innerText(), new RegExp(`^Unit ${name}\\b`));
    await visit(page, '#/units?unit=6');
    assert.match(await page.locator('[data-testid=unit] [data-state=empty]').innerText(), /constant/);
  });

  await test('purity: pages are listed only if there is something to show', async () => {
    const names = await page.locator('nav a').allInnerTexts();
    assert.ok(names.includes('Purity') && names.includes('Units'));
    await page.locator('main').focus();
    await page.keyboard.press('g');
    await page.keyboard.press('y');
    await page.waitForFunction(() => location.hash === '#/purity');
  });

  await test('purity: no console errors', async () => assert.deepEqual(wrong, []));
}
