"""An SD-WAN of which some gateways have a new configuration, and the others still the old one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hawser.overlay.sdwan.branch import Branch
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group, Pair
from hawser.spec.pair import branch_of


def staged(old: Fabric, new: Fabric, moved: Collection[str]) -> Fabric:
    """Give the SD-WAN by which the gateways that have moved to the new one are configured.

    The ends of a group have to agree, and so do the gateways on the way of its paths. A pair of
    branches therefore has its new groups once all these have moved, and its old ones until then.

    Args:
        old: the SD-WAN before the change.
        new: the SD-WAN after it, with the same transport and switch.
        moved: branches whose gateways get the new configuration.
    """
    there = {name for name in new.branches if branch_of(name) in moved}
    branches = _branches(old, new, there)
    before, after = old.by_pair, new.by_pair
    groups: dict[Pair, tuple[Group, ...]] = {}
    for pair in before.keys() | after.keys():
        was, becomes = before.get(pair, ()), after.get(pair, ())
        groups[pair] = becomes if _involved(pair, (*was, *becomes)) <= there else was
    by_number = sorted(groups, key=lambda pair: _numbers(branches, pair) if groups[pair] else ())
    return Fabric(
        settings=new.settings,
        switch=new.switch,
        mtu=new.mtu,
        branches=branches,
        groups=tuple(group for pair in by_number for group in groups[pair]),
        policy=new.policy,
    )


def _branches(old: Fabric, new: Fabric, moved: Collection[str]) -> dict[str, Branch]:
    """Give the branches as the new SD-WAN orders them; removed ones last, until all have moved."""
    order = (*new.branches, *(name for name in old.branches if name not in new.branches))
    found = {
        name: new.branches[name] if name in moved else old.branches.get(name) for name in order
    }
    return {name: branch for name, branch in found.items() if branch is not None}


def _involved(pair: Pair, groups: Collection[Group]) -> set[str]:
    """Give the branches whose gateways send packets of groups: the ends, and those on the way."""
    stops = (stop for each in groups for path in each.paths for hop in path.hops for stop in hop)
    return {*pair, *(stop.branch for stop in stops)}


def _numbers(branches: Mapping[str, Branch], pair: Pair) -> tuple[int, ...]:
    return tuple(branches[name].id for name in pair)
