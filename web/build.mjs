/**
 * Bundles what the pages load from elsewhere into `server/antiphon/pages/vendor`, which is committed: the server
 * needs no Node. `node build.mjs [folder]` writes into another folder, which the drift test compares.
 */
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PAGES = path.join(HERE, '../server/antiphon/pages');
const FOLDER = path.resolve(process.argv[2] ?? path.join(PAGES, 'vendor'));

/** What is served under which name, and where it comes from. */
const BUNDLES = {
  antiphon: path.join(HERE, 'antiphon.ts'),
  uplot: 'uplot',
  'virtual-core': '@tanstack/virtual-core',
};
const LIBRARIES = ['uplot', '@tanstack/virtual-core'];

await mkdir(FOLDER, { recursive: true });
await build({
  absWorkingDir: HERE,
  entryPoints: BUNDLES,
  outdir: FOLDER,
  bundle: true,
  format: 'esm',
  // What client_js loads when it is needed: a file of its own, whose name stays the same.
  splitting: true,
  chunkNames: 'antiphon-[name]',
  target: 'es2022',
  minify: true,
  legalComments: 'none',
  charset: 'utf8',
  logLevel: 'warning',
  // virtual-core tells developers more when it is not in production.
  define: { 'process.env.NODE_ENV': '"production"' },
});
await cp(path.join(HERE, 'node_modules/uplot/dist/uPlot.min.css'), path.join(FOLDER, 'uplot.css'));
await writeFile(path.join(FOLDER, 'LICENSES.txt'), await licenses());

/** Minified files carry no comments, so what their authors ask for stands beside them. */
async function licenses() {
  const texts = LIBRARIES.map(async (name) => {
    const folder = path.join(HERE, 'node_modules', name);
    const { version } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
    return `${name} ${version}\n\n${(await readFile(path.join(folder, 'LICENSE'), 'utf8')).trim()}\n`;
  });
  return (await Promise.all(texts)).join('\n\n');
}
