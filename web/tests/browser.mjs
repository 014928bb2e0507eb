// The program as a server, and a browser that looks at it. ETALON names the program, CHROMIUM the browser.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const program = process.env.ETALON ?? fileURLToPath(new URL('../../target/debug/etalon', import.meta.url));
const SYSTEM = '/usr/bin/chromium';
// Without a path Playwright takes what it fetched itself.
const executablePath = process.env.CHROMIUM ?? (fs.existsSync(SYSTEM) ? SYSTEM : undefined);
const FLAGS = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'];

/** How long a busy machine may take for a page: against hanging, not slowness. */
const LONGEST = 120_000;

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

/** A page that notes everything it should not do: errors in the console, and requests that leave its server. */
export async function open(address, { width = 1400, height = 900, dark = false, scale = 1 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', acceptDownloads: true, deviceScaleFactor: scale });
  context.setDefaultTimeout(LONGEST);
  const page = await context.newPage();
  const wrong = [];
  const home = address.startsWith('file:') ? 'file:' : new URL(address).origin;
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && wrong.push(message.text()));
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('request', (request) => !request.url().startsWith(home) && !/^(data|blob):/.test(request.url()) && wrong.push(`asked ${request.url()}`));
  await page.goto(address);
  await page.waitForSelector('main h1');
  return { page, wrong, context };
}

/** Goes to a page and waits until it stands: the address is read, nothing is being loaded or drawn any more. */
export async function visit(page, hash) {
  await page.evaluate((hash) => new Promise((done) => {
    const before = location.hash;
    addEventListener('hashchange', () => done(), { once: true });
    location.hash = hash;
    if (location.hash === before) done();
  }), hash);
  await settled(page);
}

/** Waits until a page has what it shows; twice with frames between, since what has come may ask for more. */
export async function settled(page) {
  await page.evaluate(async (most) => {
    const ready = () => document.querySelector('main h1') && !document.querySelector('[data-state=loading], [aria-busy=true]');
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const until = Date.now() + most;
    for (let seen = 0; seen < 2; seen = ready() ? seen + 1 : 0) {
      if (Date.now() > until) throw new Error(`still loading: ${document.querySelector('main').innerText.slice(0, 200)}`);
      await frame();
    }
  }, LONGEST);
}

export const number = (text) => Number(text.replaceAll(',', ''));

/** The file that a button with this name gives. */
export async function saved(page, within, kind) {
  const [download] = await Promise.all([page.waitForEvent('download'), within.getByRole('button', { name: kind, exact: true }).click()]);
  return { name: download.suggestedFilename(), bytes: fs.readFileSync(await download.path()) };
}

/** The cells of a file that the explorer wrote. */
export function cells(bytes) {
  const rows = [[]];
  for (const [, quoted, bare, end] of String(bytes).matchAll(/(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/g)) {
    rows.at(-1).push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === '\n') rows.push([]);
    if (end === '') break;
  }
  return rows.slice(0, -1);
}

/** How large a picture is, and how many colours it has: a chart that was not drawn has one. */
export function look(page, bytes, type) {
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

/** Takes every chart of a page along in all ways there are, and looks at what came; says how many charts there were. */
export async function takeAlong(page) {
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
    // The paper behind the chart and the chart itself are the two that are new.
    if (!drawn.name.endsWith('.svg') || parts !== own + 2 || text.includes('var(') || /class="/.test(text)) throw new Error(`${title}: ${drawn.name} has ${parts} parts of ${own}`);
    const seen = await look(page, drawn.bytes, 'image/svg+xml');
    const png = await saved(page, figure, 'PNG');
    const picture = await look(page, png.bytes, 'image/png');
    if (!png.name.endsWith('.png') || Math.abs(picture.width - 2 * box[2]) > 2 || Math.abs(picture.height - 2 * box[3]) > 2) throw new Error(`${title}: ${png.name} is ${picture.width} × ${picture.height} for ${box}`);
    if (seen.colours < 4 || picture.colours < 4) throw new Error(`${title}: ${seen.colours} and ${picture.colours} colours`);
  }
  return figures.length;
}

/** Points and how many pixels of each kind a map has, once two looks at it with frames between see the same. */
export async function ink(page) {
  return page.evaluate(async (most) => {
    const look = () => {
      const from = document.querySelector('canvas');
      const copy = document.createElement('canvas');
      [copy.width, copy.height] = [from.width, from.height];
      const context = copy.getContext('2d');
      context.drawImage(from, 0, 0);
      const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
      let [all, blue, orange] = [0, 0, 0];
      for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] > 60) {
          all++;
          if (pixels[i + 2] > pixels[i] + 60) blue++;
          if (pixels[i] > pixels[i + 2] + 60) orange++;
        }
      }
      return { points: Number(from.dataset.points), all, blue, orange };
    };
    const until = Date.now() + most;
    for (let before = look(), now; ; before = now) {
      for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(done));
      now = look();
      if ((now.all > 0 && JSON.stringify(before) === JSON.stringify(now)) || Date.now() > until) return now;
    }
  }, LONGEST);
}

/** The picture of a sample once it has come; what lies over it follows its size. */
export async function decoded(image) {
  await image.evaluate((one) => one.decode());
  await image.evaluate((one) => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
}
