"""Steering by the network service header (RFC 8300): configurations of `hawserd function`.

A forwarder (SFF) runs at every node that classifies packets or has functions. A packet with service
index 255 - k has passed k functions. Packets travel between forwarders in VXLAN-GPE, and to and
from functions as Ethernet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import PurePosixPath
from typing import Literal, TypedDict

from hawser.overlay.config.function import (
    FIRST_INDEX,
    End,
    Firewall,
    FirewallConfig,
    FirewallRule,
    FirewallRules,
    ForwarderConfig,
    Hop,
    Port,
    Position,
    Remember,
    Rest,
    Rule,
    SffConfig,
    Target,
    Tls,
    VxlanGpe,
)
from hawser.overlay.config.function import ServicePath as CheckedPath
from hawser.overlay.lab.chain import health, ids
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.edge import inside, steered_legs
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout, SteeredChain
from hawser.overlay.lab.chain.routes import matches
from hawser.overlay.lab.plan import FirewallDaemon, ForwarderDaemon, IdsDaemon, SffDaemon
from hawser.spec.chain import Action, FunctionKind, Steering
from hawser.spec.match import PROTOCOLS, Match
from hawser.spec.service_path import ServicePath
from hawser.spec.topology import node_ports
from hawser.spec.way import Hop as WayHop

_PKI = ("pem", "key", "token")
"""Endings of the files of a server, in the lab's folder `pki`: certificate, key and tokens."""


def steer(layout: Layout, added: Additions) -> None:
    """Add the forwarders and functions of all chains that are steered by NSH."""
    found = list(layout.by(Steering.NSH))
    nodes = (node for _, _, sfp in found for node in (sfp.classifier, *sfp.nodes))
    for node in dict.fromkeys(nodes):
        _ports(layout, added, node)
        config = _forwarder(layout, node, found)
        added.daemons.append(SffDaemon(node=node, name=node, config=config))
    for name in dict.fromkeys(name for _, _, sfp in found for name in sfp.functions):
        for each in layout.instances[name]:
            if not each.function.kind.sfc_unaware:
                added.daemons.append(_function(layout, each))
    for instance, route in ids.routes(layout):
        added.routes[instance.name].append(route)


def _ports(layout: Layout, added: Additions, node: str) -> None:
    """Give a forwarder's program single packets and the Ethernet addresses of its neighbours."""
    for link in layout.topology.links.values():
        if node in {end.node for end in link.ends}:
            for end in link.ends:
                added.macs[end] = layout.mac(end)
                if end not in layout.queued:
                    added.xdp.add(end)
    added.sysctl[node]["net.ipv4.ip_forward"] = "1"
    # Packets for a queued port are passed to the kernel with a source address of this node.
    added.sysctl[node]["net.ipv4.conf.all.accept_local"] = "1"


def _forwarder(
    layout: Layout, node: str, found: list[tuple[SteeredChain, int, ServicePath]]
) -> SffConfig:
    hops = (hop for steered, spi, sfp in found for hop in _hops(layout, node, steered, spi, sfp))
    rules = (
        rule
        for steered, spi, sfp in found
        if sfp.classifier == node
        for rule in _rules(layout, steered, sfp, sfp.access.arrival, spi)
    )
    unsealed = (
        rule for steered, spi, sfp in found for rule in _unsealed(layout, node, steered, spi, sfp)
    )
    own = [name for name, found in layout.instances.items() if found[0].node == node]
    entered = (*rules, *unsealed)
    opening = _opening(layout, found, {rule.spi for rule in entered})
    checked = [*own, *(name for path in opening for name in path.functions)]
    return SffConfig(
        control=_control(node),
        ports=(*_links(layout, node, found), *_functions(layout, node)),
        forwarders=tuple(dict.fromkeys(_forwarders(layout, node, found))),
        rules=entered,
        hops=tuple(hops),
        functions=health.functions(layout, checked),
        service_paths=opening,
    )


def _opening(
    layout: Layout, found: list[tuple[SteeredChain, int, ServicePath]], spis: Collection[int]
) -> tuple[CheckedPath, ...]:
    """Give the paths that fail open: they get no packets while one of their functions is down."""
    opening = (each for each in found if each[0].chain.fail == "open" and each[1] in spis)
    paths = (health.path(layout, steered, spi, sfp) for steered, spi, sfp in opening)
    return tuple(path for path in paths if path is not None)


def _control(name: str) -> PurePosixPath:
    return PurePosixPath(f"{name}.sock")


def _links(
    layout: Layout, node: str, found: list[tuple[SteeredChain, int, ServicePath]]
) -> Iterator[Port]:
    """Give a node's ports on links. Tunnels end at those behind which chains go on."""
    trusted = {end for _, _, sfp in found for end in inside(sfp)}
    legs = [leg for _, _, sfp in found for leg in steered_legs(sfp)]
    ends = {end for leg in legs for end in (leg[0].port, leg[-1].neighbour)}
    for port in node_ports(layout.topology)[node]:
        if port in layout.addresses.inner:
            yield Port(
                name=port,
                interface=port.name,
                address=layout.address(port) if port in ends else None,
                trusted=port in trusted,
                queued=port in layout.queued,
            )


def _forwarders(
    layout: Layout, node: str, found: list[tuple[SteeredChain, int, ServicePath]]
) -> Iterator[IPv4Address]:
    """Give the addresses of the nodes from which chains come to a node."""
    for _, _, sfp in found:
        for leg in steered_legs(sfp):
            if leg[-1].there == node:
                yield layout.address(leg[0].port)


def _functions(layout: Layout, node: str) -> Iterator[Port]:
    for each in layout.every():
        if each.node == node:
            proxy = _proxy(each.function.kind)
            yield Port(name=each.name, interface=each.port, trusted=proxy is None, proxy=proxy)


def _proxy(kind: FunctionKind) -> Literal["flows", "rules"] | None:
    """Give how packets coming back from a function are assigned to their path."""
    if kind is FunctionKind.IPSEC:
        return "rules"
    return "flows" if kind.sfc_unaware else None


def _rules(
    layout: Layout, steered: SteeredChain, sfp: ServicePath, port: str, spi: int
) -> Iterator[Rule]:
    for what in matches(layout, steered, sfp):
        name = f"{sfp.classifier}.{port}"
        yield Rule(port=name, spi=spi, si=FIRST_INDEX, **_looks(what))


def _unsealed(
    layout: Layout, node: str, steered: SteeredChain, spi: int, sfp: ServicePath
) -> Iterator[Rule]:
    """Classify packets that leave the tunnel between two functions onto their service path."""
    for place, (name, sealed) in enumerate(zip(sfp.functions, sfp.tunnelled, strict=True)):
        (instance, *_) = layout.instances[name]
        if sealed and instance.node == node:
            index = FIRST_INDEX - place - 1
            for what in matches(layout, steered, sfp):
                yield Rule(port=instance.name, spi=spi, si=index, **_looks(what))


class _Looks(TypedDict):
    """The fields of a packet that a rule matches."""

    source: IPv4Network | None
    destination: IPv4Network | None
    protocol: int | None
    source_ports: tuple[int, int] | None
    destination_ports: tuple[int, int] | None
    dscp: int | None


def _looks(what: Match) -> _Looks:
    return _Looks(
        source=what.source,
        destination=what.destination,
        protocol=PROTOCOLS[what.protocol] if what.protocol else None,
        source_ports=what.source_ports,
        destination_ports=what.destination_ports,
        dscp=what.dscp,
    )


def _hops(
    layout: Layout, node: str, steered: SteeredChain, spi: int, sfp: ServicePath
) -> Iterator[Hop]:
    """Give what a node does at each hop of a service path."""
    here = sfp.classifier
    for passed, (leg, name) in enumerate(zip(sfp.legs, sfp.functions, strict=False)):
        si = FIRST_INDEX - passed
        sealed = sfp.tunnelled[passed]
        if leg and here == node and not sealed:
            yield Hop(spi=spi, si=si, to=(_tunnel(layout, leg),))
        here = layout.instances[name][0].node
        if here == node and not sealed:
            back = _back(steered, spi, name)
            targets = tuple(_target(layout, name, each, back) for each in layout.instances[name])
            yield Hop(spi=spi, si=si, to=targets)
    if here == node:
        hop = sfp.legs[-1][0]
        end = End(port=hop.port, mac=layout.mac(hop.neighbour))
        yield Hop(spi=spi, si=FIRST_INDEX - len(sfp.functions), end=end)


def _back(steered: SteeredChain, spi: int, function: str) -> Position | None:
    """Give the position after a function on the reverse path, if there is one."""
    for number, sfp in steered.service_paths.items():
        if number != spi:
            passed = sfp.functions.index(function) + 1
            return Position(spi=number, si=FIRST_INDEX - passed)
    return None


def _target(layout: Layout, name: str, instance: Instance, back: Position | None) -> Target:
    kind = instance.function.kind
    answers = back if kind.sfc_unaware and kind is not FunctionKind.IPSEC else None
    checked = instance.name if health.checks(layout, name) else None
    mac = instance.macs[1]
    return Target(port=instance.name, mac=mac, back=answers, instance=checked)


def _rest(name: str, port: int) -> Rest:
    """Give the REST API of a firewall, whose files the driver makes."""
    certificate, key, token = (PurePosixPath("pki", f"{name}.{end}") for end in _PKI)
    tls = Tls(certificate=certificate, key=key)
    return Rest(listen=f"0.0.0.0:{port}", token_file=token, tls=tls)


def _tunnel(layout: Layout, leg: tuple[WayHop, ...]) -> Target:
    first, last = leg[0], leg[-1]
    tunnel = VxlanGpe(remote=layout.address(last.neighbour))
    return Target(port=first.port, mac=layout.mac(first.neighbour), vxlan_gpe=tunnel)


def _function(layout: Layout, instance: Instance) -> ForwarderDaemon | FirewallDaemon | IdsDaemon:
    name, spec = instance.name, instance.function
    ports = (Port(name=OWN_PORT, interface=OWN_PORT, trusted=True),)
    if spec.kind is FunctionKind.IDS:
        return ids.daemon(layout, instance, ports)
    if spec.kind is FunctionKind.FORWARDER:
        config = ForwarderConfig(control=_control(name), ports=ports)
        return ForwarderDaemon(node=name, name=name, config=config)
    file = f"{name}.rules.json"
    firewall = Firewall(
        rules_file=PurePosixPath(file),
        otherwise=spec.otherwise or Action.ALLOW,
        # A restarted firewall, or the instance that takes over, goes on with connections.
        remember=Remember(pick_up=True) if spec.stateful else None,
        rest=_rest(name, spec.rest) if spec.rest else None,
    )
    rules = tuple(FirewallRule(action=rule.action, **_looks(rule)) for rule in spec.rules)
    return FirewallDaemon(
        node=name,
        name=name,
        config=FirewallConfig(control=_control(name), ports=ports, firewall=firewall),
        files={file: FirewallRules(rules=rules)},
    )
