-- For wrk: posts the JSON of a file again and again, and prints what came of it as JSON.
--   wrk ... -s serve_request.lua <url> -- <file> [<file with the answer that each request must get>]
-- Comparing every answer costs wrk about as much as all the rest, so that it is only for counting failures.

local threads = {}

function setup(thread) table.insert(threads, thread) end

local function content(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function init(args)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.body = content(args[1])
  wrong = 0
  if args[2] then
    local wanted = content(args[2])
    response = function(status, headers, body)
      if status ~= 200 or body ~= wanted then wrong = wrong + 1 end
    end
  end
end

function done(summary, latency, requests)
  local wrong = 0
  for _, thread in ipairs(threads) do wrong = wrong + thread:get("wrong") end
  local errors = summary.errors
  print(string.format('{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "socket_errors": %d, ' ..
                      '"timeouts": %d, "not_ok": %d, "wrong": %d}',
                      summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
                      latency:percentile(99) / 1e3, errors.connect + errors.read + errors.write, errors.timeout,
                      errors.status, wrong))
end
