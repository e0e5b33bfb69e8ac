"""Cross traffic, started before measurements and watched until their end.

Constant flows come from a program of our own (`source`), one a node, which keeps time with all of
them at once; TCP connections from iperf3, a pair of programs a bottleneck and direction.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from hawser.driver.base import DriverError
from hawser.node.base import Node, Process, tail
from hawser.overlay.lab.plan import CrossTrafficPlan, NetworkPlan

_SOURCE = Path(__file__).with_name("source.py")
_PORT = 5201
_READY_WITHIN = 10.0
_POLL = 0.02
_LATE = 0.01
"""Share of a constant flow that may be missing because its program was too slow."""


class CrossTraffic:
    """All cross traffic of a lab that this process started."""

    def __init__(self, directory: Path, plan: NetworkPlan) -> None:
        self._directory = directory
        self._logs = directory / "logs"
        self._plan = plan.cross_traffic
        self._programs: dict[str, Process] = {}
        self._nodes: dict[str, Node] = {}
        """Node of each program."""

    def start(self, nodes: Mapping[str, Node]) -> None:
        """Start all of it and wait until it flows.

        Raises:
            DriverError: it does not.
        """
        flows = [each for each in self._plan if each.udp is not None]
        for name in dict.fromkeys(end for each in flows for end in (each.source, each.target)):
            self._start(
                nodes, name, f"cross-traffic-{name}", _constant(flows, name, self._state(name))
            )
        connections = [each for each in self._plan if each.tcp is not None]
        for each in connections:
            self._start(nodes, each.target, f"{_stem(each)}-server", _server(each))
        self._wait(lambda: all(_listening(nodes, each) for each in connections))
        for each in connections:
            self._start(nodes, each.source, _stem(each), _client(each))
        self._wait(lambda: all(_sent(nodes, each) for each in self._plan))

    def stop(self) -> None:
        """End all of it. Idempotent."""
        for program in self._programs.values():
            program.stop(0.0)

    def faults(self) -> tuple[str, ...]:
        """Describe cross traffic that was not sent as planned; measurements are then void."""
        ended = [
            f"cross traffic: {name} ended{self._last_words(name)}"
            for name, program in self._programs.items()
            if not program.running()
        ]
        return (*ended, *self._late())

    def _late(self) -> Iterable[str]:
        for name in dict.fromkeys(each.source for each in self._plan if each.udp is not None):
            node = self._nodes[f"cross-traffic-{name}"]
            state = json.loads(node.get(self._state(name)))
            if state["unsent"] > _LATE * state["due"]:
                share = 100 * state["unsent"] / state["due"]
                yield f"cross traffic: {share:.1f} % from {name} was not sent in time"

    def _state(self, node: str) -> Path:
        return self._directory / f"cross-traffic-{node}.json"

    def _start(self, nodes: Mapping[str, Node], node: str, name: str, command: list[str]) -> None:
        log = self._logs / f"{name}.log"
        self._nodes[name] = nodes[node]
        self._programs[name] = nodes[node].start(command, log=log)

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_WITHIN
        while not done():
            ended = [name for name, each in self._programs.items() if not each.running()]
            for name in ended:
                raise DriverError(f"cross traffic: {name} ended{self._last_words(name)}")
            if time.monotonic() > deadline:
                raise DriverError(f"cross traffic does not flow after {_READY_WITHIN:g} s")
            time.sleep(_POLL)

    def _last_words(self, name: str) -> str:
        log = self._nodes[name].get(self._logs / f"{name}.log")
        return tail(log.decode(errors="replace"))


def _constant(flows: list[CrossTrafficPlan], node: str, state: Path) -> list[str]:
    """Give the program that sends and takes the constant flows of a node."""
    sends = [
        {
            "local": str(each.local),
            "remote": str(each.remote),
            "rate": float(each.udp or 0),
            "frame": each.frame,
        }
        for each in flows
        if each.source == node
    ]
    takes = [str(each.remote) for each in flows if each.target == node]
    task = {"state": str(state), "send": sends, "take": takes}
    return [sys.executable, "-I", str(_SOURCE), json.dumps(task)]


def _server(plan: CrossTrafficPlan) -> list[str]:
    return ["iperf3", "-s", "-B", str(plan.remote), "-p", str(_PORT)]


def _client(plan: CrossTrafficPlan) -> list[str]:
    """Connections without end; iperf3 prints nothing while they last."""
    ends = ["-c", str(plan.remote), "-B", str(plan.local), "-p", str(_PORT)]
    return ["iperf3", *ends, "-t", "0", "-i", "0", "-P", str(plan.tcp), "-C", "cubic"]


def _listening(nodes: Mapping[str, Node], plan: CrossTrafficPlan) -> bool:
    where = f"{plan.remote}:{_PORT}"
    done = nodes[plan.target].run(["ss", "-Hltn", "src", where], timeout=5)
    return bool(done.stdout.strip())


def _sent(nodes: Mapping[str, Node], plan: CrossTrafficPlan) -> bool:
    packets = nodes[plan.shaper].counters()[plan.counter]["packets"]
    return packets > _FIRST_PACKETS * (1 + (plan.tcp or 0))


_FIRST_PACKETS = 10
"""More than a connection needs to begin."""


def _stem(plan: CrossTrafficPlan) -> str:
    return f"cross-traffic-{plan.name}"


def missing(plan: NetworkPlan) -> Iterator[str]:
    """Programs that the cross traffic of a plan needs and this machine lacks."""
    if any(each.tcp is not None for each in plan.cross_traffic) and shutil.which("iperf3") is None:
        yield "program iperf3: install the Debian package iperf3"
