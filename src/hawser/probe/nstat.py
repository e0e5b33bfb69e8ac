"""Protocol counters of a node's kernel (SNMP MIBs and Linux's own)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hawser.node.base import Node, NodeError


def counters(node: Node, *patterns: str) -> Mapping[str, int]:
    """Counters by the kernel's names that match a pattern such as `Udp*`, since the node's start.

    Raises:
        NodeError: `nstat` could not be run or understood.
    """
    text = node.run(["nstat", "-asz", "--json", *patterns], timeout=10).stdout
    try:
        return {name: int(value) for name, value in json.loads(text)["kernel"].items()}
    except (ValueError, KeyError, AttributeError) as error:
        raise NodeError(f"nstat on {node.name} gave no counters: {text[:200]!r}") from error


def since(before: Mapping[str, int], after: Mapping[str, int]) -> Mapping[str, int]:
    """Counts between two readings."""
    return {name: value - before.get(name, 0) for name, value in after.items()}
