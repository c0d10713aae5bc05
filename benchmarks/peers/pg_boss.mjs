// pg-boss with its batches: insert, and two loops of fetch and complete, 500 jobs each, which is
// faster than its own workers, because those poll. Deduplication is an id of each job.

import { randomUUID } from "node:crypto";

import { PgBoss } from "pg-boss";

import { inBatches, measure, options, payload } from "./bench_peer.mjs";

const queue = "bench";
const loops = 2;
const batchSize = 500;

const boss = new PgBoss({
  connectionString: options.url,
  max: 32,
  supervise: false,
  schedule: false,
});
boss.on("error", (error) => console.error(String(error)));
await boss.start();
await boss.createQueue(queue);

const enqueue = (count, withIds) =>
  inBatches(count, options.batch, (first, size) =>
    boss.insert(
      queue,
      Array.from({ length: size }, () => ({
        data: payload,
        ...(withIds ? { id: randomUUID() } : {}),
      })),
    ),
  );

async function drain() {
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch(queue, { batchSize });
      if (jobs.length === 0) return;
      await boss.complete(
        queue,
        jobs.map((job) => job.id),
      );
    }
  };
  await Promise.all(Array.from({ length: loops }, loop));
}

await enqueue(2 * options.batch, false); // warms up
await drain();

await measure("enqueue", options.count, () => enqueue(options.count, false));
await measure("drain", options.count, drain);
await measure("enqueue-dedupe", options.count, () => enqueue(options.count, true));

await boss.stop({ graceful: false });
process.exit(0);
