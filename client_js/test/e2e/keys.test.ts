import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuthenticationError, NotFound, PermissionDenied } from '../../src/index.js';
import { client, once } from '../support/clients.js';

const KEY = process.env['ANTIPHON_TEST_KEY']!;
const VIEWER = process.env['ANTIPHON_TEST_VIEWER_KEY']!;

for (const [how, options] of [
  ['a socket', {}],
  ['HTTP', { WebSocket: null }],
] as const) {
  test(`a key opens a client over ${how}, also one that is given when it is asked for`, async () => {
    const one = client({ auth: async () => KEY, ...options });
    const run = one.run({ model: 'antiphon/echo', input: 'hello' });
    assert.equal((await run.done).status, 'completed');
    assert.equal((await one.request('GET', '/v1/me')).tenant, 'acme');
  });

  test(`a wrong key over ${how} is a typed error`, async () => {
    const one = client({ auth: 'nonsense', ...options });
    const run = one.run({ model: 'antiphon/echo', input: 'hello' });
    await assert.rejects(
      run.done,
      (error) => error instanceof AuthenticationError && error.code === 'invalid_api_key' && !error.retryable,
    );
  });

  test(`a feed and a conversation of a wrong key over ${how} end with the reason`, async () => {
    const one = client({ auth: 'nonsense', ...options });
    const feed = one.feed();
    const conversation = one.conversation('conv_x');
    const reasons = Promise.all([once(feed, 'error'), once(conversation, 'error')]);
    await assert.rejects(async () => {
      for await (const _ of feed) assert.fail('there is nothing to tell');
    }, AuthenticationError);
    for (const reason of (await reasons).flat()) assert.equal((reason as AuthenticationError).code, 'invalid_api_key');
  });

  test(`what the role does not allow over ${how} is a typed error, and what it does works`, async () => {
    const run = client({ auth: KEY }).run({ model: 'antiphon/script:counting', input: 'hello' });
    const viewer = client({ auth: VIEWER, ...options });
    const seen = viewer.attach(await run.created);
    await once(seen, 'event');
    await assert.rejects(seen.cancel(), PermissionDenied);
    await assert.rejects(viewer.run({ model: 'antiphon/echo', input: 'x' }).done, PermissionDenied);
    await assert.rejects(viewer.attach('resp_nobody').done, NotFound);
    await run.cancel();
    assert.equal((await seen.done).status, 'cancelled');
  });
}
