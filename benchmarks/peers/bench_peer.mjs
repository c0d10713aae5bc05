// What the scripts of the peers share: the same messages as the other benchmarks have, and one line
// "<figure> <operations per second>" for each thing that was measured; a time is in microseconds.

export const payload = {
  type: "payment.received",
  id: "evt_0123456789abcdef",
  amount: 12345,
  currency: "EUR",
  customer: "cus_0123456789",
  created: 1763222222,
  livemode: false,
  note: "a payload of about two hundred bytes",
};

// usage: node <peer>.mjs URL COUNT BATCH
const [url, count, batch] = process.argv.slice(2);
export const options = { url, count: Number(count), batch: Number(batch) };
if (!url || !(options.count > 0) || !(options.batch > 0)) {
  console.error("usage: node <peer>.mjs URL COUNT BATCH");
  process.exit(2);
}

// Runs `work` and prints how many of `operations` it did in a second.
export async function measure(figure, operations, work) {
  const started = performance.now();
  await work();
  const seconds = (performance.now() - started) / 1000;
  console.log(`${figure} ${(operations / seconds).toFixed(1)}`);
}

// Calls `enqueue(first, size)` for one batch after the other.
export async function inBatches(count, batch, enqueue) {
  for (let first = 0; first < count; first += batch) {
    await enqueue(first, Math.min(batch, count - first));
  }
}
