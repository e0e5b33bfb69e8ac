"""Address ranges reserved for the lab itself; branches cannot use them."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

WAN = IPv4Network("198.18.0.0/15")
"""Access links of WAN ports, a /30 each (reserved by RFC 2544 for benchmarks)."""

LINKS = IPv4Network("10.255.0.0/16")
"""Links outside of branches, a /30 each."""

BOTTLENECKS = IPv4Network("10.254.0.0/16")
"""Links inside the internet, a /30 each."""

FUNCTIONS = IPv4Network("10.253.0.0/16")
"""Cables between nodes and their service functions, a /30 each."""

NATS = IPv4Network("100.64.0.0/16")
"""Access links of WAN ports behind a NAT, a /29 each (RFC 6598)."""

SEGMENTS = IPv6Network("5f00::/16")
"""SRv6 segments (RFC 9602), a /48 for each node."""

STEERED = IPv6Network("fd00::/48")
"""Cables that IPv6 packets pass, a /64 each."""

WAN6 = IPv6Network("fd01::/48")
"""Access links of WAN ports where tunnels use IPv6, a /64 each."""

RESERVED = (
    WAN,
    LINKS,
    BOTTLENECKS,
    FUNCTIONS,
    NATS,
    IPv4Network("0.0.0.0/8"),
    IPv4Network("127.0.0.0/8"),
    IPv4Network("224.0.0.0/3"),
)
"""Ranges that branches cannot use: the above, special ones (RFC 1122), and multicast and above."""
