"""Functions: each has the fields of its kind, and what it names exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from hawser.spec.chain import PLACE, Chain, Function, FunctionKind
from hawser.spec.check.match import match
from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.topology import Topology, node_ports
from hawser.spec.units import Duration
from hawser.spec.validate import Issue

_OF = MappingProxyType(
    {
        "rules": FunctionKind.FIREWALL,
        "otherwise": FunctionKind.FIREWALL,
        "stateful": FunctionKind.FIREWALL,
        "rest": FunctionKind.FIREWALL,
        "detection": FunctionKind.IDS,
        "command": FunctionKind.PROXY,
        "setup": FunctionKind.PROXY,
        "files": FunctionKind.PROXY,
        "routes": FunctionKind.ROUTER,
        "peer": FunctionKind.IPSEC,
    }
)
"""The kind that has a field."""


_SHORTEST, _LONGEST = Duration(1), Duration(3600)
"""Times in which evidence is found."""


def own(loc: Loc, function: Function) -> Iterator[Issue]:
    """Check a function's fields against its kind."""
    for number, rule in enumerate(function.rules):
        yield from match((*loc, "rules", number), rule)
    for field, kind in _OF.items():
        if getattr(function, field) and function.kind is not kind:
            message = f"found {field}, but only a {_said(kind)} has that"
            yield Issue((*loc, field), message, key=True)
    if function.kind is FunctionKind.PROXY and not function.command and not function.setup:
        yield Issue((*loc, "kind"), "found proxy without command and setup, expected one of them")
    within = function.detection.evidence.within if function.detection else _SHORTEST
    if not _SHORTEST <= within <= _LONGEST:
        message = f"found {str(within)!r}, expected {_SHORTEST} to {_LONGEST}"
        yield Issue((*loc, "detection", "evidence", "within"), message)
    for number, command in enumerate(function.setup):
        if not command:
            yield Issue((*loc, "setup", number), "found no command")
    for number, route in enumerate(function.routes):
        if route.to in [other.to for other in function.routes[:number]]:
            yield Issue((*loc, "routes", number, "to"), f"found {route.to} again")


def _said(kind: FunctionKind) -> str:
    spoken = kind not in (FunctionKind.IPSEC, FunctionKind.IDS)
    return kind.value if spoken else f"function of kind {kind}"


def sensors(functions: Mapping[str, Function]) -> Iterator[Issue]:
    """Check that sensors have firewalls that they can tell what to block."""
    for name, function in functions.items():
        wanted = function.detection.firewall if function.detection else None
        if wanted is None:
            continue
        loc: Loc = ("functions", name, "detection", "firewall")
        other = functions.get(wanted)
        if other is None or other.kind is not FunctionKind.FIREWALL:
            known = [each for each, f in functions.items() if f.kind is FunctionKind.FIREWALL]
            yield Issue(loc, near(known, wanted, "firewall"))
        elif other.rest is None:
            yield Issue(loc, f"found {wanted}, which has no rest, expected one with it")
        elif other.node != function.node:
            message = f"found {wanted}, which is at {other.node}, expected one at {function.node}"
            yield Issue(loc, message)
        if function.detection and function.detection.model is None:
            message = "found a firewall without a model, expected both or neither"
            yield Issue(loc, message)


def texts(function: Function) -> Iterator[tuple[Loc, str]]:
    """Give all texts that may have placeholders of addresses, with their locations."""
    for number, word in enumerate(function.command):
        yield ("command", number), word
    for at, command in enumerate(function.setup):
        for number, word in enumerate(command):
            yield ("setup", at, number), word
    for name, content in function.files.items():
        yield ("files", name), content


def program_texts(functions: Mapping[str, Function], topology: Topology) -> Iterator[Issue]:
    """Check that placeholders of addresses name existing nodes and ports."""
    ports = node_ports(topology)
    known = [*topology.nodes, *functions, *(port for every in ports.values() for port in every)]
    for name, function in functions.items():
        for loc, text in texts(function):
            for found in dict.fromkeys(PLACE.findall(text)):
                if found not in known:
                    yield Issue(("functions", name, *loc), near(known, found, "node or port"))


def pairs(functions: Mapping[str, Function]) -> Iterator[Issue]:
    """Check that the ends of tunnels come in pairs."""
    for name, function in functions.items():
        if function.kind is not FunctionKind.IPSEC:
            continue
        loc: Loc = ("functions", name)
        if function.peer is None:
            yield Issue((*loc, "kind"), "found ipsec without peer, expected the tunnel's other end")
            continue
        other = functions.get(function.peer)
        if other is None or other.kind is not FunctionKind.IPSEC:
            known = [each for each, f in functions.items() if f.kind is FunctionKind.IPSEC]
            others = [each for each in known if each != name]
            yield Issue((*loc, "peer"), near(others, function.peer, "function of kind ipsec"))
        elif other.peer != name or function.peer == name:
            yield Issue((*loc, "peer"), f"found {function.peer}, whose peer is {other.peer}")
        if function.instances > 1:
            message = f"found {function.instances}, but a tunnel has one program at each end"
            yield Issue((*loc, "instances"), message)


def adjacent(loc: Loc, chain: Chain, functions: Mapping[str, Function]) -> Iterator[Issue]:
    """Check that a chain passes both ends of a tunnel, one after the other."""
    names = chain.functions
    for place, name in enumerate(names):
        function = functions.get(name)
        if function is None or function.kind is not FunctionKind.IPSEC or function.peer is None:
            continue
        beside = (*names[max(0, place - 1) : place], *names[place + 1 : place + 2])
        if function.peer not in beside:
            message = f"found {name} without {function.peer} next to it, where its tunnel ends"
            yield Issue((*loc, place), message)
