-- For wrk: every request brings one new message of about 200 bytes.

local made = 0

function init()
  math.randomseed(os.time())
  run = math.random(1, 1000000000)
end

function request()
  made = made + 1
  local body = string.format(
    '{"source":"stripe","messageId":"evt-%d-%d","topic":"payment.received","payload":' ..
      '{"type":"payment.received","amount":12345,"currency":"EUR","customer":"cus_0123456789",' ..
      '"note":"about two hundred bytes"}}', run, made)
  return wrk.format("POST", "/v1/messages", { ["Content-Type"] = "application/json" }, body)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("rate=%.1f p50=%d p99=%d failed=%d\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
