// What an Oncebox signs, the packages of Standard Webhooks and Svix accept. They know nothing of
// Ed25519, whose signatures are checked by Node.js itself, from the public key that we tell.
//
//   node receivers_test.mjs PUBLISHER

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createPrivateKey, createPublicKey, verify } from 'node:crypto';
import { createServer } from 'node:http';
import test from 'node:test';
import { promisify } from 'node:util';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';

const publisher = process.argv[2];
const run = promisify(execFile);

const secret = 'whsec_bmV3IHNlY3JldCBvZiBhIHRlc3QgMjQr';
const oldSecret = 'whsec_b2xkIHNlY3JldCBvZiBhIHRlc3QgMjQr';
const otherSecret = 'whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCE=';
const seed = Buffer.from('TESTSIGNINGKEYDONOTUSETHISFORANY');
const secretKey = `whsk_${seed.toString('base64')}`;
const payload = JSON.stringify({ type: 'order.paid', data: { name: 'Zoë', total: '9.50' } });

/** Publishes to a receiver that exists for this one request; what it got, and what was printed. */
async function published(...secrets) {
  let got;
  const receiver = createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      got = { headers: request.headers, body: Buffer.concat(pieces) };
      response.writeHead(204).end();
    });
  });
  await new Promise((listens) => receiver.listen(0, '127.0.0.1', listens));
  try {
    const url = `http://127.0.0.1:${receiver.address().port}/hook`;
    const { stdout } = await run(publisher, [url, payload, ...secrets]);
    return { ...got, printed: stdout.split('\n').filter(Boolean) };
  } finally {
    receiver.closeAllConnections();
    receiver.close();
  }
}

/** The key of Ed25519 that belongs to the seed, made with nothing of ours. */
function publicKey() {
  const beginOfPkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex');
  return createPublicKey(createPrivateKey(
    { key: Buffer.concat([beginOfPkcs8, seed]), format: 'der', type: 'pkcs8' }));
}

function isSignedWithEd25519({ headers, body }, key) {
  const signed = Buffer.concat(
    [Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`), body]);
  return headers['webhook-signature'].split(' ').filter((part) => part.startsWith('v1a,'))
    .some((part) => verify(null, signed, key, Buffer.from(part.slice(4), 'base64')));
}

for (const [name, Webhook] of Object.entries({ standardwebhooks: StandardWebhook, svix: SvixWebhook })) {
  test(`${name} accepts what we sign`, async () => {
    const { headers, body } = await published(secret);
    assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(payload));
    assert.equal(headers['webhook-id'], 'shop:order%2E1');
  });

  test(`${name} accepts it with the old and with the new secret`, async () => {
    const { headers, body } = await published(secret, oldSecret);
    for (const each of [secret, oldSecret]) new Webhook(each).verify(body, headers);
    assert.throws(() => new Webhook(otherSecret).verify(body, headers));
    assert.throws(() => new Webhook(secret).verify(`${body} `, headers));
  });

  test(`${name} accepts it beside a signature of Ed25519`, async () => {
    const { headers, body } = await published(secretKey, secret);
    new Webhook(secret).verify(body, headers);
  });
}

test('Node.js verifies what we sign with Ed25519', async () => {
  const got = await published(secret, secretKey);
  assert.ok(isSignedWithEd25519(got, publicKey()));
  assert.ok(!isSignedWithEd25519({ ...got, body: Buffer.from('{}') }, publicKey()));
});

test('the public key that we tell is the one that belongs to the secret', async () => {
  const { printed } = await published(secret, secretKey);
  const { x } = publicKey().export({ format: 'jwk' });
  assert.deepEqual(printed, [`whpk_${Buffer.from(x, 'base64url').toString('base64')}`]);
});
