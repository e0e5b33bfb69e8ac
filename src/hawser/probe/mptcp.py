"""Kernel counters of Multipath TCP, which show whether it was really used."""

from __future__ import annotations

from collections.abc import Mapping

from hawser.node.base import Node
from hawser.probe import nstat
from hawser.probe.base import ProbeError

_PREFIX = "MPTcpExt"


def counters(node: Node) -> Mapping[str, int]:
    """The node's MPTCP counters, by the kernel's names without `MPTcpExt`.

    Raises:
        NodeError: `nstat` could not be run or understood.
    """
    found = nstat.counters(node, f"{_PREFIX}*")
    return {name.removeprefix(_PREFIX): value for name, value in found.items()}


def require(used: Mapping[str, int], *, connections: int) -> None:
    """Check that the connections spoke MPTCP (RFC 8684 section 3.1) and did not fall back to TCP.

    Raises:
        ProbeError: fewer did.
    """
    capable = used.get("MPCapableSYNACKRX", 0)
    if capable < connections:
        raise ProbeError(
            f"only {capable} of {connections} connections spoke MPTCP: the others fell back to TCP"
        )
