// What the model may ask of this program. The names and shapes go with each create; the work is done here.
import { spawn } from 'node:child_process';
import { applyPatch, parsePatch } from 'diff';

const SHOWN_CHARACTERS = 8_000;

export const DEFINITIONS = [
  {
    type: 'function',
    name: 'read_file',
    description: 'The text of a file of the workspace.',
    parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
  },
  {
    type: 'function',
    name: 'apply_patch',
    description: 'Applies a unified diff to files of the workspace: all of it, or nothing.',
    parameters: { type: 'object', properties: { patch: { type: 'string' } }, required: ['patch'] },
  },
  {
    type: 'function',
    name: 'run_tests',
    description: 'Runs the tests of the workspace and gives what they print.',
    parameters: { type: 'object', properties: {} },
  },
];

/** Must not be done twice: the server never passes a held call of one to somebody else by itself. */
export const SIDE_EFFECTS = ['apply_patch', 'run_tests'];

/**
 * @param {import('./workspace.mjs').Workspace} workspace
 * @param {{command: string[], limitMs: number}} tests
 */
export function handlers(workspace, tests) {
  return {
    async read_file({ path }) {
      const text = await workspace.read(path);
      if (text === null) throw new Error(`there is no file ${path}`);
      return text;
    },
    apply_patch: ({ patch }) => patchFiles(workspace, patch),
    run_tests: (_, { signal }) => runTests(workspace.root, tests, signal),
  };
}

/** Every file is patched in memory before the first one is written. */
async function patchFiles(workspace, patch) {
  const changes = [];
  for (const part of parsePatch(patch)) {
    const [before, after] = [nameOf(part.oldFileName), nameOf(part.newFileName)];
    const name = after ?? before;
    if (name === null) throw new Error('the patch names no file');
    if (before !== null && after !== null && before !== after) throw new Error('files are not renamed by a patch');
    const text = await workspace.read(name);
    if ((text === null) !== (before === null)) throw new Error(`${name} is ${text === null ? 'not there' : 'there'}`);
    const patched = applyPatch(text ?? '', part);
    if (patched === false) throw new Error(`the patch does not fit ${name}; read it again`);
    changes.push([name, after === null ? null : patched]);
  }
  if (changes.length === 0) throw new Error('the patch is empty');
  for (const [name, text] of changes) await workspace.write(name, text);
  return { patched: changes.map(([name]) => name) };
}

function nameOf(name) {
  if (name === undefined || name === '/dev/null') return null;
  return name.replace(/^[ab]\//, '');
}

/** Without a shell, with an end: what is still running then is killed with all it has started. */
function runTests(folder, { command, limitMs }, signal) {
  const [program, ...words] = command;
  const { NODE_TEST_CONTEXT: _, ANTIPHON_API_KEY: __, ...env } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let timedOut = false;
    const stop = () => {
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    };
    const timer = setTimeout(() => {
      timedOut = true;
      stop();
    }, limitMs);
    signal.addEventListener('abort', stop, { once: true });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output = (output + text).slice(-SHOWN_CHARACTERS);
      });
    }
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(new Error(`${program} cannot be started: ${error.message}`));
    });
    child.on('close', (code) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      resolve({ passed: code === 0, exit_code: code, timed_out: timedOut, output });
    });
  });
}
