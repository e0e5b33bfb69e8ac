"""Member paths as gateways' reports have them, in a form that is cheap to judge every second."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hawser.controller.telemetry.latest import Statistics
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group
from hawser.spec.overlay import TrafficType
from hawser.spec.route import Stop

_METRICS: Final = ("up", "rtt", "jitter", "loss", "capacity")


@dataclass(frozen=True)
class PathState:
    """A member path, as the gateway at its first end measures it. NaN where nothing is measured."""

    source: str
    peer: str
    group: int
    traffic: TrafficType | None
    """Class of its group; None where the group is not known here."""
    name: str
    """Its route, or the numbers of group and member where that is not known."""
    stops: tuple[Stop, ...]
    """Its WAN ports; empty where the route is not known."""
    up: bool
    rtt: float
    """ms."""
    jitter: float
    """ms."""
    loss: float
    """Share of bytes lost."""
    capacity: float
    """bit/s."""


@dataclass(frozen=True)
class _Place:
    """Where the values of a path are in reports."""

    peer: str
    group: int
    member: int
    at: tuple[int | None, ...]
    """Indices of `_METRICS`."""


class PathStates:
    """Reads reports. The names of values, which seldom change, are parsed once."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Sequence[str], tuple[_Place, ...]]] = {}

    def read(self, fabric: Fabric | None, reports: Iterable[Statistics]) -> Iterator[PathState]:
        """Give all paths of reports; of those with the same route between two branches, one.

        Args:
            fabric: the network in force; None while gateways have different ones.
            reports: the newest ones, at most one a branch.
        """
        for report in reports:
            groups = _groups(fabric, report.branch)
            seen: set[tuple[str, int, str]] = set()
            for place in self._of(report):
                found = _state(report, place, groups.get((place.peer, place.group)))
                key = found.peer, found.group, found.name
                if key not in seen:
                    seen.add(key)
                    yield found

    def _of(self, report: Statistics) -> tuple[_Place, ...]:
        known = self._places.get(report.branch)
        if known is None or known[0] is not report.names:
            known = report.names, tuple(_places(report.names))
            self._places[report.branch] = known
        return known[1]


def _places(names: Sequence[str]) -> Iterator[_Place]:
    found: dict[tuple[str, int, int], dict[str, int]] = {}
    for index, name in enumerate(names):
        kind, *about = name.split("/")
        if kind == "path" and len(about) == 4 and about[1].isdecimal() and about[2].isdecimal():
            key = about[0], int(about[1]), int(about[2])
            found.setdefault(key, {})[about[3]] = index
    for key, at in found.items():
        if "up" in at:
            yield _Place(*key, tuple(at.get(metric) for metric in _METRICS))


def _groups(fabric: Fabric | None, branch: str) -> dict[tuple[str, int], Group]:
    if fabric is None or branch not in fabric.branches:
        return {}
    return {
        (peer, group.number): group
        for peer in fabric.peers(branch)
        for group in fabric.to(branch, peer)
    }


def _state(report: Statistics, place: _Place, group: Group | None) -> PathState:
    values = (math.nan if each is None else report.values[each] for each in place.at)
    up, rtt, jitter, loss, capacity = values
    stops: tuple[Stop, ...] = ()
    if group is not None and place.member < len(group.paths):
        stops = tuple(stop for hop in group.paths[place.member].hops for stop in hop)
        stops = stops if group.branches[0] == report.branch else stops[::-1]
    known = ">".join(f"{stop.branch}.{stop.port}" for stop in stops)
    return PathState(
        source=report.branch,
        peer=place.peer,
        group=place.group,
        traffic=group.traffic if group else None,
        name=known or f"path {place.member} of group {place.group}",
        stops=stops,
        up=not up <= 0,  # NaN is no failure
        rtt=rtt,
        jitter=jitter,
        loss=loss,
        capacity=capacity,
    )
