"""Goodput by iperf3 with TCP, UDP, or Multipath TCP between the hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hawser.node.base import NodeError, Process
from hawser.probe import iperf3_result, mptcp, nstat
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import Endpoint, endpoints
from hawser.probe.port import choosing, until_listening, wait
from hawser.spec.measurement import Iperf3, Protocol
from hawser.store.sample import Sample

_CONNECT_SECONDS = 10
_GRACE_SECONDS = 20
"""Time that iperf3 may take beyond its test, for connecting and for draining queues."""


class Iperf3Probe:
    """One test, with a server for one client, on a free port."""

    def __init__(self, spec: Iperf3, sleep: Callable[[float], None] = time.sleep) -> None:
        self._spec = spec
        self._sleep = sleep

    def measure(self, context: Context) -> list[Sample]:
        """Run one test.

        Raises:
            ProbeError: it did not come about, was cut short, or its counts contradict each other.
        """
        try:
            return self._measure(context)
        except (NodeError, ProbeError) as error:
            place = f"iperf3 {self._spec.source} -> {self._spec.target}"
            raise ProbeError(f"{place}: {error}") from error

    def _measure(self, context: Context) -> list[Sample]:
        source, target = endpoints(context.lab, self._spec)
        stem = context.raw / context.measurement
        with self._server(target, Path(f"{stem}.iperf3-server.json")) as (port, finish):
            before = mptcp.counters(source.node) if self._multipath else None
            context.started()
            done = source.node.run(
                self._client(source, target, port),
                timeout=self.seconds() + _GRACE_SECONDS,
                check=False,
            )
            Path(f"{stem}.iperf3.json").write_text(done.stdout, encoding="utf-8")
            client = iperf3_result.parse("client", done.stdout)
            server = iperf3_result.parse("server", finish())
        if before is not None:
            used = nstat.since(before, mptcp.counters(source.node))
            mptcp.require(used, connections=1 + self._spec.streams)
        result = iperf3_result.pair(self._spec, client, server, disrupted=context.disrupted)
        return iperf3_result.samples(context.measurement, self._spec, result)

    @contextmanager
    def _server(self, target: Endpoint, raw: Path) -> Iterator[tuple[int, Callable[[], str]]]:
        """A listening server: its port, and a function that waits for its report."""
        with choosing(target.node) as port:
            process = self._listen(target, port)

        def finish() -> str:
            wait(lambda: not process.running(), self._sleep)
            done = process.stop()
            raw.write_text(done.stdout, encoding="utf-8")
            return done.stdout

        try:
            yield port, finish
        finally:
            process.stop()

    def _listen(self, target: Endpoint, port: int) -> Process:
        """Start a server and wait until it takes connections."""
        command = ["iperf3", "-s", "-1", "-J", "-i", self._interval, "-p", str(port)]
        if not self._multipath:  # subflows also join by the server's other addresses
            command += ["-B", target.address]
        process = target.node.start(self._prefix + command)
        try:
            until_listening(target.node, process, port, self._sleep)
        except BaseException:
            process.stop()
            raise
        return process

    def _client(self, source: Endpoint, target: Endpoint, port: int) -> list[str]:
        spec = self._spec
        command = [
            "iperf3", "-c", target.address, "-B", source.address, "-p", str(port), "-J",
            "-i", self._interval,
            "--connect-timeout", str(1000 * _CONNECT_SECONDS),
            "-t", str(round(spec.duration)),
            "-O", str(round(spec.warmup)),
            "-P", str(spec.streams),
        ]  # fmt: skip
        if spec.protocol is Protocol.UDP:
            command.append("-u")
        if spec.reverse:
            command.append("-R")
        if spec.rate is not None:
            command += ["-b", str(round(spec.rate / spec.streams))]  # iperf3 counts it a stream
        if spec.length is not None:
            command += ["-l", str(round(spec.length))]
        if spec.congestion is not None:
            command += ["-C", spec.congestion]
        return self._prefix + command

    @property
    def _interval(self) -> str:
        return f"{float(self._spec.interval):g}"

    @property
    def _multipath(self) -> bool:
        return self._spec.protocol is Protocol.MPTCP

    @property
    def _prefix(self) -> list[str]:
        return ["mptcpize", "run"] if self._multipath else []

    def seconds(self) -> float:
        """Warm-up and test."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """`iperf3`, and what makes it speak MPTCP."""
        return ("iperf3", "mptcpize") if self._multipath else ("iperf3",)
