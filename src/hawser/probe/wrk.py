"""wrk's result: a script makes it print JSON, and this reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hawser.probe.base import ProbeError

_LATENCIES = ("p50", "p90", "p99", "p999", "max")

_PRINT = """\
-- Prints the result as one line of JSON on standard error.
local function report(summary, us, unsent)
  local errors = summary.errors
  io.stderr:write(string.format(
    '{"duration_us": %d, "requests": %d, "bytes": %d, '
      .. '"latency_us": {"p50": %d, "p90": %d, "p99": %d, "p999": %d, "max": %d}, '
      .. '"errors": {"connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d}, '
      .. '"unsent": %d}\\n',
    summary.duration, summary.requests, summary.bytes,
    us(50), us(90), us(99), us(99.9), us(100),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout, unsent))
end
"""

CLOSED_LOOP = (
    _PRINT
    + """
function done(summary, latency, requests)
  report(summary, function(p) return p == 100 and latency.max or latency:percentile(p) end, 0)
end
"""
)
"""Every connection sends its next request after the response."""

_OPEN_LOOP = (
    _PRINT
    + """
-- Requests are due at a rate. A connection that is free takes the next one, waits until it is due,
-- and sends the time from which its latency counts, which the server returns: when it was due, or,
-- because timers have milliseconds, when it was sent, if that was earlier.
local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long tv_sec; long tv_nsec; } hawser_time;
  int clock_gettime(int clock, hawser_time *time);
]]
local time, gap = ffi.new("hawser_time"), 1e6 * THREADS / RATE
local due, first, last = {}, 1, 0
next_due, counts = 0, {}

local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.tv_sec) * 1e6 + tonumber(time.tv_nsec) / 1e3
end

local threads = {}
function setup(thread)
  thread:set("number", #threads)
  table.insert(threads, thread)
end

function delay()
  if next_due == 0 then next_due = now() + gap * number / THREADS end
  last = last + 1
  due[last] = next_due
  next_due = next_due + gap
  return math.max(0, math.floor((due[last] - now()) / 1000))
end

function request()
  local sent = now()
  local from = due[first] and math.min(due[first], sent) or sent
  if due[first] then due[first], first = nil, first + 1 end
  return wrk.format("GET", nil, {["X-Due"] = string.format("%.3f", from)})
end

-- Latencies in steps of 1 %.
function response(status, headers, body)
  local us = math.max(1, now() - tonumber(headers["X-Due"] or now()))
  local step = math.floor(100 * math.log(us))
  counts[step] = (counts[step] or 0) + 1
  ended = now()
end

function done(summary, latency, requests)
  local steps, all, total, unsent = {}, {}, 0, 0
  for _, thread in ipairs(threads) do
    for step, n in pairs(thread:get("counts")) do
      if not all[step] then table.insert(steps, step) end
      all[step], total = (all[step] or 0) + n, total + n
    end
    local behind = (thread:get("ended") or 0) - thread:get("next_due")
    unsent = unsent + math.max(0, math.floor(behind / gap))
  end
  table.sort(steps)
  report(summary, function(p)
    local left = math.max(1, math.ceil(total * p / 100))
    for _, step in ipairs(steps) do
      left = left - all[step]
      if left <= 0 then return math.exp((step + 0.5) / 100) end
    end
    return 0
  end, unsent)
end
"""
)


def open_loop(rate: float, threads: int) -> str:
    """A script that sends so many requests a second, from all threads together.

    wrk2, which does so, is no package anywhere and does not build with a present LuaJIT. Latency
    counts from when a request was due, so that requests that wait for a slow server's connections
    count as slow (G. Tene, How not to measure latency, 2013).
    """
    return f"local RATE, THREADS = {rate!r}, {threads}\n" + _OPEN_LOOP


@dataclass(frozen=True)
class Result:
    """What wrk counted."""

    seconds: float
    requests: int
    """Answers that came whole."""
    latency_ms: dict[str, float]
    """From sending, or in an open loop from when it was due, to the answer: `p50` ..., `max`."""
    unsent: int
    """Requests that were due, but that no connection was free to send; in an open loop."""
    errors: dict[str, int]
    """By kind: `connect`, `read`, `write`, `status` (not 2xx or 3xx), `timeout`."""


def parse(text: str) -> Result:
    """Read what the script printed.

    Raises:
        ProbeError: it is cut off, or is no result.
    """
    try:
        document = json.loads(text.strip().splitlines()[-1])
        latency = {name: document["latency_us"][name] / 1000 for name in _LATENCIES}
        errors = {name: int(count) for name, count in document["errors"].items()}
        seconds = document["duration_us"] / 1e6
        unsent = int(document.get("unsent", 0))
        return Result(seconds, int(document["requests"]), latency, unsent, errors)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ProbeError(f"wrk left no readable result: {text.strip()[-200:]!r}") from error
