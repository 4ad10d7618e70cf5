/**
 * node bench/ops_page.mjs [--rows 2000] [--changes 20] [--seconds 10] [--json file]
 *
 * How long a frame of the operators' page takes in Chromium (CHROMIUM names another one) with so many live runs, of
 * which so many change in every frame, while the table is scrolled and sorted by a column whose numbers move. The page
 * is the real one; its client is `ops_page_client.js`. The exit code is 1 if a task of the page used 50 ms of the
 * processor or more; the frames themselves are also as slow as the machine is busy.
 */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { launch } from '../tests/browser/tab.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PAGES = path.join(HERE, '../server/antiphon/pages');
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html', '.svg': 'image/svg+xml' };
const LIMIT_MS = 50;

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '2000' },
    changes: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '10' },
    json: { type: 'string' },
  },
});
const [rows, changes, seconds] = [values.rows, values.changes, values.seconds].map(Number);

/** @param {string} address of a request */
function fileOf(address) {
  const { pathname } = new URL(address, 'http://localhost');
  if (pathname === '/ops') return path.join(PAGES, 'ops.html');
  if (pathname === '/vendor/antiphon.js') return path.join(HERE, 'ops_page_client.js');
  return path.join(PAGES, path.normalize(pathname));
}

const server = createServer(async (request, response) => {
  try {
    const file = fileOf(request.url ?? '/');
    const bytes = await readFile(file);
    response.writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'text/plain' }).end(bytes);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));

/** The lengths of all frames for a while, in milliseconds. Runs in the page. @param {number} span milliseconds */
function measure(span) {
  const grid = document.querySelector('#grid');
  const frames = [];
  return new Promise((resolve) => {
    let last = performance.now();
    const end = last + span;
    const frame = (now) => {
      frames.push(now - last);
      last = now;
      grid.scrollTop = (grid.scrollTop + 40) % (grid.scrollHeight - grid.clientHeight);
      if (now < end) requestAnimationFrame(frame);
      else resolve(frames.slice(1));
    };
    requestAnimationFrame(frame);
  });
}

/**
 * What the tasks of the page's main thread used of the processor, in milliseconds: of the thread, not of the clock, for
 * what else the machine does is not the page's.
 * @param {Buffer} trace
 */
function tasksOf(trace) {
  const { traceEvents: events } = JSON.parse(trace.toString());
  const mains = events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain');
  const perThread = mains.map((main) =>
    events.filter(
      ({ name, ph, pid, tid }) => name.endsWith('RunTask') && ph === 'X' && pid === main.pid && tid === main.tid,
    ),
  );
  const [busiest] = perThread.sort((one, other) => other.length - one.length);
  return busiest.map(({ tdur }) => (tdur ?? 0) / 1_000).sort((one, other) => one - other);
}

/** @param {number[]} sorted @param {number} part */
const quantile = (sorted, part) =>
  Number(sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(1));

/** A Chromium on the PATH. */
function chromium() {
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const places = ['chromium', 'chromium-browser', 'google-chrome'].flatMap((name) =>
    folders.map((folder) => path.join(folder, name)),
  );
  return places.find((place) => existsSync(place));
}

process.env.CHROMIUM ??= chromium() ?? '';
const browser = await launch();
try {
  const page = await browser.newPage({ viewport: { width: 1920, height: 1080 } });
  await page.addInitScript((load) => (globalThis.LOAD = load), { rows, changes });
  await page.goto(`http://127.0.0.1:${server.address().port}/ops?sort=-rate`);
  await page.waitForFunction(
    (count) => document.querySelector('#shown')?.textContent.startsWith(count),
    new Intl.NumberFormat('en').format(rows),
  );
  await browser.startTracing(page, { categories: ['toplevel', 'disabled-by-default-devtools.timeline'] });
  const frames = (await page.evaluate(measure, seconds * 1_000)).sort((a, b) => a - b);
  const tasks = tasksOf(await browser.stopTracing());
  const shown = await page.$$eval('.rows .row', (found) => found.length);
  const result = {
    rows,
    changes_per_frame: changes,
    frames: frames.length,
    cpu_ms_per_frame: Number((tasks.reduce((sum, ms) => sum + ms, 0) / frames.length).toFixed(1)),
    longest_task_cpu_ms: quantile(tasks, 1),
    frame_p50_ms: quantile(frames, 0.5),
    frame_p99_ms: quantile(frames, 0.99),
    frame_max_ms: quantile(frames, 1),
    lines_in_the_page: shown,
  };
  console.log(JSON.stringify(result));
  if (values.json) await writeFile(values.json, `${JSON.stringify(result, null, 2)}\n`);
  process.exitCode = result.longest_task_cpu_ms < LIMIT_MS ? 0 : 1;
} finally {
  await browser.close();
  server.close();
}
