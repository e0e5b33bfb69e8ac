"""What a lab has counted, where the kernel and the WAN emulator share the work."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from hawser.control.client import ControlError, DaemonClient
from hawser.control.model import WanQueues
from hawser.driver.base import Lab
from hawser.node.base import NodeError
from hawser.overlay.config.wan import Bottleneck, Path, WanConfig, Wire
from hawser.overlay.lab.plan import WanDaemon
from hawser.probe.counted import read

CLASS = {"packets": 9, "bytes": 900, "drop_queue": 1, "drop_down": 2, "backlog": 10}
QUEUE = {
    "name": "path:p:forward",
    "tx_packets": 5,
    "tx_bytes": 500,
    "drop_queue": 3,
    "backlog_bytes": 100,
}


class Emulator(DaemonClient):
    """Answers in the place of the emulator, or not at all."""

    def __init__(self, *, gone: bool) -> None:
        self._gone = gone

    def wan_queues(self) -> WanQueues:
        if self._gone:
            raise ControlError("gone")
        return WanQueues.model_validate({"queues": [QUEUE]})


def lab(bottleneck: Bottleneck | None, *, gone: bool = False) -> Lab:
    """A lab with one path and one link, both shaped."""
    path = Path(name="path:p:forward", wire="w", direction="forward", bottleneck=bottleneck)
    wire = Wire(name="w", ends=("a", "b"))
    config = WanConfig.model_validate({"control": "wan.sock", "wires": [wire], "paths": [path]})
    counts: Mapping[str, Mapping[str, int]] = {
        "path:p:forward": CLASS,
        "link:x:forward": CLASS,
        "e": {"rx_bytes": 7},
    }
    made = SimpleNamespace(
        plan=SimpleNamespace(daemons=[WanDaemon(node="wan", name="wan", config=config)]),
        nodes={"internet": SimpleNamespace(counters=lambda: counts)},
        daemons={"wan": SimpleNamespace(name="wan", client=lambda: Emulator(gone=gone))},
    )
    return cast("Lab", made)


RATE = Bottleneck(rate_bit_per_s=1000, queue_bytes=500)


def test_a_queue_in_the_emulator_is_counted_there_and_drops_in_both_places() -> None:
    found = read(lab(RATE), ["internet"])["internet"]
    assert found == {
        "path:p:forward": {
            "packets": 5,
            "bytes": 500,
            "drop_queue": 4,
            "drop_down": 2,
            "backlog": 110,
        },
        "link:x:forward": CLASS,
        "e": {"rx_bytes": 7},
    }


def test_an_emulator_without_queues_is_not_asked() -> None:
    assert read(lab(None, gone=True), ["internet"])["internet"]["path:p:forward"] == CLASS


def test_an_emulator_that_is_gone_is_told() -> None:
    with pytest.raises(NodeError, match="daemon wan: gone"):
        read(lab(RATE, gone=True), ["internet"])
