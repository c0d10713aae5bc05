-- For wrk with as many threads as connections, so that each connection knows its last answer:
-- try-begin for a new key, then mark-processed with the lease that it got. A pair is two requests.

local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

local begun = 0
local key, lease

function init()
  math.randomseed(os.time() + number)
  run = math.random(1, 1000000000)
end

local function post(path, body)
  return wrk.format("POST", path, { ["Content-Type"] = "application/json" }, body)
end

function request()
  if lease then
    local body = string.format('{"key":"%s","leaseId":"%s"}', key, lease)
    lease = nil
    return post("/v1/inbox/mark-processed", body)
  end
  begun = begun + 1
  key = string.format("bus:orders:%d-%d:%d", number, run, begun)
  return post("/v1/inbox/try-begin", string.format('{"key":"%s"}', key))
end

function response(status, headers, body)
  lease = string.match(body, '"leaseId":%s*"([^"]+)"')
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("rate=%.1f p50=%d p99=%d failed=%d\n",
    summary.requests / 2 / (summary.duration / 1e6), latency:percentile(50),
    latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
