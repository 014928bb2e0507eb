// Runs the program as a server and opens it in a browser. ETALON is the path of the program, CHROMIUM that of the browser.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const program = process.env.ETALON ?? fileURLToPath(new URL('../../target/debug/etalon', import.meta.url));
const SYSTEM = '/usr/bin/chromium';
// Without a path Playwright uses the browser it downloaded.
const executablePath = process.env.CHROMIUM ?? (fs.existsSync(SYSTEM) ? SYSTEM : undefined);
const FLAGS = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'];

/** Timeout of a page, long enough for a busy machine. */
const TIMEOUT = 120_000;

let browser;
export const running = [];

export async function launch() {
  browser = await chromium.launch({ executablePath, args: FLAGS });
  return browser;
}

export async function stop() {
  await browser?.close();
  for (const child of running) child.kill();
}

/** The address that `etalon serve` prints. */
export async function serve(directory, ...options) {
  const child = spawn(program, ['serve', directory, ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  running.push(child);
  return new Promise((done, fail) => {
    child.stdout.once('data', (data) => done(String(data).trim()));
    child.once('exit', (code) => fail(new Error(`the server ended with ${code}`)));
  });
}

/** Opens a page and records what must not happen: console errors, and requests to other servers. */
export async function open(address, { width = 1400, height = 900, dark = false, scale = 1 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', acceptDownloads: true, deviceScaleFactor: scale });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const wrong = [];
  const home = address.startsWith('file:') ? 'file:' : new URL(address).origin;
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && wrong.push(message.text()));
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('request', (request) => !request.url().startsWith(home) && !/^(data|blob):/.test(request.url()) && wrong.push(`requested ${request.url()}`));
  await page.goto(address);
  await page.waitForSelector('main h1');
  return { page, wrong, context };
}

/** Navigates to a page and waits until it has loaded. */
export async function visit(page, hash) {
  await page.evaluate((hash) => new Promise((done) => {
    const before = location.hash;
    addEventListener('hashchange', () => done(), { once: true });
    location.hash = hash;
    if (location.hash === before) done();
  }), hash);
  await settled(page);
}

/** Waits until nothing is loading in two successive frames, because loaded content may load more. */
export async function settled(page) {
  await page.evaluate(async (timeout) => {
    const ready = () => document.querySelector('main h1') && !document.querySelector('[data-state=loading], [aria-busy=true]');
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const until = Date.now() + timeout;
    for (let seen = 0; seen < 2; seen = ready() ? seen + 1 : 0) {
      if (Date.now() > until) throw new Error(`still loading: ${document.querySelector('main').innerText.slice(0, 200)}`);
      await frame();
    }
  }, TIMEOUT);
}

export const number = (text) => Number(text.replaceAll(',', ''));

/** The file that the button with this name downloads. */
export async function saved(page, within, kind) {
  const [download] = await Promise.all([page.waitForEvent('download'), within.getByRole('button', { name: kind, exact: true }).click()]);
  return { name: download.suggestedFilename(), bytes: fs.readFileSync(await download.path()) };
}

/** The cells of a CSV file of the explorer. */
export function cells(bytes) {
  const rows = [[]];
  for (const [, quoted, bare, end] of String(bytes).matchAll(/(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/g)) {
    rows.at(-1).push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === '\n') rows.push([]);
    if (end === '') break;
  }
  return rows.slice(0, -1);
}

/** Size and number of colours of an image; an empty chart has one colour. */
export function inspectImage(page, bytes, type) {
  return page.evaluate(async ([data, type]) => {
    const image = new Image();
    image.src = `data:${type};base64,${data}`;
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return { width: canvas.width, height: canvas.height, colours: new Set(pixels).size };
  }, [bytes.toString('base64'), type]);
}

/** Downloads every chart of a page as CSV, SVG and PNG and checks the files; returns the number of charts. */
export async function downloadCharts(page) {
  const figures = await page.locator('main figure').all();
  for (const figure of figures) {
    const title = await figure.getAttribute('aria-label');
    const svg = figure.locator('.canvas svg').first();
    const box = (await svg.getAttribute('viewBox')).split(/\s+/).map(Number);
    if (await figure.getByRole('button', { name: 'CSV', exact: true }).count()) {
      const { name, bytes } = await saved(page, figure, 'CSV');
      const table = cells(bytes);
      if (!name.endsWith('.csv') || table.length < 2 || table.some((row) => row.length !== table[0].length)) throw new Error(`${title}: ${name} has ${table.length} lines under ${table[0]}`);
    }
    const drawn = await saved(page, figure, 'SVG');
    const text = String(drawn.bytes);
    const parts = await page.evaluate((text) => {
      const parsed = new DOMParser().parseFromString(text, 'image/svg+xml');
      return parsed.querySelector('parsererror') ? 0 : parsed.querySelectorAll('*').length;
    }, text);
    const own = await svg.evaluate((one) => one.querySelectorAll('*').length);
    // The file adds two elements: the background and the root.
    if (!drawn.name.endsWith('.svg') || parts !== own + 2 || text.includes('var(') || /class="/.test(text)) throw new Error(`${title}: ${drawn.name} has ${parts} parts of ${own}`);
    const seen = await inspectImage(page, drawn.bytes, 'image/svg+xml');
    const png = await saved(page, figure, 'PNG');
    const picture = await inspectImage(page, png.bytes, 'image/png');
    if (!png.name.endsWith('.png') || Math.abs(picture.width - 2 * box[2]) > 2 || Math.abs(picture.height - 2 * box[3]) > 2) throw new Error(`${title}: ${png.name} is ${picture.width} × ${picture.height} for ${box}`);
    if (seen.colours < 4 || picture.colours < 4) throw new Error(`${title}: ${seen.colours} and ${picture.colours} colours`);
  }
  return figures.length;
}

/** The number of points and of coloured pixels of a map, once it no longer changes between frames. */
export async function ink(page) {
  return page.evaluate(async (timeout) => {
    const count = () => {
      const from = document.querySelector('canvas');
      const copy = document.createElement('canvas');
      [copy.width, copy.height] = [from.width, from.height];
      const context = copy.getContext('2d');
      context.drawImage(from, 0, 0);
      const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
      let [all, blue, orange, dark] = [0, 0, 0, 0];
      for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] > 60) {
          all++;
          if (pixels[i + 2] > pixels[i] + 60) blue++;
          if (pixels[i] > pixels[i + 2] + 60) orange++;
          // The rings of a light page.
          if (Math.max(pixels[i], pixels[i + 1], pixels[i + 2]) < 90) dark++;
        }
      }
      return { points: Number(from.dataset.points), all, blue, orange, dark };
    };
    const until = Date.now() + timeout;
    for (let before = count(), now; ; before = now) {
      for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(done));
      now = count();
      if ((now.all > 0 && JSON.stringify(before) === JSON.stringify(now)) || Date.now() > until) return now;
    }
  }, TIMEOUT);
}

/** Waits until an image is decoded and its overlay has the right size. */
export async function decoded(image) {
  await image.evaluate((one) => one.decode());
  await image.evaluate((one) => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
}
