// Run by test_vscode_like.py: what the tools of the example do with paths, patches and tests that mean no good.
//   node vscode_like_checks.mjs <folder of the example> <empty folder>
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [example, folder] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(example, name)).href);
const [{ Workspace }, { handlers }] = await Promise.all([load('workspace.mjs'), load('tools.mjs')]);

const root = path.join(folder, 'inside');
mkdirSync(path.join(root, 'deep'), { recursive: true });
writeFileSync(path.join(folder, 'secret.txt'), 'secret\n');
writeFileSync(path.join(root, 'a.txt'), 'one\ntwo\n');
writeFileSync(path.join(root, 'bytes.bin'), Buffer.from([0xff, 0xfe, 0x00]));
symlinkSync(path.join(folder, 'secret.txt'), path.join(root, 'link.txt'));
symlinkSync(folder, path.join(root, 'way-out'));

const workspace = await Workspace.open(root);
const command = [process.execPath, '-e', 'setInterval(() => console.log("on and on"), 20)'];
const tools = handlers(workspace, { command, limitMs: 300 });
const added = (name) => `--- /dev/null\n+++ b/${name}\n@@ -0,0 +1,1 @@\n+new\n`;
const changed = (name, line) => `--- a/${name}\n+++ b/${name}\n@@ -1,2 +1,2 @@\n-${line}\n+ONE\n two\n`;

const outside = ['../secret.txt', 'deep/../../secret.txt', path.join(folder, 'secret.txt'), 'link.txt'];
for (const name of [...outside, 'way-out/secret.txt', 'way-out/new.txt', '', '.', 'a\0b', 7]) {
  await assert.rejects(() => tools.read_file({ path: name }), /outside|over a link|no path/, String(name));
}
for (const name of ['../new.txt', 'way-out/new.txt', 'deep/../../new.txt']) {
  await assert.rejects(() => tools.apply_patch({ patch: added(name) }), /outside|over a link/, name);
}
assert.deepEqual(readdirSync(folder).sort(), ['inside', 'secret.txt']);

await assert.rejects(() => tools.read_file({ path: 'bytes.bin' }));
await assert.rejects(() => tools.read_file({ path: 'none.txt' }), /no file/);
assert.equal(await tools.read_file({ path: 'deep/../a.txt' }), 'one\ntwo\n');

const half = changed('a.txt', 'one') + changed('deep/none.txt', 'one');
await assert.rejects(() => tools.apply_patch({ patch: half }), /not there/);
await assert.rejects(() => tools.apply_patch({ patch: changed('a.txt', 'another') }), /does not fit/);
await assert.rejects(() => tools.apply_patch({ patch: added('a.txt') }), /is there/);
await assert.rejects(() => tools.apply_patch({ patch: 'hello' }), /empty|names no file/);
assert.equal(readFileSync(path.join(root, 'a.txt'), 'utf8'), 'one\ntwo\n', 'all of it or nothing');

const both = changed('a.txt', 'one') + added('deep/er/new.txt');
assert.deepEqual(await tools.apply_patch({ patch: both }), { patched: ['a.txt', 'deep/er/new.txt'] });
assert.equal(readFileSync(path.join(root, 'a.txt'), 'utf8'), 'ONE\ntwo\n');
await assert.rejects(() => tools.apply_patch({ patch: both }), /does not fit|is there/);
const gone = '--- a/deep/er/new.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-new\n';
assert.deepEqual(await tools.apply_patch({ patch: gone }), { patched: ['deep/er/new.txt'] });
assert.deepEqual(readdirSync(path.join(root, 'deep/er')), []);

const result = await tools.run_tests({}, { signal: new AbortController().signal });
assert.equal(result.passed, false);
assert.equal(result.timed_out, true);
console.log('checked');
