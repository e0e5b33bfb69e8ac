"""Positions of the nodes in the picture of a topology.

A place is `(along, across)`, in layers and nodes. `along` runs from the source of the traffic to
its target, `across` from side to side. The canvas decides whether `along` points right or down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hawser.spec.topology import Topology

Place = tuple[float, float]

CLOUD = ""
"""Name of the internet among the nodes. No node has an empty name."""


def place(topology: Topology, source: str) -> dict[str, Place]:
    """Place every node, and the cloud if there is one.

    Nodes form layers by their distance from the source's side.
    """
    neighbours = _neighbours(topology)
    sides = _sides(topology, neighbours, source)
    if sides is not None:
        before, after = (_layers(neighbours, side) for side in sides)
        near = {name for name in before if before[name] <= after.get(name, before[name])}
        last = max(before[name] for name in near)
        layers = {name: last - depth for name, depth in before.items() if name in near}
        layers[CLOUD] = last + 1
        layers |= {name: last + 2 + depth for name, depth in after.items() if name not in near}
    else:
        layers = _layers(neighbours, source)
    cloud = [CLOUD] if gateways(topology) else []
    rest = [name for name in (*cloud, *topology.nodes) if name not in layers]
    layers |= dict.fromkeys(rest, max(layers.values(), default=0) + 1)
    return _spread(layers)


def gateways(topology: Topology) -> list[str]:
    """Nodes attached to the internet, in the order of its ports."""
    ports = topology.internet.ports if topology.internet is not None else {}
    return list(dict.fromkeys(port.split(".")[0] for port in ports))


def _sides(
    topology: Topology, neighbours: Mapping[str, list[str]], source: str
) -> tuple[str, str] | None:
    """The gateway on the source's side and the other one, if the internet joins exactly two."""
    found = gateways(topology)
    if len(found) != 2:
        return None
    near, far = (_layers(neighbours, gateway) for gateway in found)
    swapped = far.get(source, len(far) + 1) < near.get(source, len(near) + 1)
    return (found[1], found[0]) if swapped else (found[0], found[1])


def _neighbours(topology: Topology) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in topology.nodes}
    for link in topology.links.values():
        a, b = (end.split(".")[0] for end in link.ends)
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    if len(gateways(topology)) not in (0, 2):
        found[CLOUD] = gateways(topology)
        for gateway in found[CLOUD]:
            found[gateway].append(CLOUD)
    return found


def _layers(neighbours: Mapping[str, Sequence[str]], start: str) -> dict[str, int]:
    """Hop count from `start` to every reachable node (breadth-first search)."""
    found, queue = {start: 0}, [start]
    for name in queue:
        for other in neighbours.get(name, ()):
            if other not in found:
                found[other] = found[name] + 1
                queue.append(other)
    return found


def _spread(layers: Mapping[str, int]) -> dict[str, Place]:
    members: dict[int, list[str]] = {}
    for name, layer in layers.items():
        members.setdefault(layer, []).append(name)
    return {
        name: (float(layer), index - (len(names) - 1) / 2)
        for layer, names in members.items()
        for index, name in enumerate(names)
    }
