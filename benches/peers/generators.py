"""Generators that send 60-byte frames as fast as they can, and the counter at the far end.

A generator gets its duration in seconds or in frames, and runs on one core if it can.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.bench import SampleError
from harness.lab import Lab, Namespace, until
from harness.obtain import PEERS, Program, UnavailableError

CORE = max(os.sched_getaffinity(0))
"""Core of the senders: the last one, because interrupts tend to go to the first."""

_SOURCE = Path(__file__).with_name("live_frames.c")
_PIN = ("taskset", "-c", str(CORE))


@dataclass(frozen=True)
class LiveFrames:
    """The program `live_frames`: the counter at the far end, and also the bare generator."""

    program: str
    object: str

    @contextlib.contextmanager
    def counting(self, namespace: Namespace, port: str) -> Iterator[Callable[[], int]]:
        """Count and drop all frames at a port. Call the yielded function once for the count."""
        daemon = namespace.start([self.program, self.object, "count", port])
        until(lambda: "ready" in daemon.said(), "the counter is ready", daemons=[daemon])

        def end() -> int:
            os.kill(daemon.pid, signal.SIGTERM)
            return int(daemon.wait(10).split()[-1])

        yield end


def live_frames() -> LiveFrames:
    """Compile the program `live_frames`.

    Raises:
        UnavailableError: there is no compiler, or no libbpf.
    """
    made, program = PEERS / "live_frames.o", PEERS / "bin" / "live_frames"
    program.parent.mkdir(parents=True, exist_ok=True)
    headers = f"/usr/include/{os.uname().machine}-linux-gnu"
    bpf = ["clang", "-target", "bpf", "-O2", "-g", "-idirafter", headers, "-c"]
    _compile([*bpf, str(_SOURCE.with_suffix(".bpf.c")), "-o", str(made)])
    _compile(["cc", "-O2", str(_SOURCE), "-o", str(program), "-lbpf", "-lelf", "-lz"])
    return LiveFrames(str(program), str(made))


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        raise UnavailableError(f"{command[0]} is not installed") from None
    if done.returncode:
        raise UnavailableError(f"{command[0]} failed: {done.stderr.strip().splitlines()[-1]}")


Frames = Mapping[str, float]
"""`received`: million frames per second that arrived; `lost`: percent of sent."""


def bare(live: LiveFrames, frames: int) -> Frames:
    """XDP live frames without content, sent to the counter."""
    with Lab() as lab:
        a, b = lab.pair()
        with live.counting(b, "wan0") as end:
            words = [*_PIN, live.program, live.object, "send", "wan0", str(frames)]
            seconds = float(a.run(words, timeout=60).split()[-1])
            time.sleep(0.2)
            received = end()
    return {"received": received / seconds / 1e6, "lost": 100 * (1 - received / frames)}


def iperf3_udp(seconds: int) -> Frames:
    """One iperf3 UDP stream of 18-byte datagrams."""
    with Lab() as lab:
        a, b = lab.pair()
        server = b.start(["iperf3", "-s", "-1", "-J"])
        until(lambda: ":5201" in b.run(["ss", "-Hltn"]), "iperf3 listens", daemons=[server])
        client = ["iperf3", "-c", "198.18.0.2", "-u", "-b", "0", "-l", "18", "-t", str(seconds)]
        a.run([*_PIN, *client], timeout=seconds + 20)
        total = json.loads(server.wait(20))["end"]["sum"]
    received = total["packets"] - total["lost_packets"]
    return {"received": received / total["seconds"] / 1e6, "lost": total["lost_percent"]}


def trafgen(program: Program, live: LiveFrames, seconds: int) -> Frames:
    """Generator of netsniff-ng: one process with a memory-mapped ring."""
    frame = "{ eth(da=02:00:00:00:00:02), ipv4(da=198.18.0.2), udp(dp=9), fill(0, 18) }"
    return _for_seconds(
        live, lambda a: [*_PIN, program.path, "--dev", "wan0", "--cpus", "1", frame], seconds
    )


def testpmd(program: Program, live: LiveFrames, seconds: int) -> Frames:
    """DPDK's testpmd with the AF_PACKET driver: one core sends, another waits."""

    def command(a: Namespace) -> list[str]:
        return [
            program.path, "--no-huge", "--no-pci", "-m", "256", "-l", f"0,{CORE}",
            "--no-telemetry", f"--file-prefix={a.name}", "--vdev=net_af_packet0,iface=wan0",
            "--", "--forward-mode=txonly", "--txpkts=60", "--auto-start", "--stats-period=1",
            "--total-num-mbufs=8192",
        ]  # fmt: skip

    return _for_seconds(live, command, seconds)


def _for_seconds(
    live: LiveFrames, command: Callable[[Namespace], list[str]], seconds: int
) -> Frames:
    """Let a program send until it is stopped. Its sent count is unknown, so no loss is reported."""
    with Lab() as lab:
        a, b = lab.pair()
        _settle_route(a)
        with live.counting(b, "wan0") as end:
            sender = a.start(command(a))
            time.sleep(2)  # startup time of the program
            before, begin = _received(b), time.monotonic()
            time.sleep(seconds)
            after, length = _received(b), time.monotonic() - begin
            if not sender.running():
                raise SampleError(f"it ended: {sender.said()}")
            sender.stop()
            end()
    return {"received": (after - before) / length / 1e6}


def _settle_route(a: Namespace) -> None:
    a.ip("neighbour", "replace", "198.18.0.2", "lladdr", "02:00:00:00:00:02", "dev", "wan0")


def _received(namespace: Namespace) -> int:
    statistics = json.loads(namespace.ip("-j", "-s", "link", "show", "wan0"))[0]["stats64"]
    return int(statistics["rx"]["packets"])
