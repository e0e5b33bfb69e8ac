"""Steering by the network service header (RFC 8300): configurations of `hawserd function`.

A forwarder (SFF) stands at every node that classifies or has functions. At service index 255 - k
a packet has passed k functions. Between forwarders it travels in VXLAN-GPE, to and from a function
as Ethernet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout, Led, out
from hawser.overlay.lab.chain.routes import matches
from hawser.overlay.lab.plan import DaemonPlan
from hawser.spec.chain import Action, FunctionKind, Steering
from hawser.spec.course import Course
from hawser.spec.match import PROTOCOLS, Match
from hawser.spec.topology import node_ports
from hawser.spec.way import Hop

VERSION = 1
FIRST_INDEX = 255
"""Service index at the first function (RFC 8300 section 2.3)."""
_REMEMBERED = {"flows": 262_144, "idle_s": 300}

Config = dict[str, Any]


def steer(layout: Layout, added: Additions) -> None:
    """Add the forwarders and functions of all chains that are steered by NSH."""
    found = list(layout.by(Steering.NSH))
    nodes = (node for _, _, course in found for node in (course.classifier, *course.nodes))
    for node in dict.fromkeys(nodes):
        _ports(layout, added, node)
        config = _forwarder(layout, node, found)
        added.daemons.append(DaemonPlan(node=node, role="sff", name=node, config=config))
    for name in dict.fromkeys(name for _, _, course in found for name in course.functions):
        for each in layout.instances[name]:
            if not each.function.kind.bare:
                added.daemons.append(_function(each))


def _ports(layout: Layout, added: Additions, node: str) -> None:
    """Let a forwarder's program see packets as they are, and know whom it sends to."""
    for link in layout.topology.links.values():
        if node in {end.partition(".")[0] for end in link.ends}:
            for end in link.ends:
                added.macs[end] = layout.mac(end)
                if end not in layout.queued:
                    added.xdp.add(end)
    added.sysctl[node]["net.ipv4.ip_forward"] = "1"
    # What leaves by a queued port comes to the kernel from a port, with an address of this node.
    added.sysctl[node]["net.ipv4.conf.all.accept_local"] = "1"


def _forwarder(layout: Layout, node: str, found: list[tuple[Led, int, Course]]) -> Config:
    hops = (hop for led, spi, course in found for hop in _hops(layout, node, led, spi, course))
    rules = (
        rule
        for led, spi, course in found
        if course.classifier == node
        for rule in _rules(layout, led, course, course.access.arrival, spi)
    )
    unsealed = (
        rule for led, spi, course in found for rule in _unsealed(layout, node, led, spi, course)
    )
    return {
        "version": VERSION,
        "control": f"{node}.sock",
        "ports": [*_links(layout, node), *_functions(layout, node)],
        "rules": [*rules, *unsealed],
        "hops": list(hops),
    }


def _links(layout: Layout, node: str) -> Iterator[Config]:
    for port in node_ports(layout.topology)[node]:
        name = f"{node}.{port}"
        if name in layout.addresses.inner:
            address = str(layout.address(name))
            queued = {"queued": True} if name in layout.queued else {}
            yield {"name": name, "interface": port, "address": address, **queued}


def _functions(layout: Layout, node: str) -> Iterator[Config]:
    for each in layout.every():
        if each.node == node:
            kind = each.function.kind
            by = {"proxy": "rules" if kind is FunctionKind.IPSEC else "flows"} if kind.bare else {}
            yield {"name": each.name, "interface": each.port, **by}


def _rules(layout: Layout, led: Led, course: Course, port: str, spi: int) -> Iterator[Config]:
    for what in matches(layout, led, course):
        name = f"{course.classifier}.{port}"
        yield {"port": name, **_looks(what), "spi": spi, "si": FIRST_INDEX}


def _unsealed(layout: Layout, node: str, led: Led, spi: int, course: Course) -> Iterator[Config]:
    """Put packets that come out of a tunnel between two functions back on their course."""
    for place, (name, sealed) in enumerate(zip(course.functions, course.sealed, strict=True)):
        (instance, *_) = layout.instances[name]
        if sealed and instance.node == node:
            index = FIRST_INDEX - place - 1
            for what in matches(layout, led, course):
                yield {"port": instance.name, **_looks(what), "spi": spi, "si": index}


def _looks(what: Match) -> Config:
    """Give what a rule looks at, and nothing of what it does not."""
    values: Config = {
        "source": str(what.source) if what.source else None,
        "destination": str(what.destination) if what.destination else None,
        "protocol": PROTOCOLS[what.protocol] if what.protocol else None,
        "source_ports": what.source_ports and list(what.source_ports),
        "destination_ports": what.destination_ports and list(what.destination_ports),
        "dscp": what.dscp,
    }
    return {name: value for name, value in values.items() if value is not None}


def _hops(layout: Layout, node: str, led: Led, spi: int, course: Course) -> Iterator[Config]:
    """Give what a node does at each place of a course."""
    here = course.classifier
    for passed, (leg, name) in enumerate(zip(course.legs, course.functions, strict=False)):
        place = {"spi": spi, "si": FIRST_INDEX - passed}
        sealed = course.sealed[passed]
        if leg and here == node and not sealed:
            yield {**place, "to": [_tunnel(layout, leg)]}
        here = layout.instances[name][0].node
        if here == node and not sealed:
            back = _back(led, spi, name)
            yield {**place, "to": [_target(each, back) for each in layout.instances[name]]}
    if here == node:
        hop = course.legs[-1][0]
        end = {"port": out(hop), "mac": layout.mac(hop.neighbour)}
        yield {"spi": spi, "si": FIRST_INDEX - len(course.functions), "end": end}


def _back(led: Led, spi: int, function: str) -> Config | None:
    """Give the place behind a function on the way back, if it is passed there."""
    for number, course in led.courses.items():
        if number != spi:
            passed = course.functions.index(function) + 1
            return {"spi": number, "si": FIRST_INDEX - passed}
    return None


def _target(instance: Instance, back: Config | None) -> Config:
    kind = instance.function.kind
    answers = {"back": back} if back and kind.bare and kind is not FunctionKind.IPSEC else {}
    return {"port": instance.name, "mac": instance.macs[1], **answers}


def _tunnel(layout: Layout, leg: tuple[Hop, ...]) -> Config:
    first, last = leg[0], leg[-1]
    remote = str(layout.address(last.neighbour))
    return {
        "port": out(first),
        "mac": layout.mac(first.neighbour),
        "vxlan_gpe": {"remote": remote},
    }


def _function(instance: Instance) -> DaemonPlan:
    name, spec = instance.name, instance.function
    config: Config = {
        "version": VERSION,
        "control": f"{name}.sock",
        "ports": [{"name": OWN_PORT, "interface": OWN_PORT}],
    }
    if spec.kind is FunctionKind.FORWARDER:
        return DaemonPlan(node=name, role="forwarder", name=name, config=config)
    file = f"{name}.rules.json"
    config["firewall"] = {
        "rules_file": file,
        "otherwise": (spec.otherwise or Action.ALLOW).value,
        **({"remember": _REMEMBERED} if spec.stateful else {}),
    }
    rules = [{**_looks(rule), "action": rule.action.value} for rule in spec.rules]
    files: dict[str, object] = {file: {"rules": rules}}
    return DaemonPlan(node=name, role="firewall", name=name, config=config, files=files)
