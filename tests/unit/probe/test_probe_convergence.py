"""Failover and reversion times from events and what a receiver got."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import synthetic
from hawser.driver.base import Lab
from hawser.node.base import NodeError, Received
from hawser.probe.base import ProbeError
from hawser.probe.convergence import Convergence, Switched
from hawser.spec.measurement import Iperf3

MBIT = 1e6 / 8


class Receiver:
    """A node that got what its course says, in steps of 20 ms."""

    def __init__(self, name: str, *course: tuple[float, float]) -> None:
        """Take parts of seconds and Mbit/s."""
        self.name = name
        self._course = course

    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        over.wait()
        assert interval == 0.02
        at, moved, found = 100.0, 0.0, [Received(100.0, 0, 0)]
        for seconds, rate in self._course:
            for _ in range(round(seconds / interval)):
                at, moved = at + interval, moved + rate * MBIT * interval
                found.append(Received(at, int(moved), int(moved * 1.02)))
        return found


class Broken(Receiver):
    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        raise NodeError("node h2: what was received cannot be read")


def measured(
    receiver: Receiver, switched: Sequence[Switched], **settings: object
) -> dict[str, list[float]]:
    """Values by metric; infinite if censored."""
    plan = SimpleNamespace(addresses={"h1": "10.1.0.2", "h2": "10.2.0.2"})
    nodes = {"h1": Receiver("h1"), "h2": receiver}
    lab = SimpleNamespace(name="lab", plan=plan, nodes=nodes, directory=Path())
    spec = {"probe": "iperf3", "from": "h1", "to": "h2", "duration": "5 s", "warmup": "1 s"}
    topology = synthetic.scenario("mptcp", (10, 10, 10, 10)).topology
    found: dict[str, list[float]] = {}
    iperf3 = Iperf3.model_validate(spec | settings)
    with Convergence(cast("Lab", lab), "tcp", iperf3, topology) as convergence:
        convergence.begin()
        for sample in convergence.finish(switched):
            assert sample.measurement == "tcp"
            value = math.inf if sample.censored else sample.value
            found.setdefault(sample.metric, []).append(value)
    return found


CUT = Switched(102.0, "path:p1", up=False)
BACK = Switched(104.0, "path:p1", up=True)


def test_one_path_of_four_goes_and_comes_back() -> None:
    course = ((2, 36), (0.2, 0), (1.8, 27), (0.6, 27), (1.4, 36))
    found = measured(Receiver("h2", *course), [CUT, BACK])
    assert found["failover_time"] == [pytest.approx(240, abs=30)]
    assert found["reversion_time"] == [pytest.approx(640, abs=30)]
    assert found["goodput_min"] == [pytest.approx(0.8 * 27, abs=0.5)]


def test_less_than_the_rest_can_carry_is_no_recovery() -> None:
    course = ((2, 36), (2, 18), (2, 36))
    assert measured(Receiver("h2", *course), [CUT, BACK])["failover_time"] == [math.inf]


def test_a_tunnel_that_stands_still_has_not_recovered() -> None:
    course = ((2, 9), (2, 0), (1, 0), (1, 9))
    found = measured(Receiver("h2", *course), [CUT, BACK])
    assert found["failover_time"] == [math.inf]
    assert found["reversion_time"] == [pytest.approx(1040, abs=30)]
    assert found["goodput_min"] == [0]


def test_a_path_that_is_not_used_is_not_missed() -> None:
    found = measured(Receiver("h2", (6, 27)), [CUT, BACK])
    assert found["failover_time"] == [0]
    assert found["reversion_time"] == [math.inf], "it never used what came back"


def test_datagrams_are_counted_by_their_packets() -> None:
    udp = {"protocol": "udp", "rate": "50 Mbit/s", "length": "1400 B"}
    found = measured(Receiver("h2", (6, 36)), [], **udp)
    assert found == {"goodput_min": [pytest.approx(36, rel=0.001)]}


def test_events_outside_the_measurement_are_not_its_own() -> None:
    found = measured(Receiver("h2", (6, 36)), [Switched(99, "path:p1", up=False)])
    assert set(found) == {"goodput_min"}


def test_a_receiver_that_cannot_be_read_is_told() -> None:
    with pytest.raises(NodeError, match="cannot be read"):
        measured(Broken("h2"), [CUT])


class Starved(Receiver):
    """A receiver that could not be read for a while around an event."""

    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        found = super().received(over, interval)
        return [each for each in found if not 101.9 < each.at < 102.3]


def test_an_outage_between_two_readings_is_not_called_none() -> None:
    course = ((2, 36), (0.2, 0), (3.8, 36))
    with pytest.raises(ProbeError, match=r"h2 was not read for 0\.4[0-9] s after an event"):
        measured(Starved("h2", *course), [CUT])
