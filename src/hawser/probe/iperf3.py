"""Goodput by iperf3: TCP, UDP, or Multipath TCP from end to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hawser.node.base import Node, NodeError, Process
from hawser.probe import iperf3_result, mptcp
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import Endpoint, endpoints
from hawser.spec.measurement import Iperf3, Protocol
from hawser.store.sample import Sample

_PORTS = range(5201, 5301)
_READY_SECONDS = 5.0
_CONNECT_SECONDS = 10
_GRACE_SECONDS = 20
"""How long iperf3 may take beyond its test time: connecting, and draining full queues."""


class Iperf3Probe:
    """One test: a server that serves once, on a free port, and a client."""

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
            used = mptcp.since(before, mptcp.counters(source.node))
            mptcp.require(used, connections=1 + self._spec.streams)
        result = iperf3_result.pair(self._spec, client, server, disrupted=context.disrupted)
        return iperf3_result.samples(context.measurement, self._spec, result)

    @contextmanager
    def _server(self, target: Endpoint, raw: Path) -> Iterator[tuple[int, Callable[[], str]]]:
        """A listening server: its port, and what waits for its end and gives its report."""
        port = free_port(target.node)
        command = ["iperf3", "-s", "-1", "-J", "-p", str(port)]
        if not self._multipath:  # subflows also join by the server's other addresses
            command += ["-B", target.address]
        process = target.node.start(self._prefix + command)

        def finish() -> str:
            self._wait(lambda: not process.running(), _READY_SECONDS)
            done = process.stop()
            raw.write_text(done.stdout, encoding="utf-8")
            return done.stdout

        try:
            self._until_listening(target.node, process, port)
            yield port, finish
        finally:
            process.stop()

    def _until_listening(self, node: Node, process: Process, port: int) -> None:
        self._wait(lambda: port in listening(node) or not process.running(), _READY_SECONDS)
        if port not in listening(node):
            done = process.stop()
            said = (done.stderr or done.stdout).strip()[-200:] or "it said nothing"
            raise ProbeError(f"its server on {node.name} did not get ready: {said}")

    def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            self._sleep(0.02)

    def _client(self, source: Endpoint, target: Endpoint, port: int) -> list[str]:
        spec = self._spec
        command = [
            "iperf3", "-c", target.address, "-B", source.address, "-p", str(port), "-J", "-i", "1",
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
    def _multipath(self) -> bool:
        return self._spec.protocol is Protocol.MPTCP

    @property
    def _prefix(self) -> list[str]:
        return ["mptcpize", "run"] if self._multipath else []

    def seconds(self) -> float:
        """Warm-up and test."""
        return float(self._spec.warmup) + float(self._spec.duration)

    def tools(self) -> tuple[str, ...]:
        """`iperf3`, and what makes it speak MPTCP."""
        return ("iperf3", "mptcpize") if self._multipath else ("iperf3",)


def free_port(node: Node) -> int:
    """A TCP and UDP port of the node that nothing listens on.

    Raises:
        ProbeError: all hundred of the range are taken.
    """
    taken = listening(node)
    for port in _PORTS:
        if port not in taken:
            return port
    raise ProbeError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free on {node.name}")


def listening(node: Node) -> set[int]:
    """Ports of a node that something listens on, TCP or UDP.

    Raises:
        NodeError: `ss` could not be run.
    """
    table = node.run(["ss", "-Hltun"], timeout=10).stdout
    return {int(columns[4].rpartition(":")[2]) for columns in map(str.split, table.splitlines())}
