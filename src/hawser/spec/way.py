"""The shortest way over links, which routes follow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from hawser.spec.port import Port
from hawser.spec.topology import Topology


@dataclass(frozen=True)
class Hop:
    """From one node over a link to the next."""

    node: str
    interface: str
    """Port of the node that the link is at."""
    neighbour: Port
    """The port at the other end of the link."""

    @property
    def port(self) -> Port:
        """The port by which it leaves its node."""
        return Port(self.node, self.interface)

    @property
    def there(self) -> str:
        """The node at the other end."""
        return self.neighbour.node

    @property
    def arrival(self) -> str:
        """The interface at the other end."""
        return self.neighbour.name


def first_hops(topology: Topology, node: str) -> dict[str, Hop]:
    """Search breadth first: the first hop to every other node in reach, nearest nodes first."""
    hops: dict[str, Hop] = {}
    queue = deque([node])
    while queue:
        here = queue.popleft()
        for hop in _neighbours(topology, here):
            if hop.there != node and hop.there not in hops:
                hops[hop.there] = hops.get(here) or hop
                queue.append(hop.there)
    return hops


def equal_hops(topology: Topology, node: str) -> dict[str, tuple[int, tuple[Hop, ...]]]:
    """Give the distance of every other node in reach, in links, and all first hops of that length.

    The nearest nodes come first, and of a node's hops the one that `first_hops` gives.
    """
    found: dict[str, tuple[int, tuple[Hop, ...]]] = {}
    queue = deque([node])
    while queue:
        here = queue.popleft()
        distance, hops = found.get(here, (0, ()))
        for hop in _neighbours(topology, here):
            if hop.there == node:
                continue
            first = hops or (hop,)
            known = found.get(hop.there)
            if known is None:
                found[hop.there] = distance + 1, first
                queue.append(hop.there)
            elif known[0] == distance + 1:
                found[hop.there] = known[0], tuple(dict.fromkeys((*known[1], *first)))
    return found


def shortest(topology: Topology, source: str, target: str) -> tuple[Hop, ...]:
    """Give the hops of all shortest ways from one node to another; none if no links join them."""
    found: dict[Hop, None] = {}
    queue = deque([source])
    passed = {source}
    while queue:
        here = queue.popleft()
        for hop in equal_hops(topology, here).get(target, (0, ()))[1]:
            found[hop] = None
            if hop.there not in passed and hop.there != target:
                passed.add(hop.there)
                queue.append(hop.there)
    return tuple(found)


def way(topology: Topology, source: str, target: str) -> tuple[Hop, ...]:
    """Give the hops from one node to another, none where both are the same.

    Raises:
        KeyError: no links join them.
    """
    found: list[Hop] = []
    here = source
    while here != target:
        found.append(first_hops(topology, here)[target])
        here = found[-1].there
    return tuple(found)


def _neighbours(topology: Topology, node: str) -> Iterator[Hop]:
    for link in topology.links.values():
        for end, other in (link.ends, link.ends[::-1]):
            if end.node == node:
                yield Hop(node, end.name, other)
