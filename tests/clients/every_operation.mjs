// Calls every operation of the server's description with the description's own example, through a
// client that is made from it, and writes each exchange as a line of JSON for
// validate_exchanges.py.
//
//   node every_operation.mjs URL FILE

import { appendFileSync } from 'node:fs';
import { OpenAPIClientAxios } from 'openapi-client-axios';

const [, , server, file] = process.argv;
const definition = await (await fetch(`${server}/openapi.json`)).json();
const api = new OpenAPIClientAxios({
  definition,
  axiosConfigDefaults: {
    baseURL: server, validateStatus: () => true, transformResponse: (text) => text,
  },
});
const client = await api.init();

function write(exchange) {
  appendFileSync(file, `${JSON.stringify(exchange)}\n`);
}

/**
 * The message of the examples is there, and dead: they look at it, and bring it back. Another one
 * is there to be claimed.
 */
async function prepare(path) {
  if (path.includes('/endpoints/{endpoint}/')) {
    const { post } = definition.paths['/v1/endpoints'];
    await client[post.operationId](null, post.requestBody.content['application/json'].example);
  }
  const suffix = { outbox: 'InOutbox', deliveries: 'InDeliveries' }[
    /\/(outbox|deliveries)\//.exec(path)?.[1]] ?? '';
  const key = { source: 'shop', messageId: 'order-1' };
  await client[`enqueueMessages${suffix}`](null, [
    { ...key, topic: 'order.paid', payload: 'text' },
    { topic: 'order.paid', payload: [1], partitionKey: 'p', dueAt: '2026-01-31T08:15:30Z' }]);
  await client[`markMessages${suffix}`](null, { items: [{ ...key, as: 'Dead', error: 'why' }] });
}

/** An answer that does not end: its first event is enough. */
async function readStream(method, path) {
  const answer = await fetch(server + path);
  const reader = answer.body.getReader();
  const text = new TextDecoder();
  let body = '';
  while (!body.includes('event: stats\n')) {
    const { value, done } = await reader.read();
    if (done) break;
    body += text.decode(value, { stream: true });
  }
  await reader.cancel();
  write({
    method, route: path, path, requestType: '', requestBody: '', status: answer.status,
    responseType: answer.headers.get('content-type'), responseBody: body,
  });
}

async function call(operation) {
  const { operationId, method, path } = operation;
  if (operationId === 'watchEvents') {
    await readStream(method.toUpperCase(), path);
    return;
  }
  const parameters = Object.fromEntries((operation.parameters ?? [])
    .filter((parameter) => parameter.in === 'path').map(({ name, example }) => [name, example]));
  await prepare(path);
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [''];
  const body = media?.example ?? (type === '*/*' ? { id: 'evt_1' } : undefined);
  const answer = await client[operationId](parameters, body);
  write({
    method: method.toUpperCase(),
    route: path,
    path: answer.config.url,
    requestType: body === undefined ? '' : 'application/json',
    requestBody: body === undefined ? '' : JSON.stringify(body),
    status: answer.status,
    responseType: answer.headers['content-type'],
    responseBody: answer.data,
  });
}

for (const operation of api.getOperations()) await call(operation);
