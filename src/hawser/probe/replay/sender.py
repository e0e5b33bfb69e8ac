"""Sends the frames of a file at their times: a program that runs on a node of a lab.

    python -m hawser.probe.replay.sender file interface --begin ns --zero ns --speed x

It prints its counters as JSON at its end.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from hawser.probe.attacks.packets import records

_SECOND_NS: Final = 1_000_000_000
_SENT_BYTES: Final = 4 << 20
"""Room for frames that the interface has not taken yet."""


def send_all(
    frames: Iterable[tuple[int, bytes]],
    send: Callable[[bytes], object],
    due: Callable[[int], int],
) -> dict[str, float]:
    """Send each frame when it is due; give what was sent, and how late.

    Args:
        frames: time in the recording, nanoseconds, and content.
        send: sends one, or raises OSError.
        due: when to send by the monotonic clock, nanoseconds, by time in the recording.
    """
    late: list[int] = []
    unsent = 0
    for recorded_ns, frame in frames:
        moment = due(recorded_ns)
        while (now := time.monotonic_ns()) < moment:
            time.sleep((moment - now) / _SECOND_NS)
        try:
            send(frame)
        except OSError:  # larger than the MTU, or the interface is down
            unsent += 1
        else:
            late.append(now - moment)
    late.sort()
    p99 = late[int(0.99 * (len(late) - 1))] / 1e6 if late else 0.0
    return {"sent": len(late), "unsent": unsent, "lateness_p99_ms": p99}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("interface")
    parser.add_argument("--begin", type=int, required=True)
    parser.add_argument("--zero", type=int, required=True)
    parser.add_argument("--speed", type=float, required=True)
    asked = parser.parse_args()
    content = asked.file.read_bytes()
    frames = [(each.time_ns, content[each.at : each.end]) for each in records(content)]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind((asked.interface, 0))
        out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_BYTES)
        done = send_all(
            frames, out.send, lambda at: asked.begin + round((at - asked.zero) / asked.speed)
        )
    sys.stdout.write(f"{json.dumps(done)}\n")


if __name__ == "__main__":
    main()
