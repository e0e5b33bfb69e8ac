"""A resolved SD-WAN: all that the configurations of its gateways depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, collapse_addresses

from hawser.overlay.sdwan.branch import Branch, WanPort
from hawser.overlay.sdwan.group import Group, Pair, described_pairs, groups
from hawser.overlay.sdwan.priority import Levels, levels
from hawser.spec.access import may_talk
from hawser.spec.model import Model
from hawser.spec.overlay import PathGroup, Settings, SwitchKind, TrafficType
from hawser.spec.pair import branch_of, second_of
from hawser.spec.policy import ClassPolicy
from hawser.spec.route import Stop


class Fabric(Model):
    """Branches with their addresses, the path groups between them, and how packets are carried."""

    settings: Settings
    switch: SwitchKind
    """Kind of switch that forwards packets along member paths."""
    mtu: int
    """Largest IP packet that every WAN port takes, bytes."""
    branches: dict[str, Branch]
    groups: tuple[Group, ...]
    """Path groups of every pair of branches, in the order of the branches' numbers."""
    described: frozenset[Pair] = frozenset()
    """Pairs whose groups are not the default ones."""
    policy: dict[TrafficType, ClassPolicy] = {}
    """What each class is granted: thresholds, rates."""

    @property
    def switched(self) -> bool:
        """Whether gateways have a switch."""
        return self.switch is not SwitchKind.NONE

    @cached_property
    def levels(self) -> Levels:
        """Priorities at a WAN port whose rate is limited."""
        return levels(self.groups, self.settings)

    def port(self, stop: Stop) -> WanPort:
        """Give a WAN port."""
        return self.branches[stop.branch].ports[stop.port]

    @cached_property
    def by_pair(self) -> Mapping[Pair, tuple[Group, ...]]:
        """Groups by the branches that they join; an index, since 100 branches have 4950 pairs."""
        found: dict[Pair, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.branches, []).append(group)
        return {pair: tuple(groups) for pair, groups in found.items()}

    @cached_property
    def _peers(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, set[str]] = {name: set() for name in self.branches}
        for group in self.groups:
            one, other = group.branches
            found[one].add(branch_of(other))
            found[other].add(branch_of(one))
        place = {name: number for number, name in enumerate(self.branches)}
        return {name: tuple(sorted(peers, key=place.__getitem__)) for name, peers in found.items()}

    def peers(self, branch: str) -> tuple[str, ...]:
        """Give the branches that a gateway has a tunnel to, in the order of the branches."""
        return self._peers[branch]

    def prohibited(self, branch: str) -> tuple[IPv4Network | IPv6Network, ...]:
        """Give the prefixes that a branch must not reach, as few as possible."""
        access = self.settings.access
        if not access:
            return ()
        apart = [
            prefix
            for name, other in self.branches.items()
            if branch_of(name) != branch_of(branch)
            and not may_talk(access, branch_of(branch), branch_of(name))
            and not self.to(branch, branch_of(name))
            for prefix in other.prefixes
        ]
        return (
            *collapse_addresses(each for each in apart if isinstance(each, IPv4Network)),
            *collapse_addresses(each for each in apart if isinstance(each, IPv6Network)),
        )

    def between(self, one: str, other: str) -> tuple[Group, ...]:
        """Give the groups of two gateways."""
        return self.by_pair.get((one, other)) or self.by_pair.get((other, one), ())

    def to(self, gateway: str, branch: str) -> tuple[Group, ...]:
        """Give the groups of a gateway to a branch: to all of the branch's gateways."""
        first, second = self.between(gateway, branch), second_of(branch)
        return (*first, *self.between(gateway, second)) if second in self.branches else first


def fabric(
    branches: Mapping[str, Branch],
    settings: Settings,
    described: Iterable[PathGroup] = (),
    *,
    switch: SwitchKind = SwitchKind.NONE,
    mtu: int = 1500,
    like: Fabric | None = None,
    policy: Mapping[TrafficType, ClassPolicy] | None = None,
) -> Fabric:
    """Resolve the path groups of an SD-WAN.

    Args:
        branches: by name.
        settings: how packets are carried.
        described: path groups; pairs of branches without any get the default ones.
        switch: kind of switch that forwards packets on paths through other branches.
        mtu: largest IP packet of the WAN, bytes.
        like: an SD-WAN that may be alike; what is equal is taken from it.
        policy: what each class is granted.
    """
    described = tuple(described)
    if like is not None:
        before = like.branches
        same = {name for name, each in branches.items() if before.get(name) == each}
        branches = {name: before[name] if name in same else each for name, each in branches.items()}
    switched = switch is not SwitchKind.NONE
    known = _known(like, branches, settings, switch) if like is not None else {}
    return Fabric(
        settings=settings,
        switch=switch,
        mtu=mtu,
        branches=dict(branches),
        groups=groups(
            branches,
            described,
            settings,
            switched=switched,
            known=known,
        ),
        described=described_pairs(branches, described),
        policy=dict(policy or {}),
    )


def _known(
    like: Fabric, branches: Mapping[str, Branch], settings: Settings, switch: SwitchKind
) -> Mapping[Pair, tuple[Group, ...]]:
    """Give the default groups that are still the same: those of pairs that have not changed."""
    was = like.settings
    if (was.transport, was.rendezvous, like.switch) != (
        settings.transport,
        settings.rendezvous,
        switch,
    ):
        return {}
    if like.settings.label_bits != settings.label_bits:  # other groups join second gateways
        return {}
    same = {name for name, each in branches.items() if like.branches.get(name) is each}
    return {
        pair: found
        for pair, found in like.by_pair.items()
        if pair not in like.described and same.issuperset(pair)
    }
