"""Chains: what they name exists, can be steered as configured, and leaves a sufficient MTU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from hawser.spec.chain import (
    LEAST_LINK_MTU_IPV6,
    MAX_FUNCTIONS,
    Chain,
    Encapsulation,
    Function,
    FunctionKind,
    Proxy,
    Steering,
    instances,
    proxy_name,
)
from hawser.spec.check.function import adjacent, own, pairs, program_texts, sensors
from hawser.spec.check.match import match
from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.names import RESERVED
from hawser.spec.overlay import Overlay
from hawser.spec.port import Port
from hawser.spec.service_path import ServicePath, link_mtus, mtu, overhead, service_paths
from hawser.spec.topology import Topology, components, node_ports
from hawser.spec.tunnel import Tunnel
from hawser.spec.validate import Issue

LEAST_MTU = 576
"""Bytes of a packet that every IPv4 host must accept (RFC 791 section 3.1)."""

MOST_MTU_XDP = 3400
"""Largest packet for XDP at a veth, with chain headers, bytes: it must fit into a page."""

MOST_PROXIED = 9
"""Functions in a chain with proxies: a proxy can add ten segments."""

_BEHIND_SRV6 = (FunctionKind.PROXY, FunctionKind.ROUTER)
"""Kinds of functions that can be behind an SR proxy."""

_FUNCTION_PORT = re.compile(r"sf[0-9]+")
"""Interfaces of nodes to functions."""


def functions(functions: Mapping[str, Function], topology: Topology) -> Iterator[Issue]:
    """Check functions by themselves and against the topology."""
    total = sum(each.instances for each in functions.values())
    if total > MAX_FUNCTIONS:
        message = f"found {total} instances of functions, expected at most {MAX_FUNCTIONS}"
        yield Issue(("functions",), message)
    names = Counter(name for key, each in functions.items() for name in _nodes_of(key, each))
    for name, function in functions.items():
        loc: Loc = ("functions", name)
        for taken in _nodes_of(name, function):
            if taken in topology.nodes or taken in RESERVED or names[taken] > 1:
                message = f"found {taken!r}, which is the name of another function or node"
                yield Issue(loc, message, key=True)
        yield from _place(loc, function, topology)
        yield from own(loc, function)
    yield from program_texts(functions, topology)
    yield from pairs(functions)
    yield from sensors(functions)


def _nodes_of(name: str, function: Function) -> Iterator[str]:
    yield from instances(name, function)
    if function.proxy:
        yield proxy_name(name)


def _place(loc: Loc, function: Function, topology: Topology) -> Iterator[Issue]:
    if function.node not in topology.nodes:
        yield Issue((*loc, "node"), near(topology.nodes, function.node, "node"))
        return
    for port in node_ports(topology)[function.node]:
        if _FUNCTION_PORT.fullmatch(port.name):
            message = (
                f"found {function.node}, whose port {port.name} has the name of a function's port"
            )
            yield Issue((*loc, "node"), f"{message}; expected another name than sf and a number")


def chains(
    chains: Mapping[str, Chain],
    functions: Mapping[str, Function],
    topology: Topology,
    overlay: Overlay | None,
    tunnels: Mapping[str, Tunnel],
) -> Iterator[Issue]:
    """Check chains whose functions and topology are right."""
    for name, chain in chains.items():
        loc: Loc = ("chains", name)
        wrong = [*_names(loc, chain, functions, topology), *_ends(loc, chain, functions, topology)]
        yield from wrong
        yield from _settings(loc, chain, functions)
        yield from adjacent((*loc, "functions"), chain, functions)
        if not wrong:
            found = list(service_paths(topology, functions, chain))
            yield from _nodes(loc, found, chain, overlay, tunnels)
            yield from _loops(loc, found, chain)
            yield from _mtu(loc, found, chain, topology, tunnels)
            yield from _jumbo(loc, chain, functions, topology)
    yield from _one_steering(chains, functions)
    yield from _one_list(chains, functions)


def _names(
    loc: Loc, chain: Chain, functions: Mapping[str, Function], topology: Topology
) -> Iterator[Issue]:
    for field, node in (("from", chain.source), ("to", chain.target)):
        if node not in topology.nodes:
            yield Issue((*loc, field), near(topology.nodes, node, "node"))
    for number, name in enumerate(chain.functions):
        if name not in functions:
            yield Issue((*loc, "functions", number), near(functions, name, "function"))
        elif name in chain.functions[:number]:
            message = f"found {name} again: packets would loop"
            yield Issue((*loc, "functions", number), message)


def _ends(
    loc: Loc, chain: Chain, functions: Mapping[str, Function], topology: Topology
) -> Iterator[Issue]:
    """Check that links join a chain's nodes, with one between its ends to classify packets."""
    known = [f for f in chain.functions if f in functions and functions[f].node in topology.nodes]
    nodes = {chain.source, chain.target} & set(topology.nodes)
    for field, node in (("from", chain.source), ("to", chain.target)):
        for name in known:
            if functions[name].node == node:
                message = f"found {node}, the node of function {name}; expected a node beyond it"
                yield Issue((*loc, field), message)
    if chain.source == chain.target:
        yield Issue((*loc, "to"), "found the same node as from, expected another")
    elif len(nodes) == 2:
        whole = nodes | {functions[name].node for name in known}
        if not any(whole <= part for part in components(topology)):
            yield Issue((*loc, "to"), "no links connect its ends and its functions' nodes")
        elif any(_between(topology, *sorted(nodes))):
            message = f"found a link from {chain.source}, expected a node between to classify"
            yield Issue((*loc, "to"), f"{message} packets")


def _between(topology: Topology, one: str, other: str) -> Iterator[bool]:
    for link in topology.links.values():
        yield {end.node for end in link.ends} == {one, other}


def _settings(loc: Loc, chain: Chain, functions: Mapping[str, Function]) -> Iterator[Issue]:
    yield from match((*loc, "match"), chain.match)
    yield from _proxies(loc, chain, functions)
    yield from _srv6(loc, chain)
    if chain.steering is Steering.NSH:
        yield from _proxied(loc, chain, functions)
        return
    expected = "expected steering: nsh"
    if chain.match.dscp is not None:
        message = f"found a code point, which {chain.steering} cannot match; {expected}"
        yield Issue((*loc, "match", "dscp"), message)
    for number, name in enumerate(chain.functions):
        function = functions.get(name)
        if function is None:
            continue
        where: Loc = (*loc, "functions", number)
        if not _steers(chain.steering, function):
            kind = f"of kind {function.kind}"
            message = f"found {name}, {kind}, which cannot be steered by {chain.steering}"
            stands = chain.steering is Steering.SRV6 and function.kind in _BEHIND_SRV6
            yield Issue(where, f"{message}; {expected}" + (", or a proxy for it" if stands else ""))
        if function.instances > 1:
            message = f"found {name}, which has {function.instances} instances; {expected}"
            yield Issue(where, message)


def _steers(steering: Steering, function: Function) -> bool:
    """Whether routes or SRv6 can steer packets through a function."""
    if function.kind is FunctionKind.FORWARDER:
        return True
    if steering is Steering.ROUTES:
        return function.kind.sfc_unaware
    return function.kind in _BEHIND_SRV6 and function.proxy is not None


def _srv6(loc: Loc, chain: Chain) -> Iterator[Issue]:
    if chain.srv6 and chain.steering is not Steering.SRV6:
        message = f"found settings of srv6, but the chain is steered by {chain.steering}"
        yield Issue((*loc, "srv6"), message, key=True)
    if chain.encapsulation is Encapsulation.INSERTED and not chain.carries_ipv6:
        message = "found insert, but no IPv6 packets pass the chain; expected ipv6: true with it"
        yield Issue((*loc, "srv6", "mode"), message)
    if chain.carries_ipv6 and not chain.symmetric:
        message = (
            "found ipv6 with symmetric: false, but replies outside of chains are IPv4 only;"
            " expected symmetric: true"
        )
        yield Issue((*loc, "srv6", "ipv6"), message)
    if chain.carries_ipv6 and (chain.match.source or chain.match.destination):
        message = "found ipv6 and a match on IPv4 addresses, expected one without addresses"
        yield Issue((*loc, "srv6", "ipv6"), message)


def _proxies(loc: Loc, chain: Chain, functions: Mapping[str, Function]) -> Iterator[Issue]:
    """Check that functions behind SR proxies are steered by SRv6, with few enough segments."""
    for number, name in enumerate(chain.functions):
        kind = functions[name].proxy if name in functions else None
        where: Loc = (*loc, "functions", number)
        if kind and chain.steering is not Steering.SRV6:
            message = f"found {name}, which has a proxy for srv6; expected steering: srv6"
            yield Issue(where, message)
        elif kind and kind is not Proxy.MASQUERADING and len(chain.functions) > MOST_PROXIED:
            message = f"found {len(chain.functions)} functions, but proxy: {kind} can add the"
            yield Issue(where, f"{message} segments of at most {MOST_PROXIED}")
            break
        elif (
            kind
            and kind is not Proxy.MASQUERADING
            and chain.encapsulation is Encapsulation.INSERTED
        ):
            message = f"found {name}, whose proxy ({kind}) removes the outer header, but with mode:"
            yield Issue(where, f"{message} insert there is none; expected encap or masquerading")


def _proxied(loc: Loc, chain: Chain, functions: Mapping[str, Function]) -> Iterator[Issue]:
    """SFC proxies assign packets to flows by addresses and ports, not by code points."""
    known = [
        name for name in chain.functions if name in functions and functions[name].kind.sfc_unaware
    ]
    if known and chain.match.dscp is not None:
        message = f"found a code point, which the proxy of {known[0]} cannot use to identify flows"
        yield Issue((*loc, "match", "dscp"), message)


def _nodes(
    loc: Loc,
    found: list[ServicePath],
    chain: Chain,
    overlay: Overlay | None,
    tunnels: Mapping[str, Tunnel],
) -> Iterator[Issue]:
    """Check that gateways and VPN tunnels do not take a chain's packets from its nodes."""
    gateways = {branch.gateway for branch in overlay.branches.values()} if overlay else set()
    ends = {end.node: name for name, t in tunnels.items() for end in t.ends}
    for node in dict.fromkeys(node for each in found for node in (each.classifier, *each.nodes)):
        if node in gateways:
            message = f"found {node} on its path, a branch's gateway; expected other nodes"
            yield Issue((*loc, "functions"), message)
        elif node in ends:
            message = f"found {node} on its path, where tunnel {ends[node]} ends; expected other"
            yield Issue((*loc, "functions"), f"{message} nodes")
    crossed = [h.there for c in found for h in c.steered if {h.node, h.there} <= set(ends)]
    if crossed and chain.steering is Steering.SRV6:
        message = f"found srv6 over tunnel {ends[crossed[0]]}, which carries no IPv6"
        yield Issue((*loc, "steering"), message)


def _loops(loc: Loc, found: list[ServicePath], chain: Chain) -> Iterator[Issue]:
    """Routes find a packet's place in its chain by its incoming interface, which must be unique."""
    if chain.steering is not Steering.ROUTES:
        return
    for sfp in found:
        for (node, interface), count in Counter(sfp.arrivals()).items():
            if count > 1:
                message = f"found routes, but packets reach {node} by {interface} {count} times:"
                yield Issue((*loc, "steering"), f"{message} they would loop")


def _mtu(
    loc: Loc,
    found: list[ServicePath],
    chain: Chain,
    topology: Topology,
    tunnels: Mapping[str, Tunnel],
) -> Iterator[Issue]:
    for sfp in found:
        largest = mtu(topology, tunnels, chain, sfp)
        if largest < LEAST_MTU:
            extra = overhead(chain)
            message = (
                f"leaves {largest} bytes for a packet on the links it passes, expected at least"
            )
            whole = f"{chain.steering} {message} {LEAST_MTU}: their mtu must be {extra} larger"
            yield Issue((*loc, "steering"), whole)
            break
    mtus = link_mtus(topology, tunnels)
    wide = [mtus[p] for c in found for p in _programs(topology, c) if mtus[p] > MOST_MTU_XDP]
    if wide and chain.steering is Steering.NSH:
        message = f"found nsh over a link of {wide[0]} bytes, expected at most {MOST_MTU_XDP}"
        yield Issue((*loc, "steering"), message)
    if chain.carries_ipv6 and largest < LEAST_LINK_MTU_IPV6:
        message = (
            f"found ipv6, but {largest} bytes for a packet on the links it passes, expected at"
        )
        yield Issue((*loc, "srv6", "ipv6"), f"{message} least {LEAST_LINK_MTU_IPV6}")
    narrow = [h for c in found for h in c.steered if mtus[h.neighbour] < LEAST_LINK_MTU_IPV6]
    if narrow and chain.steering is Steering.SRV6:
        message = f"found srv6 over a link of {mtus[narrow[0].neighbour]} bytes, expected an mtu"
        yield Issue((*loc, "steering"), f"{message} of at least {LEAST_LINK_MTU_IPV6}")


def _jumbo(
    loc: Loc, chain: Chain, functions: Mapping[str, Function], topology: Topology
) -> Iterator[Issue]:
    """The XDP program of a proxy sees packets with all headers."""
    widest = max(link.mtu for link in topology.links.values())
    if widest + overhead(chain) <= MOST_MTU_XDP:
        return
    for number, name in enumerate(chain.functions):
        if functions[name].proxy:
            most = MOST_MTU_XDP - overhead(chain)
            message = f"found {name} behind a proxy and a link of {widest} bytes, expected at most"
            yield Issue((*loc, "functions", number), f"{message} {most}")


def _programs(topology: Topology, sfp: ServicePath) -> Iterator[Port]:
    """Give the ports of the nodes that steer a service path's packets."""
    nodes = {sfp.classifier, *sfp.nodes}
    for link in topology.links.values():
        yield from (end for end in link.ends if end.node in nodes)


def _one_steering(
    chains: Mapping[str, Chain], functions: Mapping[str, Function]
) -> Iterator[Issue]:
    """Check that all chains of a function have the same kind of steering."""
    by: dict[str, tuple[str, Steering]] = {}
    for name, chain in chains.items():
        for number, function in enumerate(chain.functions):
            other, steering = by.setdefault(function, (name, chain.steering))
            if steering is not chain.steering and function in functions:
                message = f"found {function}, which chain {other} steers by {steering}"
                yield Issue(("chains", name, "functions", number), message)


def _one_list(chains: Mapping[str, Chain], functions: Mapping[str, Function]) -> Iterator[Issue]:
    """Check that a proxy that adds headers is in one chain only."""
    first: dict[str, str] = {}
    for name, chain in chains.items():
        for number, function in enumerate(chain.functions):
            kind = functions[function].proxy if function in functions else None
            other = first.setdefault(function, name)
            if kind in {Proxy.STATIC, Proxy.DYNAMIC} and other != name:
                message = f"found {function}, whose proxy ({kind}) can serve only chain {other}"
                yield Issue(("chains", name, "functions", number), message)
