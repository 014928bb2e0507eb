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

export async function visit(page, hash) {
  await page.evaluate((hash) => (location.hash = hash), hash);
  await page.waitForFunction(() => document.querySelector('main h1') && !document.querySelector('[data-state=loading]'), null, { timeout: 30_000 });
}

export const number = (text) => Number(text.replaceAll(',', ''));

/** Points and how many pixels of each kind a map has. */
export async function ink(page) {
  await page.waitForTimeout(800);
  return page.evaluate(() => {
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
  });
}
