// What an IDE extension does with Antiphon: the model runs at the server, its tools run here, where the files are.
// Text goes to standard output, everything else to standard error.
import { randomUUID } from 'node:crypto';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Antiphon } from 'antiphon';
import { WebSocket } from 'ws';
import { DEFINITIONS, SIDE_EFFECTS, handlers } from './tools.mjs';
import { Workspace } from './workspace.mjs';

const USAGE = `Usage:
  node examples/vscode-like/main.mjs [--workspace FOLDER] [--model NAME] [--test-limit-s SECONDS] [TASK]
  node examples/vscode-like/main.mjs [--workspace FOLDER] --attach RESPONSE --instance ID

ANTIPHON_URL points elsewhere than http://127.0.0.1:8787, ANTIPHON_API_KEY brings a key. Ctrl-C stops the run.`;
const { values, positionals } = readArguments({
  allowPositionals: true,
  options: {
    help: { type: 'boolean', default: false },
    workspace: { type: 'string', default: fileURLToPath(new URL('sample', import.meta.url)) },
    model: { type: 'string', default: 'antiphon/script:fix' },
    attach: { type: 'string' },
    instance: { type: 'string', default: randomUUID() },
    'test-limit-s': { type: 'string', default: '60' },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const url = (process.env.ANTIPHON_URL ?? 'http://127.0.0.1:8787').replace(/\/(v1\/?)?$/, '');
const task = positionals.join(' ') || 'The discounts are wrong. Find out why, and mend it.';

const client = new Antiphon({
  url,
  auth: process.env.ANTIPHON_API_KEY,
  name: 'vscode-like',
  instanceId: values.instance, // calls with side effects are for nobody else
  WebSocket: globalThis.WebSocket ?? WebSocket, // Node 20 has none of its own
});
let wasUp = false;
client.on('status', (status) => {
  wasUp ||= status === 'open' || status === 'fallback';
  const isNobodyThere = status === 'reconnecting' && !wasUp;
  say(isNobodyThere ? `no server answers at ${url}; trying again (Ctrl-C twice ends)` : `connection: ${status}`);
});
client.on('toolcall', ({ phase, name, winner }) => say(`${name}: ${phase}${winner ? ` to ${winner.by}` : ''}`));

const tests = { command: [process.execPath, '--test'], limitMs: Number(values['test-limit-s']) * 1000 };
const workspace = await Workspace.open(values.workspace);
for (const [name, handler] of Object.entries(handlers(workspace, tests))) client.onToolCall(name, handler);

const run = values.attach
  ? client.attach(values.attach)
  : client.run({
      model: values.model,
      input: task,
      tools: DEFINITIONS,
      antiphon: { client_tools: 'hold', side_effects: SIDE_EFFECTS, labels: { app: 'vscode-like' } },
    });

run.created.then(
  (id) => say(`to go on after this program was closed: --attach ${id} --instance ${values.instance}`),
  () => {}, // what was refused is told below
);
let told = false;
run.on('state', ({ conversation_id: conversation }) => {
  if (conversation && !told) say(`watch it in a browser: ${url}/?conversation=${encodeURIComponent(conversation)}`);
  told ||= Boolean(conversation);
});
process.once('SIGINT', () => {
  say('stopping');
  run.cancel('Ctrl-C').catch((error) => say(error.message));
});

try {
  for await (const event of run) {
    if (event.type === 'response.output_text.delta') process.stdout.write(event.delta);
    if (event.type === 'response.output_text.done') process.stdout.write('\n');
  }
  const { id, status } = await run.done;
  say(`${id} is ${status}`);
  process.exitCode = status === 'completed' ? 0 : 1;
} catch (error) {
  say(error.message);
  process.exitCode = 1;
} finally {
  client.close();
}

/** The arguments of this program; what it does not know ends it with a word. */
function readArguments(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

/** Texts from outside reach a terminal here: without what could move its cursor. */
function say(text) {
  console.error(`--- ${String(text).replace(/\p{Cc}/gu, ' ')} ---`);
}
