/** Writes src/wire/schema.ts from protocol/schema. `--check` only compares. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { compile } from 'json-schema-to-typescript';

const SCHEMAS = new URL('../../protocol/schema/', import.meta.url);
const TARGET = new URL('../src/wire/schema.ts', import.meta.url);
const BANNER = '/* Generated from protocol/schema by scripts/wire.mjs. Do not edit. */';

/** `client_events.json` -> `ClientEvents`. @param {string} name */
function unionName(name) {
  return name
    .replace('.json', '')
    .split('_')
    .map((word) => word[0].toUpperCase() + word.slice(1))
    .join('');
}

/**
 * Titles of fields would each become a type of their own; those of definitions are their names. That any object may
 * have more fields than these is the rule of the wire, and would hide misspelt ones.
 */
function trimmed(node) {
  if (Array.isArray(node)) return node.map(trimmed);
  if (typeof node !== 'object' || node === null) return node;
  const isOpen = 'properties' in node && node.additionalProperties === true;
  const kept = Object.entries(node).filter(
    ([key, value]) => !(key === 'title' && typeof value === 'string') && !(key === 'additionalProperties' && isOpen),
  );
  return Object.fromEntries(kept.map(([key, value]) => [key, trimmed(value)]));
}

/** One schema of all files: the definitions they share are said once. */
async function wholeSchema() {
  const whole = { title: 'Wire', $defs: {}, anyOf: [] };
  for (const name of (await readdir(SCHEMAS)).sort()) {
    if (!name.endsWith('.json')) continue;
    const { $defs, oneOf } = JSON.parse(await readFile(new URL(name, SCHEMAS), 'utf8'));
    for (const [key, definition] of Object.entries($defs)) {
      const text = JSON.stringify(key.startsWith('Unknown') ? definition : trimmed(definition));
      const known = whole.$defs[key];
      if (known && JSON.stringify(known) !== text) throw new Error(`${key} means two things in protocol/schema`);
      whole.$defs[key] = JSON.parse(text);
    }
    whole.$defs[unionName(name)] = { anyOf: oneOf };
    whole.anyOf.push({ $ref: `#/$defs/${unionName(name)}` });
  }
  return whole;
}

const text = await compile(await wholeSchema(), 'Wire', {
  bannerComment: BANNER,
  additionalProperties: false,
  unreachableDefinitions: true,
  format: true,
  style: { singleQuote: true, printWidth: 120 },
});
if (process.argv.includes('--check')) {
  if ((await readFile(TARGET, 'utf8')) !== text) {
    process.stderr.write('src/wire/schema.ts differs from protocol/schema; run npm run wire\n');
    process.exitCode = 1;
  }
} else {
  await writeFile(TARGET, text);
}
