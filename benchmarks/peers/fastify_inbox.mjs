// The endpoint that one writes with fastify: a message a request, a transaction a message, a
// duplicate recognised by its key, answered when it is on the disk.
//
//   node fastify_inbox.mjs sqlite FILE | postgresql URL
//
// Prints the port once it listens.
import Fastify from "fastify";

const [kind, place] = process.argv.slice(2);

async function sqliteInbox(file) {
  const { default: Database } = await import("better-sqlite3");
  const database = new Database(file);
  database.pragma("journal_mode=WAL");
  database.pragma("synchronous=FULL");
  database.exec(`
    CREATE TABLE inbox(source TEXT NOT NULL, message_id TEXT NOT NULL, topic TEXT NOT NULL,
      payload TEXT NOT NULL, status INT NOT NULL, due INT NOT NULL,
      PRIMARY KEY(source, message_id));
    CREATE INDEX ready ON inbox(due) WHERE status = 1`);
  const insert = database.prepare(
    "INSERT INTO inbox VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING");
  return async (message) => {
    const { source, messageId, topic, payload } = message;
    return insert.run(source, messageId, topic, JSON.stringify(payload), Date.now()).changes === 1;
  };
}

async function postgresqlInbox(url) {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ connectionString: url, max: 20 });
  await pool.query(`
    CREATE TABLE inbox(source text NOT NULL, message_id text NOT NULL, topic text NOT NULL,
      payload text NOT NULL, status int NOT NULL DEFAULT 1, due timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY(source, message_id));
    CREATE INDEX ready ON inbox(due) WHERE status = 1`);
  const text = `INSERT INTO inbox(source, message_id, topic, payload) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING`;
  return async (message) => {
    const { source, messageId, topic, payload } = message;
    const values = [source, messageId, topic, JSON.stringify(payload)];
    return (await pool.query({ name: "insert", text, values })).rowCount === 1;
  };
}

const store = await (kind === "sqlite" ? sqliteInbox(place) : postgresqlInbox(place));
const app = Fastify();
app.post("/v1/messages", async (request, reply) => {
  const isNew = await store(request.body);
  reply.code(isNew ? 202 : 200);
  return { status: isNew ? "Accepted" : "Duplicate" };
});
await app.listen({ port: 0, host: "127.0.0.1" });
console.log(app.server.address().port);
