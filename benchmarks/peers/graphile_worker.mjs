// graphile-worker with its batches: addJobs, and a local queue of 500 jobs whose completions are
// written together. Deduplication is a job key of each job.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { inBatches, measure, options, payload } from "./bench_peer.mjs";

const concurrentJobs = 24;
const logger = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString: options.url, max: concurrentJobs + 1 });
const ignore = () => {};
pool.on("error", ignore);
pool.on("connect", (client) => client.on("error", ignore));
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

const jobs = "graphile_worker._private_jobs";

async function jobsLeft() {
  return Number((await pool.query(`select count(*) from ${jobs}`)).rows[0].count);
}

async function empty() {
  await pool.query(`truncate ${jobs}`);
}

const enqueue = (count, withKeys) =>
  inBatches(count, options.batch, (first, size) =>
    utils.addJobs(
      Array.from({ length: size }, (_, i) => ({
        identifier: "noop",
        payload,
        ...(withKeys ? { jobKey: `msg-${first + i}`, jobKeyMode: "unsafe_dedupe" } : {}),
      })),
    ),
  );

// Until every job is gone from the table.
async function drain(count) {
  let handled = 0;
  let allHandled;
  const finished = new Promise((resolve) => (allHandled = resolve));
  const runner = await run({
    preset: {
      worker: {
        concurrentJobs,
        maxPoolSize: concurrentJobs + 1,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    pgPool: pool,
    logger,
    noHandleSignals: true,
    taskList: {
      noop: async () => {
        if (++handled === count) allHandled();
      },
    },
  });
  await finished;
  while ((await jobsLeft()) > 0) await new Promise((resolve) => setTimeout(resolve, 2));
  return runner;
}

await enqueue(2 * options.batch, false); // warms up
await (await drain(2 * options.batch)).stop();

await empty();
await measure("enqueue", options.count, () => enqueue(options.count, false));
await pool.query(`vacuum analyze ${jobs}`);
let runner;
await measure("drain", options.count, async () => (runner = await drain(options.count)));
await runner.stop();

await empty();
await measure("enqueue-dedupe", options.count, () => enqueue(options.count, true));

// From the call to the first line of the handler, one job at a time.
async function latency(samples) {
  let handled;
  const times = [];
  const runner = await run({
    preset: { worker: { concurrentJobs: 1, maxPoolSize: 5 } },
    pgPool: pool,
    logger,
    noHandleSignals: true,
    taskList: { noop: async () => handled() },
  });
  const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  await pause(300);
  for (let i = 0; i < samples; ++i) {
    await pause(3);
    const done = new Promise((resolve) => (handled = resolve));
    const started = performance.now();
    await utils.addJob("noop", payload);
    await done;
    times.push((performance.now() - started) * 1000);
  }
  await runner.stop();
  times.sort((a, b) => a - b);
  console.log(`enqueue-to-handler/pause=3ms/p50 ${times[samples >> 1].toFixed(1)}`);
}

await empty();
await latency(200);

await utils.release();
await pool.end();
process.exit(0);
