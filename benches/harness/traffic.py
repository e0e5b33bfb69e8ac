"""Traffic between two namespaces: iperf3 and ping."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.bench import SampleError
from harness.lab import Daemon, Namespace, until
from harness.usage import cpu_time, memory_mib

_WARM_UP_S = 1


@dataclass(frozen=True)
class Transfer:
    """A TCP transfer.

    Attributes:
        goodput: Gbit/s of payload at the receiver, without the warm-up.
        machine_cpu: CPU seconds per Gbit of the whole machine (both ends, with iperf3).
        daemon_cpu: CPU seconds per Gbit of the tunnel's daemons.
        memory: peak resident memory of the largest daemon, MiB; 0 if there is no daemon.
    """

    goodput: float
    machine_cpu: float
    daemon_cpu: float
    memory: float


def tcp(
    client: Namespace,
    server: Namespace,
    address: str,
    *,
    streams: int,
    seconds: int,
    daemons: Sequence[Daemon],
) -> Transfer:
    """Send TCP streams from `client` to `address` on `server`.

    Raises:
        SampleError: iperf3 or one of the daemons failed.
    """
    running = start_tcp(client, server, address, streams=streams, seconds=seconds)
    pids = [daemon.pid for daemon in daemons]
    time.sleep(_WARM_UP_S)
    before, start = cpu_time(pids), time.monotonic()
    time.sleep(seconds)
    used, passed = cpu_time(pids) - before, time.monotonic() - start
    goodput = iperf_goodput(running.wait(timeout=20))
    return Transfer(
        goodput=goodput,
        machine_cpu=used.machine / passed / goodput,
        daemon_cpu=used.processes / passed / goodput,
        memory=max((memory_mib(pid, peak=True) for pid in pids), default=0),
    )


def start_tcp(
    client: Namespace, server: Namespace, address: str, *, streams: int, seconds: int
) -> Daemon:
    """Start TCP streams; `iperf_goodput` reads the result from the client's output.

    They run for one second of warm-up, which is not counted, and then for `seconds`.
    """
    listener = server.start(["iperf3", "--server", "--one-off", "--bind", address])
    until(lambda: "LISTEN" in server.run(["ss", "-tln", "sport = :5201"]), "iperf3 listens")
    if not listener.running():
        raise SampleError(f"iperf3: {listener.said()}")
    options = ["--parallel", str(streams), "--time", str(seconds), "--omit", str(_WARM_UP_S)]
    return client.start(["iperf3", "--client", address, "--json", *options])


def iperf_goodput(output: str) -> float:
    """Read the receiver's Gbit/s, summed over all streams, from an iperf3 client's JSON.

    Raises:
        SampleError: iperf3 reports an error, or nothing was received.
    """
    try:
        report = json.loads(output)
        if "error" in report:
            raise SampleError(f"iperf3: {report['error']}")
        goodput = float(report["end"]["sum_received"]["bits_per_second"]) / 1e9
    except (ValueError, KeyError, TypeError) as wrong:
        raise SampleError(f"iperf3 wrote what is no report: {wrong}") from wrong
    if goodput <= 0:
        raise SampleError("iperf3: nothing was received")
    return goodput


def echo(client: Namespace, address: str, *, count: int) -> list[float]:
    """Round-trip times of `count` pings, 10 ms apart, in microseconds.

    Twenty more pings are sent first as a warm-up and are not counted.

    Raises:
        SampleError: some pings were not answered.
    """
    warm_up = 20
    asked = count + warm_up
    command = ["ping", "-n", "-i", "0.01", "-c", str(asked), "-W", "1", address]
    times = echo_times(client.run(command, timeout=asked * 0.01 * 2 + 10))
    if len(times) != asked:
        raise SampleError(f"{asked - len(times)} of {asked} pings were not answered")
    return times[warm_up:]


def echo_times(output: str) -> list[float]:
    """Read the round-trip times in microseconds from the output of ping."""
    return [float(ms) * 1000 for ms in re.findall(r" time=([\d.]+) ms", output)]


def reachable(client: Namespace, address: str) -> bool:
    """Whether a ping is answered within 200 ms."""
    try:
        client.run(["ping", "-n", "-c", "1", "-W", "0.2", address])
    except SampleError:
        return False
    return True
