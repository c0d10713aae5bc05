// Draws the page from openapi.json. Every text goes in as text, so nothing in the document can be
// markup.
'use strict';

/** An element with attributes and children; a child is an element or a text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A text in which what stands between backticks is code. */
function prose(text) {
  return text.split('`').map((part, place) => (place % 2 ? element('code', {}, part) : part));
}

class Page {
  constructor(api) {
    this.api = api;
  }

  resolve(value) {
    while (value && value.$ref) {
      value = value.$ref.slice(2).split('/').reduce((found, part) => found[part], this.api);
    }
    return value;
  }

  /** The operations that are no copies of another, with the other paths of each. */
  operations() {
    const originals = new Map();
    const copies = [];
    for (const [path, methods] of Object.entries(this.api.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const entry = { path, method, operation, others: [] };
        if (operation['x-variant-of']) copies.push(entry);
        else originals.set(operation.operationId, entry);
      }
    }
    for (const copy of copies) {
      originals.get(copy.operation['x-variant-of']).others.push(copy.path);
    }
    return [...originals.values()];
  }

  typeOf(schema) {
    schema = this.resolve(schema);
    if (schema.enum) return schema.enum.join(' | ');
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    const several = schema.oneOf || schema.anyOf;
    if (several && !schema.properties) {
      return several.map((one) => this.typeOf(one)).join(' or ');
    }
    if (schema.type === 'array') return `array of ${this.typeOf(schema.items)}`;
    const type = Array.isArray(schema.type) ? schema.type.join(' or ') : schema.type;
    return [type || 'any', schema.format || schema.contentEncoding].filter(Boolean).join(', ');
  }

  limitsOf(schema) {
    const words = [
      ['minimum', 'at least'], ['exclusiveMinimum', 'more than'], ['maximum', 'at most'],
      ['maxLength', 'characters at most'], ['maxItems', 'items at most'], ['default', 'default'],
    ];
    return words.filter(([key]) => schema[key] !== undefined)
      .map(([key, word]) => `${word} ${schema[key]}`).join('; ');
  }

  /** The objects inside a schema, whose members are shown below it. */
  objectsIn(schema) {
    schema = this.resolve(schema);
    if (schema.properties) return [schema];
    if (schema.type === 'array') return this.objectsIn(schema.items);
    return (schema.oneOf || schema.anyOf || []).flatMap((one) => this.objectsIn(one));
  }

  row(name, schema, isRequired, depth) {
    const resolved = this.resolve(schema);
    const limits = this.limitsOf(resolved);
    const label = element('td', { class: 'name' }, '\u00a0'.repeat(4 * depth),
      element('code', {}, name),
      isRequired ? element('span', { class: 'required' }, 'required') : null);
    return element('tr', {}, label, element('td', {},
      element('span', { class: 'type' }, this.typeOf(schema)),
      limits ? element('span', { class: 'note' }, ` (${limits})`) : null,
      resolved.description ? element('div', {}, ...prose(resolved.description)) : null));
  }

  rows(schema, depth = 0) {
    return this.objectsIn(schema).flatMap((object) =>
      Object.entries(object.properties).flatMap(([name, member]) => [
        this.row(name, member, (object.required || []).includes(name), depth),
        ...(depth < 4 ? this.rows(member, depth + 1) : []),
      ]));
  }

  table(rows) {
    return rows.length > 0 ? element('table', {}, element('tbody', {}, ...rows)) : null;
  }

  content(media) {
    return Object.entries(media || {}).flatMap(([type, { schema, example }]) => [
      element('p', { class: 'note' }, type, ' \u00b7 ', this.typeOf(schema)),
      this.table(this.rows(schema)),
      example === undefined ? null : element('pre', {}, element('code', {},
        typeof example === 'string' ? example : JSON.stringify(example, null, 2))),
    ]);
  }

  parameters(operation) {
    const all = (operation.parameters || []).map((one) => this.resolve(one));
    if (all.length === 0) return [];
    const rows = all.map((one) => this.row(`${one.name} (${one.in})`,
      { ...this.resolve(one.schema), description: one.description }, one.required, 0));
    return [element('h3', {}, 'Parameters'), this.table(rows)];
  }

  curl({ path, method, operation }) {
    const parameters = (operation.parameters || []).map((one) => this.resolve(one));
    const filled = path.replace(/{(\w+)}/g, (_, name) => {
      const found = parameters.find((one) => one.name === name);
      return encodeURIComponent((found && found.example) || name);
    });
    const body = this.resolve(operation.requestBody);
    const example = body && body.content['application/json'] &&
      body.content['application/json'].example;
    const base = new URL('.', document.baseURI).href.replace(/\/$/, '');
    const parts = [`curl ${base}${filled}`];
    if (operation['x-scope']) parts.push("-H 'Authorization: Bearer TOKEN'");
    if (example) {
      parts.push("-H 'Content-Type: application/json'");
      parts.push(`-d '${JSON.stringify(example).replaceAll("'", "'\\''")}'`);
    } else if (method === 'post') {
      parts.push('-X POST');
    }
    return element('pre', {}, element('code', {}, parts.join(' \\\n  ')));
  }

  responses(operation) {
    const entries = Object.entries(operation.responses);
    const good = this.resolve(operation.responses[200]);
    const problems = entries.filter(([status]) => status !== '200').map(([status, response]) =>
      element('tr', {}, element('td', { class: 'name' }, element('code', {}, status)),
        element('td', {}, this.resolve(response).description)));
    return [
      element('h3', {}, '200'), element('p', {}, good.description), ...this.content(good.content),
      element('h3', {}, 'Problems'), this.table(problems),
    ];
  }

  operation(entry) {
    const { path, method, operation, others } = entry;
    const body = this.resolve(operation.requestBody);
    const scope = operation['x-scope'];
    const searched = [path, method, operation.operationId, operation.summary,
      operation.description].join(' ').toLowerCase();
    const drawn = element('details',
      { class: 'operation', id: operation.operationId, 'data-text': searched },
      element('summary', {},
        element('span', { class: `method ${method}` }, method.toUpperCase()),
        element('code', {}, path), element('span', { class: 'what' }, operation.summary)));
    // Drawn when it is opened: the whole page would be long.
    drawn.addEventListener('toggle', () => drawn.append(element('div', {},
      operation.description ? element('p', {}, ...prose(operation.description)) : null,
      element('p', { class: 'scope' }, scope ? `Needs a token with the scope ${scope}.` :
        'Needs no token.'),
      others.length > 0 ? element('p', { class: 'note' }, 'Also: ', others.join(', ')) : null,
      this.curl(entry), ...this.parameters(operation),
      ...(body ? [element('h3', {}, 'Body'), ...this.content(body.content)] : []),
      ...this.responses(operation))), { once: true });
    return drawn;
  }

  draw() {
    const { info, tags } = this.api;
    document.getElementById('title').append(' ', element('small', {}, info.version));
    document.getElementById('description').append(info.description);
    const all = this.operations();
    const main = document.getElementById('operations');
    const contents = document.getElementById('contents');
    for (const tag of tags) {
      const entries = all.filter(({ operation }) => operation.tags.includes(tag.name));
      main.append(element('section', {}, element('h2', {}, tag.name),
        element('p', {}, tag.description), ...entries.map((entry) => this.operation(entry))));
      contents.append(element('strong', {}, tag.name), element('ul', {},
        ...entries.map(({ operation }) => element('li', {},
          element('a', { href: `#${operation.operationId}` }, operation.summary)))));
    }
  }
}

function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named && named.tagName === 'DETAILS') {
    named.open = true;
    named.scrollIntoView();
  }
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  for (const section of document.querySelectorAll('section')) {
    let found = false;
    for (const operation of section.querySelectorAll('.operation')) {
      operation.hidden = !operation.dataset.text.includes(wanted);
      found = found || !operation.hidden;
    }
    section.hidden = !found;
  }
}

async function start() {
  try {
    const answer = await fetch('openapi.json');
    new Page(await answer.json()).draw();
    openNamed();
  } catch (error) {
    document.getElementById('operations').append(
      element('p', {}, `openapi.json cannot be read: ${error.message}`));
  }
}

window.addEventListener('hashchange', openNamed);
document.getElementById('search').addEventListener('input', (event) => search(event.target.value));
start();
