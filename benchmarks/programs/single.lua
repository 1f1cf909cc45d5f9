-- One event a request, each with an id of its own. Arguments: a file of event texts with @ in the place of the id, and
-- eight hexadecimal digits that no other call has used. Tells requests, microseconds and failures as JSON at the end.

local heads, tails = {}, {}
local headers = { ["Content-Type"] = "application/cloudevents+json" }
local refused = 0
local sent = 0
local thread_number = 0

function setup(thread)
   thread:set("number", thread_number)
   thread_number = thread_number + 1
end

function init(args)
   for line in io.lines(args[1]) do
      local head, tail = line:match("^([^@]*)@([^@]*)$")
      heads[#heads + 1], tails[#tails + 1] = head, tail
   end
   seed = args[2]
end

function request()
   sent = sent + 1
   local which = sent % #heads + 1
   local id = string.format("%s-%04x-7000-8000-%012x", seed, number, sent)
   return wrk.format("POST", nil, headers, heads[which] .. id .. tails[which])
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '{"requests":%d,"duration_us":%d,"failed":%d,"p50_us":%d,"p99_us":%d}\n', summary.requests, summary.duration,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout, latency:percentile(50),
      latency:percentile(99)))
end
