"""What programs would print on a network that carries exactly what is asked of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

RATE = 8e6
"""Bits a second that every stream gets."""
RTT_MS = 12.5
REQUESTS = 1000


@dataclass
class Network:
    """What programs on different nodes know of each other."""

    listening: set[int] = field(default_factory=set)
    served: dict[int, str] = field(default_factory=dict)
    """Report of each server whose client is done, by port."""

    def listen(self, command: Sequence[str], files: Mapping[Path, bytes]) -> int:
        """Start a server, `iperf3 -s` or nginx; its port."""
        if "nginx" in command:
            config = files[Path(command[command.index("-p") + 1]) / "nginx.conf"].decode()
            found = re.search(r"listen [\d.]+:(\d+)", config)
            assert found is not None
            port = int(found[1])
        else:
            port = int(command[command.index("-p") + 1])
        self.listening.add(port)
        self.served.pop(port, None)
        return port

    def iperf3(self, words: list[str]) -> str:
        """Report of a client; its server then has one too."""
        options = _options(words)
        port = int(options["-p"])
        self.served[port] = _report(options, udp="-u" in words)
        return self.served[port]


def _options(words: list[str]) -> dict[str, str]:
    return {name: value for name, value in pairwise(words) if name[0] == "-"}


def _report(options: Mapping[str, str], *, udp: bool) -> str:
    seconds, warmup, streams = (int(options[name]) for name in ("-t", "-O", "-P"))
    intervals = [
        {"sum": _counts(at, 1, streams, udp=udp) | {"omitted": at < warmup}, "streams": []}
        for at in range(warmup + seconds)
    ]
    whole = _counts(0, seconds, streams, udp=udp)
    each = _counts(0, seconds, 1, udp=udp)
    stream = {"udp": each} if udp else {"receiver": each}
    end = {"sum_sent": whole, "sum_received": whole, "streams": [stream] * streams}
    return json.dumps({"start": {"cookie": "dry"}, "intervals": intervals, "end": end})


def _counts(start: int, seconds: int, streams: int, *, udp: bool) -> dict[str, Any]:
    size = int(RATE / 8 * seconds * streams)
    counts: dict[str, Any] = {
        "start": start,
        "end": start + seconds,
        "seconds": seconds,
        "bytes": size,
        "bits_per_second": 8 * size / seconds,
    }
    if udp:
        return counts | {"packets": size // 1000, "lost_packets": 0, "jitter_ms": 0.0}
    return counts | {"retransmits": 0}


def ping(words: list[str]) -> str:
    """Every echo is answered after the same time."""
    count = int(_options(words)["-c"])
    echoes = "".join(
        f"[{seq}.0] 64 bytes from {words[-1]}: icmp_seq={seq} ttl=64 time={RTT_MS} ms\n"
        for seq in range(1, count + 1)
    )
    return f"{echoes}\n{count} packets transmitted, {count} received, 0% packet loss\n"


def wrk(words: list[str]) -> str:
    """So many requests a second, none wrong."""
    seconds = int(_options(words)["--duration"].removesuffix("s"))
    return json.dumps(
        {
            "duration_us": seconds * 1_000_000,
            "requests": seconds * REQUESTS,
            "bytes": seconds * REQUESTS * 1000,
            "latency_us": {"p50": 100, "p90": 200, "p99": 300, "p999": 350, "max": 400},
            "errors": dict.fromkeys(("connect", "read", "write", "status", "timeout"), 0),
        }
    )
