"""From a network, its fabric and the newest reports to a question for the planner. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import permutations

from hawser.controller.paths.planner import Question
from hawser.controller.telemetry.latest import Statistics
from hawser.optimise.measured import Estimate, PathReading, Reading
from hawser.optimise.members import Way, reverse
from hawser.optimise.wan import Bounds, Limits, Pair, Wan
from hawser.overlay.sdwan.automatic import automatic_pairs
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.network import Network
from hawser.spec.overlay import TrafficType
from hawser.spec.route import Hop, Stop


def question(
    now: float,
    network: Network,
    fabric: Fabric,
    reports: Iterable[Statistics],
    trains: Mapping[Hop, Estimate] | None = None,
) -> Question:
    """Put together what there is to decide on.

    Args:
        now: seconds since 1970.
        network: the network in force.
        fabric: the same, resolved, with the groups in force.
        reports: the newest ones.
        trains: what trains found of tunnels.
    """
    pairs = tuple(sorted(automatic_pairs(network.overlay)))
    found = places(fabric, set(pairs))
    return Question(
        now=now,
        declared=declared(network),
        pairs=pairs,
        readings=tuple(reading(fabric, each) for each in reports if each.branch in fabric.branches),
        groups={pair: tuple(dict.fromkeys(ways)) for pair, ways in found.items()},
        bounds=bounds(network),
        trains=trains or {},
    )


def bounds(network: Network) -> Bounds:
    """Give what the paths of groups have to offer: they carry Type I and II."""
    slas = [each.sla for kind, each in network.policy.items() if kind is not TrafficType.III]
    losses = [float(each.loss) for each in slas if each is not None and each.loss is not None]
    delays = [float(each.delay) for each in slas if each is not None and each.delay is not None]
    return Bounds(min(losses, default=math.inf), min(delays, default=math.inf))


def declared(network: Network) -> Wan:
    """Give ports and tunnels as the network's document has them."""
    ports: dict[Stop, Limits] = {}
    leased: dict[Stop, object] = {}
    for name, branch in network.overlay.branches.items():
        for port in branch.wan_ports:
            line = network.ports[port]
            egress = math.inf if line.rate is None else float(line.rate)
            ingress = egress if line.download is None else float(line.download)
            stop = Stop(name, port.name)
            ports[stop] = Limits(egress, ingress, line.cost_per_gb or 0.0)
            leased[stop] = line.type
    tunnels = {
        (one, other): min(ports[one].egress, ports[other].ingress)
        for one, other in permutations(ports, 2)
        if one.branch != other.branch and leased[one] == leased[other]
    }
    return Wan(ports, tunnels)


def places(fabric: Fabric, pairs: Collection[Pair]) -> Mapping[Pair, tuple[Way, ...]]:
    """Give the member paths of the groups of some pairs, in their places: some are repeated."""
    found: dict[Pair, tuple[Way, ...]] = {}
    for group in fabric.groups:
        one, other = group.branches
        pair = min(one, other), max(one, other)
        if pair in pairs:
            ways = (path.hops if one < other else reverse(path.hops) for path in group.paths)
            found[pair] = tuple(ways)
    return found


def reading(fabric: Fabric, found: Statistics) -> Reading:
    """Give what a gateway's report says of its paths and peers.

    A gateway that still has an older configuration may report of paths that it does not have any
    more: what is not in the fabric is left out.
    """
    values = dict(zip(found.names, found.values, strict=True))
    sent: dict[str, float] = {}
    waiting: dict[str, float] = {}
    for name, value in values.items():
        kind, _, rest = name.partition("/")
        if kind == "class" and not math.isnan(value):
            peer, _, metric = rest.split("/")
            into = {"sent": sent, "queue": waiting}.get(metric)
            if into is not None:
                into[peer] = into.get(peer, 0.0) + value
    paths = tuple(_paths(fabric, found.branch, values))
    return Reading(found.branch, float(found.time), paths, sent, waiting)


def _paths(fabric: Fabric, branch: str, values: Mapping[str, float]) -> Iterator[PathReading]:
    for peer in fabric.peers(branch):
        for group in fabric.to(branch, peer):
            for member, path in enumerate(group.paths):
                about = f"path/{peer}/{group.number}/{member}"
                sent, capacity, up, loss, rtt = (
                    values.get(f"{about}/{metric}", math.nan)
                    for metric in ("rate", "capacity", "up", "loss", "rtt")
                )
                if not math.isnan(up):
                    yield PathReading(
                        way=path.hops if group.branches[0] == branch else reverse(path.hops),
                        sent=0.0 if math.isnan(sent) else sent,
                        capacity=0.0 if math.isnan(capacity) else capacity,
                        up=up > 0,
                        loss=loss,
                        rtt=rtt / 1e3,
                    )
