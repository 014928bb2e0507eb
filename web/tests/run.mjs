// Tests of the explorer in a browser with the real program. An argument selects the tests whose names contain it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

import { ink, launch, number, open, program, running, serve, stop, downloadCharts, visit } from './browser.mjs';
import { LATENTS, make } from './fixture.mjs';
import { heatTests } from './heat_tests.mjs';
import { purityTests } from './purity_tests.mjs';
import { realTests } from './real_tests.mjs';
import { units } from './units.mjs';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'etalon-web-'));
const results = path.join(scratch, 'results');
const only = process.argv[2];
let passed = 0;
const failed = [];

async function test(name, work) {
  if (only && !name.includes(only)) return;
  try {
    await work();
    passed++;
    console.log(`ok    ${name}`);
  } catch (error) {
    failed.push(name);
    console.log(`FAIL  ${name}\n      ${String(error?.stack ?? error).replaceAll('\n', '\n      ')}`);
  }
}

let browser;

/** Automatic WCAG checks: names of controls, one heading, contrast of text. */
async function accessible(page) {
  return page.evaluate(() => {
    const out = [];
    const named = (element) => element.getAttribute('aria-label') || element.textContent.trim() || element.closest('label')?.textContent.trim() || element.getAttribute('title') || element.labels?.[0]?.textContent;
    for (const element of document.querySelectorAll('button, a[href], select, input, [role=button], canvas, svg[role=img]')) if (!named(element)) out.push(`no name: ${element.outerHTML.slice(0, 90)}`);
    for (const image of document.querySelectorAll('img')) if (!image.hasAttribute('alt')) out.push('an image without alt text');
    if (document.querySelectorAll('h1').length !== 1) out.push('not exactly one h1');
    if (!document.querySelector('main') || !document.querySelector('nav') || !document.documentElement.lang) out.push('no landmarks');
    const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
    if (new Set(ids).size !== ids.length) out.push('duplicate id');
    for (const head of document.querySelectorAll('thead th')) if (!head.scope) out.push('a column heading without scope');
    const parts = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = parts(getComputedStyle(at).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour;
      }
      return [255, 255, 255];
    };
    for (const element of document.querySelectorAll('main *, header *')) {
      const words = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      if (!words || element.closest('svg, mark, .noise, option, [disabled]') || !element.getClientRects().length) continue;
      const style = getComputedStyle(element);
      if (!style.color.startsWith('rgb')) continue;
      const [a, b] = [light(parts(style.color)), light(behind(element))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) out.push(`contrast ${ratio.toFixed(2)}: ${element.textContent.trim().slice(0, 40)}`);
    }
    return [...new Set(out)];
  });
}

const PAGES = ['#/runs', '#/runs?tab=small', '#/runs?tab=agree', '#/tables', '#/map', '#/map?b=pixart', '#/map?b=pixart&show=difference', '#/concept', '#/concept/17', '#/concept/17?pair=image-1&smooth=1', '#/concept/0', '#/match', '#/models', '#/pairs', '#/frequency', '#/cooccurrence', '#/reports', '#/reports/birds'];

async function browserTests() {
  const address = await serve(results);
  const { page, wrong } = await open(address);

  await test('the token is removed from the address, the cookie stays', async () => {
    assert.ok(!page.url().includes('token'), page.url());
    await page.reload();
    await page.waitForSelector('main h1');
    assert.equal(await page.evaluate(() => document.cookie), '');
  });

  for (const hash of PAGES) {
    await test(`page ${hash}`, async () => {
      await visit(page, hash);
      assert.equal(await page.locator('[data-state=error]').count(), 0);
      assert.deepEqual(await accessible(page), []);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, 'wider than the window');
    });
  }

  await test('runs: chart of any two numbers, with error bars, baselines and front', async () => {
    await visit(page, '#/runs?data=birds&x=latents&y=recovery.recovery');
    const marks = () => page.locator('figure svg path[role=button]').count();
    assert.equal(await marks(), 12);
    assert.equal(await page.locator('figure svg .dashed').count(), 3);
    assert.ok((await page.locator('figure svg [data-error]').count()) >= 12);
    await page.getByRole('combobox', { name: 'x axis' }).selectOption('fms.fms');
    assert.ok(page.url().includes('x=fms.fms'));
    assert.equal(await marks(), 12);
    assert.equal(await page.locator('figure svg [data-front]').count(), 1);
    assert.ok((await page.locator('figure svg [data-ring]').count()) > 0, 'rings show membership in the front');
    await page.getByLabel('error bars').selectOption('seeds');
    assert.ok(page.url().includes('err=seeds'));
    await page.getByLabel('filter').fill('jumprelu');
    assert.equal(await marks(), 3);
  });

  await test('runs: differences from a pinned run are grey if they are noise', async () => {
    await visit(page, '#/runs?data=birds');
    await page.getByRole('button', { name: 'Pin topk, 512 latents, k 16' }).click();
    assert.ok(decodeURIComponent(page.url()).includes('pin=topk, 512 latents, k 16'));
    assert.ok((await page.locator('button.value.noise').count()) > 0);
    const oracle = page.locator('tr', { hasText: 'oracle' }).locator('button.value').nth(1);
    assert.match(await oracle.innerText(), /^\+0\./);
    assert.ok(!(await oracle.getAttribute('class')).includes('noise'));
  });

  await test('a metric without a card is shown in runs and tables', async () => {
    await visit(page, '#/tables?data=birds&measure=future-metric');
    assert.match(await page.locator('main').innerText(), /has no card for “future_metric”/);
    await visit(page, '#/runs?data=birds&y=future-metric.future_score');
    assert.equal(await page.locator('figure svg path[role=button]').count(), 12);
  });

  await test('a click on a number opens its definition', async () => {
    await visit(page, '#/tables?data=unnamed&measure=match');
    await page.locator('tbody button.value').first().click();
    const dialog = page.getByRole('dialog');
    assert.match(await dialog.innerText(), /Definition[\s\S]*F1/);
    assert.match(await dialog.innerText(), /average of/);
    await page.keyboard.press('Escape');
    assert.equal(await dialog.count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement.className.includes('value')), true, 'focus returns');
  });

  await test('tables sort and search, and the address has the state', async () => {
    await visit(page, '#/tables?data=unnamed&measure=match&axis=concept&by=f1&find=feature_1');
    const rows = page.locator('[aria-label="Table by concept"] tbody tr');
    assert.equal(await rows.count(), 11);
    await page.getByRole('button', { name: 'positives' }).click();
    assert.ok(page.url().includes('by=positives'));
  });

  await test('map: all points are drawn', async () => {
    await visit(page, '#/map?a=sd15');
    const drawn = await ink(page);
    assert.equal(drawn.points, LATENTS);
    assert.ok(drawn.all > 20_000 && drawn.blue > 2000 && drawn.orange > 2000, JSON.stringify(drawn));
  });

  await test('map: counts follow temperature and thresholds', async () => {
    await visit(page, '#/map?a=sd15');
    const suppressed = async () => number(await page.locator('[data-testid=counts] dd').nth(2).innerText());
    const warm = await suppressed();
    await page.getByLabel('temperature T', { exact: true }).fill('0.4');
    await page.getByLabel('temperature T', { exact: true }).press('Enter');
    const cold = await suppressed();
    assert.ok(cold > warm && warm > 0, `${cold} and ${warm}`);
    await page.getByLabel('suppressed below').fill('0.2');
    await page.getByLabel('suppressed below').press('Enter');
    assert.ok((await suppressed()) > cold);
    assert.ok(page.url().includes('T=0.4') && page.url().includes('lo=0.2'));
    assert.match(await page.locator('[data-testid=counts]').innerText(), /null, at the same T\s*0 \/ 0/);
    assert.match(await page.locator('[data-testid=counts]').innerText(), /real against real\s*3\n/);
  });

  await test('map: significant gaps are ringed and counted at any T, and T can be fitted', async () => {
    await visit(page, '#/map?a=sd15&T=100');
    assert.equal(number(await page.locator('[data-testid=counts] dd').nth(2).innerText()), 0);
    const significant = number(await page.locator('[data-testid=significant]').innerText());
    const table = await page.evaluate(async () => {
      const { results } = await (await fetch('api/v1/manifest.json')).json();
      return (await fetch(`api/v1/results/${results.find((one) => one.metric === 'blindspots').id}.json`)).json();
    });
    const of = table.tables.latent_model;
    assert.equal(significant, of.q.filter((q, row) => of.model[row] === 0 && q < 0.05).length);
    const grey = await ink(page);
    assert.ok(grey.dark > 2000, JSON.stringify(grey));
    await page.locator('[data-testid=fit]').getByRole('button', { name: /Fit T/ }).click();
    assert.ok(!page.url().includes('T=100') && page.url().includes('T='));
    const counts = await page.locator('[data-testid=counts] dd').allInnerTexts();
    const beyond = number(counts[2]) + number(counts[3]);
    assert.ok(beyond >= significant && beyond < 1.05 * significant, `${beyond} for ${significant}`);
    assert.equal(await page.locator('[data-testid=fit]').count(), 0);
  });

  await test('map: colours by q and by frequency, and a CSV with all digits', async () => {
    await visit(page, '#/map?a=sd15&colour=q');
    const byQ = await ink(page);
    assert.ok(byQ.blue > 1000 && byQ.orange > 1000, JSON.stringify(byQ));
    await page.getByRole('combobox', { name: 'colour' }).selectOption('frequency');
    assert.ok(page.url().includes('colour=frequency'));
    assert.match(await page.locator('.ramp').getAttribute('aria-label'), /real rows/);
    // Latent 17 has q = 3.18e-64 and a gap that is no 32-bit number.
    await visit(page, '#/map?a=sd15&find=striped');
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('aside').getByRole('button', { name: 'CSV' }).last().click()]);
    const [heads, line] = fs.readFileSync(await download.path(), 'utf8').trim().split('\n').map((one) => one.split(','));
    assert.deepEqual([heads[5], line[5], line[2]], ['q', '3.18e-64', '-4.0123456789']);
  });

  await test('frequency: concepts without a funnel are classed by q', async () => {
    await visit(page, '#/frequency?model=sd15');
    const text = await page.locator('[data-testid=outside]').innerText();
    assert.match(text, /of 1 without one, 1 has q < 0.05/);
    assert.ok((await page.locator('[data-side="below by q"]').getAttribute('d')).length > 3);
    await page.getByRole('tab', { name: 'By q' }).click();
    assert.match(await page.locator('.concepts').innerText(), /^#31999\s+stone wall\s*by q\s+−0\.770/);
  });

  await test('tables name models', async () => {
    await visit(page, '#/tables?data=birds&measure=blindspots&axis=latent_model&find=17');
    assert.match(await page.locator('[aria-label="Table by latent_model"] tbody tr').first().innerText(), /sd15|pixart/);
  });

  await test('agreement: n and chance are shown', async () => {
    await visit(page, '#/runs?data=birds&tab=agree');
    assert.match(await page.locator('figure svg text.count').first().textContent(), /^n \d+$/);
    assert.match(await page.locator('figure').first().innerText(), /within chance/);
  });

  await test('concept: the null has an interval', async () => {
    await visit(page, '#/concept/17');
    await page.waitForSelector('aside figure svg circle');
    const titles = await page.locator('aside figure svg circle title').allTextContents();
    assert.match(titles.find((title) => title.startsWith('real against real')), /\[.*, .*\]/);
  });

  let chosen = '';
  await test('map: the lasso selects the points inside', async () => {
    await visit(page, '#/map?a=sd15');
    await page.getByRole('button', { name: 'Lasso' }).click();
    const box = await page.locator('canvas').boundingBox();
    const [cx, cy, reach] = [box.x + box.width / 2, box.y + box.height / 2, 90];
    await page.mouse.move(cx + reach, cy);
    await page.mouse.down();
    for (let step = 1; step <= 20; step++) await page.mouse.move(cx + reach * Math.cos((step / 20) * 6.2), cy + reach * Math.sin((step / 20) * 6.2));
    await page.waitForFunction(() => document.querySelector('.over polygon')?.getAttribute('points').split(' ').length === 21);
    await page.mouse.up();
    await page.waitForFunction(() => location.hash.includes('sel='));
    chosen = page.url();
    const count = new URL(chosen.replace('#/map', '')).searchParams.get('sel').split(',').length;
    assert.ok(count > 100 && count < LATENTS / 2, String(count));
    assert.equal(number((await page.locator('[data-testid=listed]').innerText()).split(' ')[0]), count);
  });

  await test('map: a permalink restores selection and view', async () => {
    await page.mouse.wheel(0, -300);
    await page.waitForFunction(() => location.hash.includes('view='));
    const address = page.url();
    const second = await page.context().newPage();
    await second.goto(address);
    await second.waitForSelector('[data-testid=listed]');
    assert.equal(await second.locator('[data-testid=listed]').innerText(), await page.locator('[data-testid=listed]').innerText());
    assert.equal(second.url(), address);
    await second.close();
  });

  await test('map: two models, their difference, and one against the other', async () => {
    await visit(page, '#/map?a=sd15&b=pixart');
    assert.equal(await page.locator('canvas').count(), 2);
    await page.getByRole('button', { name: 'B − A' }).click();
    assert.equal(await page.locator('canvas').count(), 1);
    await page.getByRole('tab', { name: 'In both' }).click();
    assert.ok(number((await page.locator('[data-testid=listed]').innerText()).split(' ')[0]) > 0);
    await page.getByLabel('layout').selectOption('models');
    assert.ok(page.url().includes('layout=models'));
  });

  await test('map: search by name opens the card', async () => {
    await visit(page, '#/map?a=sd15');
    await page.keyboard.press('/');
    await page.keyboard.type('striped');
    await page.waitForFunction(() => document.querySelectorAll('.concepts a').length === 1);
    await page.locator('.concepts a').click();
    await page.waitForSelector('h1:has-text("striped belly")');
  });

  await test('concept: samples, gaps, neighbours; text from data is escaped', async () => {
    await visit(page, '#/concept/17');
    await page.waitForSelector('aside figure');
    assert.equal(await page.locator('section[aria-label=Samples] img').count(), 32);
    assert.ok(await page.locator('section[aria-label=Samples] img').first().evaluate((image) => image.decode().then(() => image.naturalWidth === 32)));
    assert.match(await page.locator('main').innerText(), /<b>not bold<\/b>/);
    assert.equal(await page.locator('aside figure svg circle').count(), 3);
    assert.match(await page.locator('aside').innerText(), /Nearest on the map/);
    await page.getByRole('tab', { name: 'Deciles' }).click();
    assert.equal(await page.locator('section[aria-label=Samples] img').count(), 20);
    await visit(page, '#/concept/0');
    assert.match(await page.locator('main').innerText(), /<script>alert\("no"\)<\/script> is only text/);
    assert.ok((await page.locator('mark').count()) > 3);
    await visit(page, '#/concept/999999');
    assert.ok((await page.locator('[data-state=empty]').count()) > 0);
  });

  await test('matching: coalition, steps, confusion, responses', async () => {
    await visit(page, '#/match?concept=feature_3');
    const details = page.locator('aside');
    assert.match(await details.innerText(), /feature_3/);
    assert.match(await details.innerText(), /has the concept\s+\d+\s+\d+/);
    assert.match(await details.innerText(), /switches on/);
    assert.ok((await page.locator('svg.bar .floor').count()) > 10 && (await page.locator('svg.bar .probe').count()) > 10);
    await page.getByRole('link', { name: '#3', exact: true }).first().click();
    await page.waitForFunction(() => location.hash.startsWith('#/concept/3'));
  });

  await test('frequency: 32,000 concepts as a few paths; a message without results', async () => {
    await visit(page, '#/frequency?model=pixart');
    assert.equal(Number(await page.locator('[data-spots]').getAttribute('data-spots')), LATENTS);
    // Fast, because the chart has a few paths instead of one element per concept.
    assert.ok((await page.locator('[data-spots] *').count()) < 150);
    assert.ok((await page.locator('[data-spots] [data-bin]').count()) > 8);
    await visit(page, '#/cooccurrence');
    assert.match(await page.locator('[data-state=empty]').innerText(), /no result of the metric cooccurrence/);
  });

  await test('reports: every figure has a page', async () => {
    const manifest = await page.evaluate(async () => (await fetch('api/v1/manifest.json')).json());
    for (const { slug } of manifest.albums) {
      const album = await page.evaluate(async (slug) => (await fetch(`api/v1/figures/${slug}.json`)).json(), slug);
      assert.ok(album.figures.length > 1, slug);
      for (const figure of album.figures) {
        await visit(page, `#/reports/${slug}/${figure.name}`);
        assert.equal(await page.locator('.canvas svg title').first().textContent(), figure.title);
      }
    }
  });

  for (const hash of ['#/runs?data=birds', '#/runs?data=birds&tab=small', '#/runs?data=birds&tab=agree']) {
    await test(`charts of ${hash} can be downloaded`, async () => {
      await visit(page, hash);
      assert.ok((await downloadCharts(page)) > 0);
    });
  }

  await test('charts and tables can be downloaded', async () => {
    await visit(page, '#/runs?data=birds');
    for (const [kind, begins] of [['CSV', 'input set,'], ['SVG', '<?xml'], ['PNG', '\u0089PNG']]) {
      const [download] = await Promise.all([page.waitForEvent('download'), page.locator('figure').getByRole('button', { name: kind }).click()]);
      assert.ok(download.suggestedFilename().endsWith(`.${kind.toLowerCase()}`));
      const text = fs.readFileSync(await download.path(), 'latin1');
      assert.ok(text.startsWith(begins), `${kind}: ${text.slice(0, 20)}`);
      if (kind === 'SVG') assert.ok(!text.includes('var(') && text.includes('rgb('), 'colours are inlined');
    }
    await visit(page, '#/map?a=sd15');
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('.controls').getByRole('button', { name: 'PNG' }).click()]);
    assert.ok(fs.statSync(await download.path()).size > 5000);
  });

  await test('keyboard: pages, help, theme, rows', async () => {
    await visit(page, '#/runs');
    await page.locator('main').focus();
    await page.keyboard.press('g');
    await page.keyboard.press('t');
    await page.waitForFunction(() => location.hash === '#/tables');
    await page.keyboard.press('?');
    assert.equal(await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).count(), 1);
    await page.keyboard.press('Escape');
    assert.equal(await page.getByRole('dialog').count(), 0);
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    const before = await theme();
    await page.keyboard.press('d');
    assert.notEqual(await theme(), before);
    await page.keyboard.press('d');
    await visit(page, '#/runs');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), /^Pin /);
    await page.keyboard.press('Enter');
    assert.ok(page.url().includes('pin='));
    await page.keyboard.press('Tab');
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none', 'focus is visible');
  });

  await test('pages of metrics without results are not listed, and their addresses say what to run', async () => {
    assert.ok(!(await page.locator('nav a').allInnerTexts()).some((name) => ['Purity', 'Units'].includes(name)));
    for (const [hash, text] of [['#/purity', /metrics ois and nis/], ['#/units', /metric mis/]]) {
      await visit(page, hash);
      assert.match(await page.locator('[data-state=empty]').innerText(), text);
      assert.deepEqual(await accessible(page), []);
    }
  });

  await test('an unknown address shows an error', async () => {
    await visit(page, '#/nowhere');
    assert.match(await page.locator('[data-state=error]').innerText(), /no such page/);
    assert.deepEqual(await accessible(page), []);
    await visit(page, '#/runs');
  });

  await test('no console errors, no requests to other servers', async () => assert.deepEqual(wrong, []));

  for (const [name, options] of [['dark', { dark: true }], ['narrow', { width: 390, height: 844 }], ['narrow and dark', { width: 390, height: 844, dark: true }]]) {
    await test(`all pages ${name}`, async () => {
      const { page, wrong, context } = await open(address, options);
      for (const hash of PAGES) {
        await visit(page, hash);
        assert.deepEqual(await accessible(page), [], hash);
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${hash} is wider than the window`);
      }
      assert.deepEqual(wrong, []);
      await context.close();
    });
  }

  await test('the map works without WebGL', async () => {
    const context = await browser.newContext();
    const plain = await context.newPage();
    await plain.addInitScript(() => {
      const own = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        return kind === 'webgl2' ? null : own.call(this, kind, ...rest);
      };
    });
    await plain.goto(address);
    await visit(plain, '#/map?a=sd15');
    const { all } = await ink(plain);
    assert.ok(all > 20_000, String(all));
    await context.close();
  });

  await test('an empty directory, and a stopped server', async () => {
    const empty = path.join(scratch, 'empty');
    fs.mkdirSync(empty);
    const address = await serve(empty);
    const server = running.at(-1);
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(address);
    await page.waitForSelector('[data-state=empty]');
    assert.match(await page.locator('main').innerText(), /no results yet/);
    fs.cpSync(path.join(results, 'results'), path.join(empty, 'results'), { recursive: true });
    await page.reload();
    await page.waitForSelector('h1:has-text("Runs")');
    await visit(page, '#/map');
    assert.match(await page.locator('[data-state=partial]').first().innerText(), /no layout/);
    server.kill();
    await new Promise((done) => server.once('exit', done));
    await page.evaluate(() => (location.hash = '#/reports'));
    await page.waitForSelector('[data-state=error]');
    assert.match(await page.locator('[data-state=error]').innerText(), /Is .etalon serve. still running/);
    await context.close();
  });

  await test('the exports as a folder and as a single file show all pages', async () => {
    const [folder, file] = [path.join(scratch, 'static'), path.join(scratch, 'all.html')];
    execFileSync(program, ['export', results, '--out', folder, '--single', file, '--quiet']);
    const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };
    const server = http.createServer((request, answer) => {
      const name = path.join(folder, request.url === '/' ? 'index.html' : request.url.split('?')[0]);
      if (!fs.existsSync(name)) return answer.writeHead(404).end();
      answer.writeHead(200, { 'content-type': kinds[path.extname(name)] ?? 'image/png' }).end(fs.readFileSync(name));
    }).listen(0, '127.0.0.1');
    await new Promise((done) => server.once('listening', done));
    for (const address of [`http://127.0.0.1:${server.address().port}/`, `file://${file}`]) {
      const { page, wrong, context } = await open(address);
      for (const hash of PAGES) {
        await visit(page, hash);
        assert.equal(await page.locator('[data-state=error]').count(), 0, hash);
      }
      await visit(page, '#/concept/17');
      await page.waitForSelector('aside figure');
      assert.ok(await page.locator('section[aria-label=Samples] img').first().evaluate((image) => image.decode().then(() => image.naturalWidth === 32)));
      assert.deepEqual(wrong, [], address);
      await context.close();
    }
    server.close();
  });
}

try {
  await units(test);
  browser = await launch();
  await heatTests(test, scratch, program, accessible);
  await purityTests(test, scratch, program, accessible);
  await realTests(test, scratch, program, accessible);
  make(results, program);
  await browserTests();
} finally {
  await stop();
  fs.rmSync(scratch, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
