"""Branches by themselves and against the topology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hawser.spec.access import may_talk
from hawser.spec.check.nat import rendezvous
from hawser.spec.check.prefix import branch_prefixes, lan_prefixes
from hawser.spec.check.topology import near
from hawser.spec.errors import choices, found
from hawser.spec.explain import Loc
from hawser.spec.overlay import (
    Branch,
    Congestion,
    Encryption,
    Overlay,
    Oversize,
    Paths,
    Recovery,
    SwitchKind,
    Transport,
)
from hawser.spec.route import route_branches
from hawser.spec.topology import Topology
from hawser.spec.validate import Issue

_PACKETS = (Transport.QUIC, Transport.NONE)
"""Transports that may have settings of `quic`; with `none` they have no effect."""


def overlay(overlay: Overlay) -> Iterator[Issue]:
    """Check branches by themselves."""
    yield from _numbers(overlay)
    yield from _unique(overlay)
    yield from branch_prefixes(overlay)
    yield from _hubs(overlay)
    yield from _access(overlay)
    if overlay.transport is Transport.QUIC and overlay.encryption is Encryption.NONE:
        message = "found none, expected tls13: the quic transport is always encrypted"
        yield Issue(("overlay", "encryption"), message)
    if overlay.tcp_proxy and overlay.transport not in _PACKETS:
        message = f"found a TCP proxy with the {overlay.transport.value} transport"
        yield Issue(("overlay", "tcp_proxy"), f"{message}, expected one only with quic")
    if overlay.congestion is not Congestion.DELAY and overlay.transport not in _PACKETS:
        message = f"found {overlay.congestion.value} with the {overlay.transport.value} transport"
        yield Issue(("overlay", "congestion"), f"{message}, expected it only with quic")
    if overlay.recovery is not Recovery.RESEND and overlay.transport not in _PACKETS:
        message = f"found {overlay.recovery.value} with the {overlay.transport.value} transport"
        yield Issue(("overlay", "recovery"), f"{message}, expected it only with quic")
    if not overlay.resequence and overlay.transport not in _PACKETS:
        message = f"found false with the {overlay.transport.value} transport"
        yield Issue(("overlay", "resequence"), f"{message}, expected it only with quic")
    if not overlay.header_compression and overlay.transport not in _PACKETS:
        message = f"found false with the {overlay.transport.value} transport"
        yield Issue(("overlay", "header_compression"), f"{message}, expected it only with quic")
    if overlay.label_bits == 5 and overlay.transport not in _PACKETS:
        message = f"found {overlay.label_bits} with the {overlay.transport.value} transport"
        yield Issue(("overlay", "label_bits"), f"{message}, expected it only with quic")
    yield from _oversize(overlay)
    yield from _automatic(overlay)
    yield from rendezvous(overlay)


def _hubs(overlay: Overlay) -> Iterator[Issue]:
    for place, hub in enumerate(overlay.hubs):
        if hub not in overlay.branches:
            message = f"found {found(hub)}, {choices(overlay.branches)}"
            yield Issue(("overlay", "hubs", place), message)


def _access(overlay: Overlay) -> Iterator[Issue]:
    for name, others in overlay.access.items():
        if name not in overlay.branches:
            message = f"found {found(name)}, {choices(overlay.branches, name)}"
            yield Issue(("overlay", "access", name), message, key=True)
        for place, other in enumerate(others):
            if other not in overlay.branches:
                message = f"found {found(other)}, {choices(overlay.branches, other)}"
                yield Issue(("overlay", "access", name, place), message)
    for name, group in overlay.path_groups.items():
        for place, route in enumerate(group.paths[:1]):
            one, other = route_branches(route)
            if not may_talk(overlay.access, one, other):
                message = f"found a path between {one} and {other}, which access keeps apart"
                yield Issue(("overlay", "path_groups", name, "paths", place), message)


def _oversize(overlay: Overlay) -> Iterator[Issue]:
    if overlay.oversize is not Oversize.ANSWER and overlay.transport not in _PACKETS:
        message = f"found {overlay.oversize.value} with the {overlay.transport.value} transport"
        yield Issue(("overlay", "oversize"), f"{message}, expected it only with quic")


def _automatic(overlay: Overlay) -> Iterator[Issue]:
    """Check that paths can be chosen: only `quic` has groups of any number of paths."""
    if overlay.paths is not Paths.AUTOMATIC:
        return
    if overlay.transport not in _PACKETS:
        message = f"found automatic with the {overlay.transport.value} transport"
        yield Issue(("overlay", "paths"), f"{message}, expected it only with quic")
    if overlay.switch not in (None, SwitchKind.BPF):
        message = f"found automatic with the switch {overlay.switch.value}, expected bpf"
        yield Issue(("overlay", "paths"), message)


def _numbers(overlay: Overlay) -> Iterator[Issue]:
    """Check that path labels have room for the branches. Groups are checked elsewhere."""
    space = overlay.label_space
    room = f"with {space.cause} a path label has {space.branch_bits} bits for"
    if len(overlay.branches) > space.branches:
        message = f"found {len(overlay.branches)} branches, expected at most {space.branches}"
        yield Issue(("overlay", "branches"), f"{message}: {room} a branch")
        return
    for name, branch in overlay.branches.items():
        if branch.id >= space.branches:
            message = f"found {branch.id}, expected 0 to {space.branches - 1}: {room} it"
            yield Issue(("overlay", "branches", name, "id"), message)


def overlay_on(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check that an overlay fits its topology."""
    lan_ports = {end for link in topology.links.values() for end in link.ends}
    wan_ports: dict[str, list[str]] = {}
    for port in topology.internet.ports if topology.internet else ():
        wan_ports.setdefault(port.node, []).append(port.name)
    for name, branch in overlay.branches.items():
        loc: Loc = ("overlay", "branches", name)
        if branch.gateway not in topology.nodes:
            yield Issue((*loc, "gateway"), near(topology.nodes, branch.gateway, "node"))
            continue
        yield from _wan(loc, branch, wan_ports.get(branch.gateway, []))
        if branch.lan_port not in lan_ports:
            message = f"found {found(branch.lan)}, expected a port of {branch.gateway} with a link"
            yield Issue((*loc, "lan"), message)
    yield from _lans(topology, overlay)
    yield from lan_prefixes(topology, overlay)


def _wan(loc: Loc, branch: Branch, known: Sequence[str]) -> Iterator[Issue]:
    for index, port in enumerate(branch.wan):
        if port not in known:
            what = f"internet port of {branch.gateway}"
            yield Issue((*loc, "wan", index), near(known, port, what))
        if port in branch.wan[:index]:
            yield Issue((*loc, "wan", index), f"found port {port} again")


def _unique(overlay: Overlay) -> Iterator[Issue]:
    ids: dict[int, str] = {}
    gateways: dict[str, str] = {}
    for name, branch in overlay.branches.items():
        loc: Loc = ("overlay", "branches", name)
        if branch.id in ids:
            yield Issue(
                (*loc, "id"), f"found {branch.id}, the number of branch {ids[branch.id]} too"
            )
        if branch.gateway in gateways:
            other = gateways[branch.gateway]
            yield Issue(
                (*loc, "gateway"), f"found {branch.gateway}, the gateway of branch {other} too"
            )
        ids.setdefault(branch.id, name)
        gateways.setdefault(branch.gateway, name)


def _lans(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check that no link connects the LAN ports of two gateways."""
    lans = {branch.lan_port for branch in overlay.branches.values()}
    for name, link in topology.links.items():
        if lans.issuperset(link.ends):
            message = "found the LAN ports of two branches, expected a host at one end"
            yield Issue(("topology", "links", name, "ends"), message)
