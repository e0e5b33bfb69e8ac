"""Kernel settings of every node's network namespace."""

from __future__ import annotations

from collections.abc import Sequence

ALIKE = {
    # IPv6 autoconfiguration would put packets on links that carry a measurement.
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    # A trial must not know what the one before it learnt of a path.
    "net.ipv4.tcp_no_metrics_save": "1",
    # The same on every machine, whatever its default. BBR takes the burst that a shaper lets pass
    # at once for the path's rate: end-to-end MPTCP over four shaped paths then carried 31, 15 and
    # 6 Mbit/s of the 40 at 4:8:12:16, 2:4:8:26 and 1:2:4:33, against 36.7, 27.9 and 12.4 by CUBIC.
    "net.ipv4.tcp_congestion_control": "cubic",
}

SWITCHED = {
    # Below all path labels, whose first nibble is a branch: a port that the kernel chose is never
    # taken for a label, which the return direction has in its source port.
    "net.ipv4.ip_local_port_range": "1024 4095",
}
"""Settings of a gateway that has a switch."""


MANAGED = {"net.mptcp.enabled": "1", "net.mptcp.pm_type": "1"}
"""Settings of a gateway whose daemon makes the subflows of its connections (user space: 1)."""


def settings(interfaces: Sequence[str], *, forwards: bool, mptcp: bool) -> dict[str, str]:
    """Give a node's settings.

    Packets of one connection leave and arrive by several ports, so reverse-path filtering (RFC
    3704) is off; the kernel takes the stricter of the values for `all` and for the interface.
    """
    filters = {f"net.ipv4.conf.{name}.rp_filter": "0" for name in ("all", "default", *interfaces)}
    forwarding = {"net.ipv4.ip_forward": "1"} if forwards else {}
    multipath = {"net.mptcp.enabled": "1"} if mptcp else {}
    return {**ALIKE, **forwarding, **filters, **multipath}
