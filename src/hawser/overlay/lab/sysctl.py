"""Kernel settings of every node's network namespace."""

from __future__ import annotations

from collections.abc import Sequence

ALIKE = {
    # IPv6 autoconfiguration would put packets on links that carry a measurement.
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    # A trial must not reuse path metrics that the previous one cached.
    "net.ipv4.tcp_no_metrics_save": "1",
    # The same on every machine, whatever its default. BBR mistakes the burst that a shaper lets
    # through for the path's rate: end-to-end MPTCP over four shaped paths then carried 31, 15 and
    # 6 Mbit/s of the 40 at 4:8:12:16, 2:4:8:26 and 1:2:4:33, against 36.7, 27.9 and 12.4 by CUBIC.
    "net.ipv4.tcp_congestion_control": "cubic",
}

SWITCHED = {
    # Below all path labels, whose first nibble is a branch. In the return direction the label is
    # the source port, so a port that the kernel chooses must not look like one.
    "net.ipv4.ip_local_port_range": "1024 4095",
}
"""Settings of a gateway that has a switch."""


_EACH = ("all", "default")
IPV6 = {
    f"net.ipv6.conf.{name}.{key}": value
    for name in _EACH
    for key, value in (
        ("disable_ipv6", "0"),
        ("forwarding", "1"),
        # Addresses are assigned by the plan, so duplicates cannot occur.
        ("accept_ra", "0"),
        ("accept_dad", "0"),
    )
}
"""Settings of a node that routes IPv6, but has no segments."""


ECMP = {f"net.{family}.fib_multipath_hash_policy": "1" for family in ("ipv4", "ipv6")}
"""Settings of a node that spreads flows: by their ports too."""


MANAGED = {"net.mptcp.enabled": "1", "net.mptcp.pm_type": "1"}
"""Settings of a gateway whose daemon creates the subflows (`pm_type` 1: in user space)."""


def settings(
    interfaces: Sequence[str], *, forwards: bool, mptcp: bool, ecmp: bool = False
) -> dict[str, str]:
    """Give a node's settings.

    Packets of one connection leave and arrive by several ports, so reverse-path filtering (RFC
    3704) is off. It is set for `all` too: the stricter of that and the interface's value applies.
    """
    filters = {f"net.ipv4.conf.{name}.rp_filter": "0" for name in ("all", "default", *interfaces)}
    forwarding = {"net.ipv4.ip_forward": "1"} if forwards else {}
    multipath = {"net.mptcp.enabled": "1"} if mptcp else {}
    spread = ECMP if ecmp else {}
    return {**ALIKE, **forwarding, **filters, **multipath, **spread}
