// A client that is made from the server's own description, by a package that nobody here wrote,
// takes a message from its arrival to Done, one to its last attempt, another one to the dead and
// back, and a key through the inbox contract.
//
//   node story_test.mjs URL

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { OpenAPIClientAxios } from 'openapi-client-axios';

const server = process.argv[2];
const api = new OpenAPIClientAxios({
  definition: `${server}/openapi.json`,
  axiosConfigDefaults: { baseURL: server, validateStatus: () => true },
});
const client = await api.init();

async function call(operation, parameters, body) {
  const answer = await client[operation](parameters, body);
  assert.equal(answer.status, 200, `${operation}: ${JSON.stringify(answer.data)}`);
  return answer.data;
}

test('the description is an OpenAPI 3.1 document', async () => {
  const answer = await fetch(`${server}/openapi.json`);
  const result = await new Validator().validate(await answer.json());
  assert.ok(result.valid, JSON.stringify(result.errors, null, 2));
});

test('a message is enqueued, claimed, settled and done', async () => {
  const topic = `story.${randomUUID()}`;
  const key = { source: 'story', messageId: 'order/1 ü' };
  const message = { ...key, topic, payload: { amount: 4200, exact: 1.10 } };
  assert.equal((await call('enqueueMessages', null, message)).status, 'Accepted');
  assert.equal((await call('enqueueMessages', null, message)).status, 'Duplicate');

  const claim = { topics: { only: [topic] }, limit: 10, waitSeconds: 5 };
  const { owner, messages } = await call('claimMessages', null, claim);
  assert.equal(messages.length, 1);
  assert.deepEqual(messages[0].payload, message.payload);
  assert.equal((await call('claimMessages', null, { topics: { only: [topic] } })).messages.length, 0);

  const { delivery } = messages[0];
  const extended = await call('extendLeases', null, { owner, items: [{ ...key, delivery }] });
  assert.equal(extended.results[0].status, 'Extended');
  const settle = { owner, items: [{ ...key, delivery, verdict: 'Ack' }] };
  assert.deepEqual((await call('settleMessages', null, settle)).results, [{ status: 'Settled' }]);
  assert.deepEqual((await call('settleMessages', null, settle)).results, [{ status: 'LeaseLost' }]);

  const record = await call('getMessage', key);
  assert.equal(record.status, 'Done');
  assert.equal(record.duplicates, 1);
  assert.equal((await call('enqueueMessages', null, message)).status, 'DuplicateDone');
});

test('a message that a worker abandons each time ends dead', async () => {
  const topic = `story.${randomUUID()}`;
  const key = { source: 'story', messageId: randomUUID() };
  await call('enqueueMessages', null, { ...key, topic, payload: 'text' });
  const claim = { topics: { only: [topic] }, waitSeconds: 60 };
  const item = { ...key, verdict: 'Abandon', error: 'no luck', delaySeconds: 0.001 };
  let attempts = 0;
  let settled;
  do {
    const { owner, messages } = await call('claimMessages', null, claim);
    assert.equal(messages.length, 1);
    settled = (await call('settleMessages', null, { owner, items: [item] })).results[0];
    attempts += 1;
  } while (settled.againAt);
  assert.deepEqual([settled.death, attempts], ['Attempts', 10]);
  const record = await call('getMessage', key);
  assert.deepEqual([record.status, record.attempt, record.lastError], ['Dead', 10, 'no luck']);
});

test('a message dies, is looked at, and comes back', async () => {
  const topic = `story.${randomUUID()}`;
  const key = { source: 'story', messageId: randomUUID() };
  await call('enqueueMessages', null, [{ ...key, topic, payload: 'text' }]);
  const claim = { topics: { only: [topic] } };
  const first = await call('claimMessages', null, claim);
  await call('settleMessages', null, {
    owner: first.owner, items: [{ ...key, verdict: 'Fail', error: 'the amount is negative' }],
  });

  const dead = await call('listDead', { topic });
  assert.equal(dead.messages.length, 1);
  assert.equal(dead.messages[0].lastError, 'the amount is negative');
  assert.equal((await call('getDead', key)).status, 'Dead');
  const dryRun = await call('reviveDead', null, { filter: { topic }, dryRun: true });
  assert.deepEqual(dryRun, { count: 1, dryRun: true });
  const revived = await call('reviveDead', null, { keys: [key], reason: 'the bug is fixed' });
  assert.deepEqual(revived, { results: ['Revived'], count: 1 });

  const again = await call('claimMessages', null, claim);
  assert.equal(again.messages[0].payload, 'text');
  await call('settleMessages', null, { owner: again.owner, items: [{ ...key, verdict: 'Ack' }] });
  const record = await call('getMessage', key);
  assert.equal(record.status, 'Done');
  assert.equal(record.revivals.lastReason, 'the bug is fixed');
});

test('a key goes through the inbox contract', async () => {
  const key = `bus:group:alias/${randomUUID()} é`;
  assert.equal((await call('getKey', { key })).status, 'Unknown');
  const begun = await call('tryBegin', null, { key, owner: 'worker-1', leaseSeconds: 60 });
  assert.equal(begun.status, 'Acquired');
  assert.equal((await call('tryBegin', null, { key })).status, 'Busy');
  const released = await call('releaseKey', null, { key, leaseId: begun.leaseId });
  assert.equal(released.status, 'Released');
  const { leaseId } = await call('tryBegin', null, { key });
  assert.equal((await call('markProcessed', null, { key, leaseId })).status, 'Processed');
  assert.equal((await call('tryBegin', null, { key })).status, 'Processed');
  const state = await call('getKey', { key });
  assert.equal(state.status, 'Processed');
  assert.equal(state.attempts, 2);
});

test('keys say the same one by one and in batches', async () => {
  const [one, other] = [randomUUID(), randomUUID()];
  const begun = await call('tryBegin', null, { key: one });
  const { results: [inBatch] } = await call('beginKeys', null, { items: [{ key: other }] });
  assert.equal(begun.status, inBatch.status);
  assert.equal(begun.expiresAt, begun.leaseUntil);
  const done = await call('markProcessed', null, { key: one, leaseId: begun.leaseId });
  const { results } = await call(
    'completeKeys', null, { items: [{ key: other, leaseId: inBatch.leaseId }] });
  assert.deepEqual(results, [done]);
  const found = await call('findKeys', null, { keys: [randomUUID()] });
  assert.deepEqual(found.results, [await call('getKey', { key: randomUUID() })]);
});

test('an Idempotency-Key stands for one content', async () => {
  const key = { 'Idempotency-Key': randomUUID() };
  const send = (payload) => client.enqueueMessages(key, { topic: 'once', payload });
  assert.equal((await send(1)).data.status, 'Accepted');
  assert.equal((await send(1)).data.status, 'Duplicate');
  const other = await send(2);
  assert.equal(other.status, 409);
  assert.equal(other.data.code, 'conflict');
  assert.equal((await send(null)).status, 400);
});

test('a mistake is a problem that names it', async () => {
  const answer = await client.enqueueMessages(null, { topic: 'a', playload: 1 });
  assert.equal(answer.status, 400);
  assert.match(answer.headers['content-type'], /^application\/problem\+json/);
  assert.equal(answer.data.code, 'invalid_argument');
  assert.match(answer.data.detail, /playload/);
});
