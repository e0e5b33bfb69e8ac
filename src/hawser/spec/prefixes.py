"""Networks by what they overlap. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Network = IPv4Network | IPv6Network


class Prefixes:
    """Networks with their owners: two overlap only where one is in the other."""

    def __init__(self) -> None:
        self._starts: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
        """First address and place of each network, sorted, by IP version."""
        self._networks: list[tuple[str, Network]] = []
        self._same: dict[tuple[int, int, int], list[int]] = {}
        """Places of networks, by IP version, length and first address."""

    def add(self, owner: str, network: Network) -> None:
        """Add a network."""
        place, start = len(self._networks), int(network.network_address)
        self._networks.append((owner, network))
        insort(self._starts[network.version], (start, place))
        key = (network.version, network.prefixlen, start)
        self._same.setdefault(key, []).append(place)

    def overlapping(self, network: Network) -> Iterator[tuple[str, Network]]:
        """Give the networks that overlap one, in the order in which they were added."""
        start, length = int(network.network_address), network.prefixlen
        places = set(self._around(network.version, start, length, network.max_prefixlen))
        starts, end = self._starts[network.version], start + network.num_addresses
        inside = starts[bisect_left(starts, (start, -1)) : bisect_right(starts, (end, -1))]
        places.update(place for _, place in inside)
        yield from (self._networks[place] for place in sorted(places))

    def containing(self, address: IPv4Address | IPv6Address) -> Iterator[tuple[str, Network]]:
        """Give the networks that contain an address, in the order in which they were added."""
        bits = address.max_prefixlen
        places = self._around(address.version, int(address), bits, bits)
        yield from (self._networks[place] for place in sorted(places))

    def _around(self, version: int, start: int, length: int, bits: int) -> Iterator[int]:
        """Give the places of networks that contain one."""
        for shorter in range(length + 1):
            free = bits - shorter
            yield from self._same.get((version, shorter, start >> free << free), ())
