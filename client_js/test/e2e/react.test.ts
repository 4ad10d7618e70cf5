import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createElement, type ReactNode } from 'react';
import { act, create, type ReactTestRenderer } from 'react-test-renderer';
import { AntiphonProvider, useAntiphon, useFeed, usePresence, useRun } from '../../src/react.js';
import type { Antiphon, RunState } from '../../src/index.js';
import { client, until } from '../support/clients.js';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

/** Renders `Component` below a provider; what it gives out is read as text. */
async function rendered(one: Antiphon, Component: () => ReactNode): Promise<ReactTestRenderer> {
  let root!: ReactTestRenderer;
  await act(async () => {
    root = create(createElement(AntiphonProvider, { client: one }, createElement(Component)));
  });
  after(() => act(async () => root.unmount()));
  return root;
}

/** Waits for a text that passes; React renders meanwhile. */
async function shows(root: ReactTestRenderer, passes: (text: string) => boolean, what: string): Promise<void> {
  const text = () => JSON.stringify(root.toJSON());
  await until(async () => {
    await act(async () => new Promise((resolve) => setTimeout(resolve, 20)));
    return passes(text());
  }, what);
}

test('a run is rendered as it grows, to its end, whether it is given or named', async () => {
  const one = client();
  const run = one.run({ model: 'antiphon/echo', input: 'one two three' });
  const Given = () => {
    const { text, status, response, state } = useRun(run);
    return `${status} ${response?.status} ${state?.state} ${text}`;
  };
  const given = await rendered(one, Given);
  await shows(given, (text) => text === '"ended completed completed one two three"', 'the end');
  const Named = () => {
    const view = useRun(run.id);
    return view.text;
  };
  await shows(await rendered(client(), Named), (text) => text === '"one two three"', 'the text');
});

test('a refused run is rendered with its error', async () => {
  const one = client();
  const run = one.run({ model: 'nobody/serves-this', input: 'x' });
  const root = await rendered(one, () => useRun(run).error?.code ?? 'none yet');
  await shows(root, (text) => text === '"model_not_found"', 'the code');
});

test('the feed is rendered live', async () => {
  const one = client();
  const Rows = () => {
    const { rows, status } = useFeed({ filter: { model: 'antiphon/script:long' } });
    return `${status}: ${rows.map(({ response_id, state }: RunState) => `${response_id} ${state}`).join()}`;
  };
  const root = await rendered(one, Rows);
  await shows(root, (text) => text.startsWith('"live'), 'the feed');
  const run = client().run({ model: 'antiphon/script:long', input: 'x' });
  const id = await run.created;
  await shows(root, (text) => text.includes(`${id} running`), 'the run');
  await run.cancel();
  await shows(root, (text) => text.includes(`${id} cancelled`), 'its end');
});

test('who is in a conversation is rendered, with what they do', async () => {
  const [anna, ben] = [client(), client()];
  const run = anna.run({ model: 'antiphon/script:long', input: 'x' });
  const id = (await until(() => run.state?.conversation_id, 'the conversation'))!;
  let typing: (() => Promise<void>) | null = null;
  const People = () => {
    const { participants, show } = usePresence(id);
    typing = () => show('typing', nameOfBen);
    return participants.map(({ state, label }) => `${state} ${label}`).join();
  };
  const nameOfBen = 'Ben';
  const root = await rendered(ben, People);
  await shows(root, (text) => text.includes('watching'), 'somebody');
  await typing!();
  await shows(root, (text) => text.includes('typing Ben'), 'the typing');
  await run.cancel();
});

test('a hook without a provider says what is missing', () => {
  const Lost = () => String(useAntiphon());
  assert.throws(() => {
    act(() => {
      create(createElement(Lost));
    });
  }, /no AntiphonProvider/);
});
