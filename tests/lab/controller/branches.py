"""Branches of a network's document, in tests that are not about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def branches(numbers: Iterable[int], *wan: str) -> dict[str, dict[str, Any]]:
    """Give branches b1, b2 ... with their gateways' WAN ports."""
    return {
        f"b{n}": {
            "id": n,
            "gateway": f"gw{n}",
            "wan": list(wan),
            "lan": "lan0",
            "prefix": f"10.{n}.0.0/24",
        }
        for n in numbers
    }
