"""What the interfaces and shaper classes of a lab have counted.

    node: HTB class --> emulator: queue, rate --> delay, jitter, loss
          drop_down            packets, bytes, drop_queue, backlog

A class whose queue is in the WAN emulator passes through the kernel at once: what was sent, dropped
and waits there is what the emulator says. The kernel's own drops of it are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hawser.control.client import ControlError
from hawser.control.model import WanQueue
from hawser.driver.base import Lab
from hawser.node.base import NodeError
from hawser.overlay.lab import emulator

Counts = Mapping[str, int]
Tables = Mapping[str, Mapping[str, Counts]]
"""Node -> interface or shaper class -> name of the count -> value."""


def read(lab: Lab, nodes: Iterable[str]) -> Tables:
    """Read the counters of nodes.

    Raises:
        NodeError: a node's, or the WAN emulator's, cannot be read.
    """
    kernels = {name: lab.nodes[name].counters() for name in nodes}
    queues = {each.name: each for each in _queues(lab)}
    return {
        node: {name: _joined(counts, queues.get(name)) for name, counts in table.items()}
        for node, table in kernels.items()
    }


def _queues(lab: Lab) -> Iterator[WanQueue]:
    config = emulator.configuration(lab.plan)
    if config is None or not any(path.bottleneck for path in config.emulated):
        return
    daemon = lab.daemons[emulator.EMULATOR]
    try:
        with daemon.client() as client:
            yield from client.wan_queues().queues
    except ControlError as error:
        raise NodeError(f"daemon {daemon.name}: {error}") from error


def _joined(counts: Counts, queue: WanQueue | None) -> Counts:
    """Counts of a class of which all packets went on to this queue."""
    if queue is None:
        return counts
    return {
        **counts,
        "packets": queue.tx_packets,
        "bytes": queue.tx_bytes,
        "drop_queue": counts.get("drop_queue", 0) + queue.drop_queue,
        "backlog": counts.get("backlog", 0) + queue.backlog_bytes,
    }
