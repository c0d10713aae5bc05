// What Stripe's, GitHub's and Standard Webhooks' own packages sign, a real server accepts; and
// nothing else.
//
//   node webhooks_test.mjs URL

import assert from 'node:assert/strict';
import { createHash, createHmac, createPrivateKey, sign } from 'node:crypto';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { sign as signForGithub } from '@octokit/webhooks-methods';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';

const server = process.argv[2];
const stripe = new Stripe('sk_test_of_nobody');
const now = () => Math.floor(Date.now() / 1000);
const sha256 = (text) => createHash('sha256').update(text).digest('hex');

async function send(name, body, headers) {
  const answer = await fetch(`${server}/v1/webhooks/${name}`, {
    method: 'POST', body, headers: { 'Content-Type': 'application/json', ...headers },
  });
  return { status: answer.status, body: await answer.json() };
}

async function stored(source, id) {
  const answer = await fetch(
    `${server}/v1/messages/${encodeURIComponent(source)}/${encodeURIComponent(id)}`);
  return answer.status === 200 ? answer.json() : null;
}

async function countOf(source) {
  const answer = await fetch(`${server}/v1/messages/count`, {
    method: 'POST', body: JSON.stringify({ filter: { source } }),
    headers: { 'Content-Type': 'application/json' },
  });
  return (await answer.json()).count;
}

/** Signs as one provider does; what it needs beside secret and body is made here. */
const providers = {
  stripe: {
    secrets: ['whsec_new_secret_of_a_test', 'whsec_old_secret_of_a_test'],
    hasTime: true,
    body: (id) => JSON.stringify({ id, object: 'event', type: 'invoice.paid', data: {} }),
    topic: 'invoice.paid',
    headers: async (id, body, secret, time = now()) => ({
      'Stripe-Signature':
        stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: time }),
    }),
  },
  github: {
    secrets: ['new secret of a test', 'old secret of a test'],
    hasTime: false,
    body: () => JSON.stringify({ action: 'opened', sender: { login: 'octocat' } }),
    topic: 'issues',
    headers: async (id, body, secret) => ({
      'X-GitHub-Delivery': id,
      'X-GitHub-Event': 'issues',
      'X-Hub-Signature-256': await signForGithub(secret, body),
    }),
  },
  standard: {
    secrets: ['whsec_bmV3IHNlY3JldCBvZiBhIHRlc3QgMjQr', 'whsec_b2xkIHNlY3JldCBvZiBhIHRlc3QgMjQr'],
    hasTime: true,
    body: () => JSON.stringify({ type: 'contact.created', data: { name: 'Zoë' } }),
    topic: 'contact.created',
    headers: async (id, body, secret, time = now()) => ({
      'webhook-id': id,
      'webhook-timestamp': String(time),
      'webhook-signature': new StandardWebhook(secret).sign(id, new Date(time * 1000), body),
    }),
  },
};

for (const [name, provider] of Object.entries(providers)) {
  const [newSecret, oldSecret] = provider.secrets;
  const otherSecret = name === 'standard' ? 'whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCE=' : 'guess';

  test(`${name}: a signed webhook is stored as it came, and again it is a duplicate`, async () => {
    const id = `${name}_first`;
    const body = provider.body(id);
    const first = await send(name, body, await provider.headers(id, body, newSecret));
    assert.deepEqual(first, { status: 200, body: { source: name, messageId: id, status: 'Accepted' } });
    const again = await send(name, body, await provider.headers(id, body, newSecret));
    assert.equal(again.status, 200);
    assert.equal(again.body.status, 'Duplicate');
    const message = await stored(name, id);
    assert.equal(message.topic, provider.topic);
    assert.deepEqual(message.payload, JSON.parse(body));
    assert.equal(message.hash, `sha256:${sha256(body)}`);
  });

  test(`${name}: the old secret is valid beside the new one`, async () => {
    const id = `${name}_rotated`;
    const body = provider.body(id);
    const answer = await send(name, body, await provider.headers(id, body, oldSecret));
    assert.equal(answer.status, 200);
    assert.equal(answer.body.status, 'Accepted');
  });

  test(`${name}: whatever is not signed so is refused and stores nothing`, async () => {
    const before = await countOf(name);
    const id = `${name}_bad`;
    const body = provider.body(id);
    const good = await provider.headers(id, body, newSecret);
    const refused = {
      'a tampered body': [body.replace('}', ' }'), good],
      'another secret': [body, await provider.headers(id, body, otherSecret)],
      'no signature': [body, {}],
      'a cut signature': [body, Object.fromEntries(Object.entries(good).map(
        ([field, value]) => [field, /signature/i.test(field) ? value.slice(0, -6) : value]))],
    };
    if (provider.hasTime) {
      refused['an old time'] = [body, await provider.headers(id, body, newSecret, now() - 600)];
      refused['a time to come'] = [body, await provider.headers(id, body, newSecret, now() + 600)];
    }
    for (const [what, [sent, headers]] of Object.entries(refused)) {
      const answer = await send(name, sent, headers);
      assert.equal(answer.status, 401, what);
      assert.equal(answer.body.code, 'unauthorized', what);
      assert.ok(!JSON.stringify(answer.body).includes(newSecret), what);
    }
    assert.equal(await stored(name, id), null);
    assert.equal(await countOf(name), before);
  });
}

test('standard: the names of the fields may be those of Svix', async () => {
  const body = providers.standard.body();
  const signature = new SvixWebhook(providers.standard.secrets[0]).sign('msg_svix', new Date(), body);
  const fields = { 'svix-id': 'msg_svix', 'svix-timestamp': String(now()), 'svix-signature': signature };
  assert.equal((await send('standard', body, fields)).status, 200);
  assert.ok(await stored('standard', 'msg_svix'));
  const mixed = await send('standard', body, { ...fields, 'webhook-id': 'msg_of_somebody_else' });
  assert.equal(mixed.status, 401);
});

test('standard: signatures of Ed25519 are checked with the public key', async () => {
  const beginOfPkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex');
  const key = createPrivateKey({
    key: Buffer.concat([beginOfPkcs8, Buffer.from('TESTSIGNINGKEYDONOTUSETHISFORANY')]),
    format: 'der', type: 'pkcs8' });
  const body = providers.standard.body();
  const time = String(now());
  const signature = sign(null, Buffer.from(`msg_ed25519.${time}.${body}`), key).toString('base64');
  const fields = {
    'webhook-id': 'msg_ed25519', 'webhook-timestamp': time, 'webhook-signature': `v1a,${signature}`,
  };
  assert.equal((await send('ed25519', `${body} `, fields)).status, 401);
  assert.equal((await send('ed25519', body, fields)).status, 200);
  assert.ok(await stored('ed25519', 'msg_ed25519'));
});

test('a compressed body is refused, whichever of its forms is signed', async () => {
  const plain = providers.standard.body();
  const body = gzipSync(plain);
  for (const signed of [plain, body]) {
    const signature = createHmac('sha256', providers.github.secrets[0]).update(signed).digest('hex');
    const answer = await send('github', body, {
      'Content-Encoding': 'gzip', 'X-Hub-Signature-256': `sha256=${signature}`,
    });
    assert.equal(answer.status, 415);
    assert.equal(answer.body.code, 'unsupported_media_type');
  }
});

test('github: without an id the body is its own', async () => {
  const body = '{"zen":"Keep it logically awesome."}';
  const headers = await providers.github.headers('unused', body, providers.github.secrets[0]);
  delete headers['X-GitHub-Delivery'];
  const answer = await send('github', body, headers);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.messageId, sha256(body));
});

test('stripe: a body that is not JSON has neither id nor type', async () => {
  const body = 'not JSON, but signed';
  const headers = await providers.stripe.headers('unused', body, providers.stripe.secrets[0]);
  const answer = await send('stripe', body, { ...headers, 'Content-Type': 'text/plain' });
  assert.equal(answer.status, 200);
  const message = await stored('stripe', sha256(body));
  assert.equal(message.topic, 'stripe');
  assert.equal(message.payload, body);
  assert.equal(message.headers.contentType, 'text/plain');
});

test('an HMAC of one\'s own, with names from headers and the body', async () => {
  const body = '{"customer":{"id":17},"total":"9.50"}';
  const answer = await send('shop', body, {
    'X-Shop-Hmac-Sha256': createHmac('sha256', 'secret of a test').update(body).digest('base64'),
    'X-Shop-Webhook-Id': 'b54557e4',
    'X-Shop-Topic': 'orders/create',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
  assert.equal(answer.status, 200);
  const message = await stored('shop', 'b54557e4');
  assert.equal(message.topic, 'shop.orders/create');
  assert.equal(message.partitionKey, '17');
  assert.equal(message.headers.traceparent,
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
});

test('a signature as long as a novel is refused', async () => {
  const answer = await fetch(`${server}/v1/webhooks/github`, {
    method: 'POST', body: '{}', headers: { 'X-Hub-Signature-256': `sha256=${'a'.repeat(12_000)}` },
  });
  assert.equal(answer.status, 401);
});

test('a name that nobody configured is not found', async () => {
  assert.equal((await send('nobody', '{}', {})).status, 404);
});
