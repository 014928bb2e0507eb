// Screenshots of the explorer for docs/images, from results that the program computes: `cargo xtask web-shots`.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { ink, launch, open, program, serve, stop, visit } from './browser.mjs';
import { make } from './real.mjs';

const out = process.env.SHOTS ?? fileURLToPath(new URL('../../docs/images/', import.meta.url));
const LARGEST = 250_000;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'etalon-shots-'));
const settings = {
  rows: 1600, features: 96, width: 48, active: 6, models: 3, planted: 16, latents: 192, epochs: 8, temperature: 0.01,
  others: [['topk-96', 'topk', 96, 1], ['topk-384', 'topk', 384, 1], ['batch_topk-96', 'batch_topk', 96, 1], ['batch_topk-192', 'batch_topk', 192, 1], ['batch_topk-384', 'batch_topk', 384, 1]],
};

async function shoot(page, name, hash) {
  await visit(page, hash);
  await page.mouse.move(0, 0);
  await page.evaluate(() => Promise.all([...document.querySelectorAll('main img')].filter((image) => image.getBoundingClientRect().top < innerHeight).map((image) => image.decode())));
  if (hash.startsWith('#/map')) await ink(page);
  const file = path.join(out, `${name}.png`);
  await page.screenshot({ path: file });
  const size = fs.statSync(file).size;
  console.log(`${file}: ${Math.round(size / 1000)} kB`);
  if (size > LARGEST) throw new Error(`${file} is larger than ${LARGEST} bytes`);
}

try {
  fs.mkdirSync(out, { recursive: true });
  await launch();
  const { page } = await open(await serve(process.env.RESULTS ?? make(scratch, program, settings)), { width: 1280, height: 800 });
  await shoot(page, 'concept-map', '#/map?a=model_1&b=model_2&list=differ');
  // The card of the most suppressed concept with a name.
  await visit(page, '#/map?a=model_1');
  await page.waitForFunction(() => [...document.querySelectorAll('.concepts .name')].some((one) => one.textContent));
  const latent = await page.evaluate(() => [...document.querySelectorAll('.concepts a')].find((one) => one.querySelector('.name').textContent).querySelector('code').textContent.slice(1));
  await shoot(page, 'concept-card', `#/concept/${latent}?boxes=0`);
} finally {
  await stop();
  fs.rmSync(scratch, { recursive: true, force: true });
}
