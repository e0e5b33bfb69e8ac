"""wrk's result: a script makes it print JSON, and this reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hawser.probe.base import ProbeError

SCRIPT = """\
-- Prints the result as one line of JSON on standard error.
function done(summary, latency, requests)
  local errors = summary.errors
  io.stderr:write(string.format(
    '{"duration_us": %d, "requests": %d, "bytes": %d, '
      .. '"latency_us": {"p50": %d, "p90": %d, "p99": %d, "max": %d}, '
      .. '"errors": {"connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d}}\\n',
    summary.duration, summary.requests, summary.bytes,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max,
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
"""


@dataclass(frozen=True)
class Result:
    """What wrk counted."""

    seconds: float
    requests: int
    """Answers that came whole."""
    latency_ms: dict[str, float]
    """From a request's sending to the end of its answer: `p50`, `p90`, `p99`, `max`."""
    errors: dict[str, int]
    """By kind: `connect`, `read`, `write`, `status` (not 2xx or 3xx), `timeout`."""


def parse(text: str) -> Result:
    """Read what the script printed.

    Raises:
        ProbeError: it is cut off, or is no result.
    """
    try:
        document = json.loads(text.strip().splitlines()[-1])
        latency = {name: us / 1000 for name, us in document["latency_us"].items()}
        errors = {name: int(count) for name, count in document["errors"].items()}
        seconds = document["duration_us"] / 1e6
        return Result(seconds, int(document["requests"]), latency, errors)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ProbeError(f"wrk left no readable result: {text.strip()[-200:]!r}") from error
