"""Which traffic a change moves to other paths."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group, Path
from hawser.spec.model import Model, Name
from hawser.spec.overlay import ClassRule, TrafficType

_CARRIED = (TrafficType.I, TrafficType.II)


class PathMove(Model):
    """Traffic of one type between two branches, whose member paths differ."""

    branches: tuple[Name, Name]
    traffic: TrafficType
    before: tuple[str, ...]
    """Member paths as `b1.a>b2.a`; none where the branches were not connected."""
    after: tuple[str, ...]


class ClassMove(Model):
    """A class of the classifier whose packets change their type, and so their path groups."""

    name: Name
    before: TrafficType | None
    """None where there was no such class."""
    after: TrafficType | None
    """None where there is none any more."""
    matches: bool
    """Whether it also matches other packets than before."""


def path_moves(old: Fabric, new: Fabric) -> Iterator[PathMove]:
    """Compare the paths of every pair of branches, by type of traffic."""
    before, after = old.by_pair, new.by_pair
    for pair in sorted(before.keys() | after.keys()):
        was, becomes = before.get(pair, ()), after.get(pair, ())
        if was == becomes:
            continue
        for traffic in _CARRIED:
            paths = _paths(was, traffic), _paths(becomes, traffic)
            if paths[0] != paths[1]:
                yield PathMove(branches=pair, traffic=traffic, before=paths[0], after=paths[1])


def class_moves(old: dict[Name, ClassRule], new: dict[Name, ClassRule]) -> Iterator[ClassMove]:
    """Compare the rules of two classifiers.

    The first rule that matches decides, so a rule that only changes its place is a change too; that
    is not told here.
    """
    for name in dict.fromkeys((*old, *new)):
        was, becomes = old.get(name), new.get(name)
        if was != becomes:
            yield ClassMove(
                name=name,
                before=was.type if was else None,
                after=becomes.type if becomes else None,
                matches=_matched(was) != _matched(becomes),
            )


def _matched(rule: ClassRule | None) -> object:
    return rule.model_dump(exclude={"type"}) if rule else None


def _paths(groups: tuple[Group, ...], traffic: TrafficType) -> tuple[str, ...]:
    """Give the member paths of a type; without a group of its own, Type I uses any."""
    own = [group for group in groups if group.traffic is traffic]
    if not own and traffic is TrafficType.I:
        own = list(groups)
    return tuple(_route(path) for group in own for path in group.paths)


def _route(path: Path) -> str:
    stops = [stop for hop in path.hops for stop in hop]
    return ">".join(f"{stop.branch}.{stop.port}" for stop in stops)
