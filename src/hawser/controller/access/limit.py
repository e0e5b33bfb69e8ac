"""Rate limits: a token bucket for each caller. No clock: the time is an argument."""

from __future__ import annotations

import threading
from collections import OrderedDict
from ipaddress import ip_address, ip_network
from typing import Final

_MOST_CALLERS: Final = 10_000
"""Callers that are remembered, 100 bytes each. Who is forgotten has a full bucket again."""


_NETWORK: Final = 64
"""Length of the prefix of an IPv6 network (RFC 4291 section 2.5.1)."""


def source_of(address: str) -> str:
    """Give what counts as one caller: an IPv4 address, or the network of an IPv6 address."""
    try:
        found = ip_address(plain(address))
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(ip_network((int(found), _NETWORK), strict=False))


def plain(address: str) -> str:
    """Give an address without the prefix that makes IPv4 IPv6, and without a zone."""
    found = ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if found.version == 6 else None
    return str(mapped or found)


class RateLimit:
    """Limits requests of each caller. Threads may share it."""

    def __init__(self, per_s: float, burst: float) -> None:
        """Take the rate, requests a second, and how many may come at once."""
        self._per_s, self._burst = per_s, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str, now: float) -> float:
        """Count a request: 0 where it is within the limit, else seconds until one would be."""
        with self._lock:
            left, then = self._buckets.pop(caller, (self._burst, now))
            left = min(self._burst, left + max(0.0, now - then) * self._per_s)
            within = left >= 1
            self._buckets[caller] = (left - 1 if within else left, now)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        return 0.0 if within else (1 - left) / self._per_s
