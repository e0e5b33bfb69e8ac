"""Kernel settings of every node's network namespace."""

from __future__ import annotations

from collections.abc import Sequence

QUIET = {
    # IPv6 autoconfiguration would put packets on links that carry a measurement.
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    # A trial must not know what the one before it learnt of a path.
    "net.ipv4.tcp_no_metrics_save": "1",
}


def settings(interfaces: Sequence[str], *, forwards: bool, mptcp: bool) -> dict[str, str]:
    """Give a node's settings.

    Packets of one connection leave and arrive by several ports, so reverse-path filtering (RFC
    3704) is off; the kernel takes the stricter of the values for `all` and for the interface.
    """
    filters = {f"net.ipv4.conf.{name}.rp_filter": "0" for name in ("all", "default", *interfaces)}
    forwarding = {"net.ipv4.ip_forward": "1"} if forwards else {}
    multipath = {"net.mptcp.enabled": "1"} if mptcp else {}
    return {**QUIET, **forwarding, **filters, **multipath}
