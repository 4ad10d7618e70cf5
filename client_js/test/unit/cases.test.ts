/** The transcripts of `protocol/cases`: what each of them means to a reader is in its `outcome`, for any language. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { textOf } from '../../src/core/accumulate.js';
import { RunLog } from '../../src/core/run_log.js';
import type { LogEvent } from '../../src/index.js';
import { client, until } from '../support/clients.js';
import { serving, WELCOME, type Frame } from '../support/server.js';

interface Case {
  title: string;
  steps: { dir: 'client' | 'server'; frame: Frame }[];
  outcome: { runs: object[]; refused: string[] };
}

const FOLDER = new URL('../../../../protocol/cases/', import.meta.url);
const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.json')).sort();
const cases = new Map<string, Case>();
for (const name of names) cases.set(name, JSON.parse(await readFile(new URL(name, FOLDER), 'utf8')) as Case);

/** What a reader makes of the server's frames. */
function outcome({ steps }: Case): Case['outcome'] {
  const runs: { lane: string | null; log: RunLog }[] = [];
  const refused: string[] = [];
  for (const { dir, frame } of steps) {
    if (dir === 'client') continue;
    if (frame.type === 'error') refused.push(frame['error'].code);
    if (frame.type === 'antiphon:error') refused.push(frame['code']);
    if (frame['sequence_number'] === undefined || /^(keepalive|response\.(steer|inject)\.)/.test(frame.type)) continue;
    const lane = frame['stream_id'] ?? null;
    let run = runs.findLast((one) => one.lane === lane);
    if (!run || run.log.isEnded) {
      runs.push((run = { lane, log: new RunLog() }));
      run.log.startAt({ epoch: null, after: frame['sequence_number'] - 1 });
    }
    assert.equal(run.log.take(frame as unknown as LogEvent), 'told', `${frame.type} ${frame['sequence_number']}`);
  }
  return { runs: runs.map(({ lane, log }) => summary(lane, log)), refused };
}

function summary(lane: string | null, log: RunLog): object {
  const { response, events } = log;
  return {
    lane,
    id: response?.id ?? null,
    parent: response?.previous_response_id ?? null,
    numbers: [events[0]!.sequence_number, events.at(-1)!.sequence_number],
    status: response?.status ?? null,
    text: textOf(response),
    calls: (response?.output ?? []).flatMap((item) =>
      item.type === 'function_call' ? [[item.name, item.arguments]] : [],
    ),
  };
}

for (const [name, one] of cases) {
  test(`${name}: ${one.title}`, () => {
    assert.deepEqual(outcome(one), one.outcome);
  });
}

test('the whole client says and understands what the story of a lost connection says', async () => {
  const { steps } = cases.get('attach_replay.json')!;
  const said: Frame[] = [];
  const asked = steps.filter(({ dir }) => dir === 'client').map(({ frame }) => frame);
  const attach = asked.find(({ type }) => type === 'antiphon:attach')!;
  const url = await serving((frame, socket) => {
    said.push(frame);
    if (frame.type === 'antiphon:hello') socket.send(JSON.stringify({ ...WELCOME, id: frame.id }));
    if (frame.type !== 'antiphon:attach') return;
    for (const { dir, frame: told } of steps.slice(steps.findIndex((step) => step.frame === attach))) {
      if (dir === 'server') socket.send(JSON.stringify(told.id ? { ...told, id: frame.id } : told));
    }
  });
  const run = client({ url }).attach(attach['response_id'], { after: attach['after'], epoch: attach['epoch'] });
  await run.done;
  await until(() => run.state?.state === 'completed', 'its last state');
  const { id: _id, ...fields } = attach;
  const { id: _other, ...sent } = said.find(({ type }) => type === 'antiphon:attach')!;
  assert.deepEqual(sent, fields);
  assert.equal(run.cursor.epoch, attach['epoch']);
});
