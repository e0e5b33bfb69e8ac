"""What may be wrong with a gateway's machine: its clock, its version, what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from hawser.overlay.config.base import Need

_CLOCK_S: Final = 5.0
"""Far below the hour of tolerance that certificates have, and so much that it is no delay of the
message: a clock without NTP."""
_REPORTED: Final[frozenset[Need]] = frozenset({"mptcp", "ovs-vswitchd", "tproxy", "tun", "xdp"})
"""Needs that gateways report on."""


def warnings(
    ours: str,
    software: str | None,
    clock_offset_s: float | None,
    capabilities: Collection[str] | None,
    needs: Collection[Need],
) -> Iterator[str]:
    """Give what an operator should know of a gateway.

    Args:
        ours: version of the controller's program.
        software: the gateway's; None where it has not connected yet.
        clock_offset_s: by how many seconds its clock was ahead when it connected.
        capabilities: what its machine has.
        needs: what its configuration needs.
    """
    if clock_offset_s is not None and abs(clock_offset_s) >= _CLOCK_S:
        side = "ahead" if clock_offset_s > 0 else "behind"
        yield f"its clock is {abs(clock_offset_s):.0f} s {side}"
    if software is not None and software != ours:
        yield f"it runs version {software}, the controller {ours}"
    if capabilities is not None and (missing := sorted((_REPORTED & {*needs}) - {*capabilities})):
        yield f"it lacks {', '.join(missing)}, which its configuration needs"
