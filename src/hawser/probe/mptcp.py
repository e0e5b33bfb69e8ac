"""What a node's kernel counts of Multipath TCP: whether it was really used."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hawser.node.base import Node, NodeError
from hawser.probe.base import ProbeError


def counters(node: Node) -> Mapping[str, int]:
    """The node's MPTCP counters, by the kernel's names without `MPTcpExt`.

    Raises:
        NodeError: `nstat` could not be run or understood.
    """
    text = node.run(["nstat", "-asz", "--json", "MPTcpExt*"], timeout=10).stdout
    try:
        kernel = json.loads(text)["kernel"]
        return {name.removeprefix("MPTcpExt"): int(value) for name, value in kernel.items()}
    except (ValueError, KeyError, AttributeError) as error:
        raise NodeError(f"nstat on {node.name} gave no counters: {text[:200]!r}") from error


def since(before: Mapping[str, int], after: Mapping[str, int]) -> Mapping[str, int]:
    """What was counted in between."""
    return {name: value - before.get(name, 0) for name, value in after.items()}


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
