"""Leading classes of traffic through service functions: nftables marks, routing tables lead.

    lan0 --> [mark 1] --> fw0, function --> fw1 --> [no mark] --> TUN device --> peer
    lan0 <-- [no mark] <-- fw0, function <-- fw1 <-- [mark 2] <-- TUN device <-- peer

The class is that of a connection: its first packets, in the direction in which it began, are
classified by the gateway's rules, and bits of the conntrack mark keep it. So both directions of a
connection pass the same functions. A mark chooses a routing table with one route, to the function.
Where that is not possible, packets are refused (ICMP) rather than led past it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from pyroute2 import IPRoute, NetlinkError

from hawser.control.client import ControlError
from hawser.node.base import NodeError
from hawser.node.netns import nft
from hawser.overlay.config.gateway import ClassifierRule, GatewayConfig
from hawser.overlay.config.steering import Steering
from hawser.spec.match import PROTOCOLS
from hawser.spec.overlay import TrafficType

_log = logging.getLogger(__name__)

_TABLE: Final = "hawser_chains"
_FIRST: Final = 0x4858
"""The first routing table. Packet marks have the same numbers."""
_MOST: Final = 64
"""Routing tables."""
_PRIORITY: Final = 1001
"""Of the routing rules: after local addresses (0) and breakout (1000), before the main table."""
_BITS: Final = 0x3000_0000
"""Bits of the conntrack mark that hold the class."""
_CLASSES: Final = {TrafficType.I: 0x1000_0000, TrafficType.II: 0x2000_0000}
_LAST_METRIC: Final = 0xFFFF_FF00
_STRICT, _LOOSE = "1", "2"
"""Reverse path filtering (RFC 3704). A function sends packets that came from elsewhere."""


@dataclass(frozen=True)
class Step:
    """Where packets of a class that arrive by an interface are sent."""

    traffic: TrafficType
    arrives: str
    interface: str
    next_hop: IPv4Address


def outward(steering: Steering) -> Iterator[Step]:
    """Give the steps of packets from the branch."""
    for traffic, chain in steering.chains.items():
        arrives = steering.lan
        for function in chain:
            yield Step(traffic, arrives, function.interface, function.next_hop)
            arrives = function.return_interface


def inward(steering: Steering, tun: str) -> Iterator[Step]:
    """Give the steps of packets to the branch, which pass the functions in reverse order."""
    for traffic, chain in steering.chains.items():
        arrives = tun
        for function in reversed(chain):
            yield Step(traffic, arrives, function.return_interface, function.return_next_hop)
            arrives = function.interface


def tables(steering: Steering) -> Mapping[tuple[str, IPv4Address], int]:
    """Give a routing table for each way to a function."""
    steps = (*outward(steering), *inward(steering, ""))
    ways = dict.fromkeys((step.interface, step.next_hop) for step in steps)
    return {way: number for number, way in enumerate(ways, _FIRST)}


def ruleset(config: GatewayConfig, steering: Steering) -> str:
    """Give the nftables table, which replaces the one before."""
    own = _prefixes(config.local or ())
    others = _prefixes(prefix for peer in config.peers for prefix in peer.prefixes)
    ways, known = tables(steering), own and others
    from_branch, to_branch = outward(steering), inward(steering, config.tun.name)
    entries = f'{{ "{steering.lan}", "{config.tun.name}" }}'
    lines = [
        f"table inet {_TABLE}",
        f"delete table inet {_TABLE}",
        f"table inet {_TABLE} {{",
        "chain prerouting {",
        "type filter hook prerouting priority mangle;",
        f"ip saddr {own} ip daddr {others} goto outward" if known else "",
        f"ip saddr {others} ip daddr {own} goto inward" if known else "",
        "}",
    ]
    for name, steps in (("outward", from_branch), ("inward", to_branch)):
        lines += [
            f"chain {name} {{",
            # Such packets have no connection, and so no class.
            f"iifname {entries} ct state invalid,untracked counter drop",
            f"iifname {entries} ct direction original jump classify",
            *(_mark(step, ways) for step in steps),
            "}",
        ]
    lines += [*_classify(config, steering), "}"]
    return "\n".join(filter(None, lines)) + "\n"


def _prefixes(prefixes: Iterable[object]) -> str:
    found = [str(each) for each in prefixes if isinstance(each, IPv4Network)]
    return f"{{ {', '.join(found)} }}" if found else ""


def _mark(step: Step, ways: Mapping[tuple[str, IPv4Address], int]) -> str:
    mark = ways[step.interface, step.next_hop]
    of_class = f"ct mark and {_BITS:#x} == {_CLASSES[step.traffic]:#x}"
    return f'iifname "{step.arrives}" {of_class} counter meta mark set {mark:#x} return'


def _classify(config: GatewayConfig, steering: Steering) -> Iterator[str]:
    """Give the chains that put the class of a packet into its connection's mark."""
    default = TrafficType.II
    for traffic in TrafficType:
        bits = _CLASSES[traffic] if traffic in steering.chains else 0
        yield f"chain type_{traffic.value.lower()} {{"
        yield f"ct mark set ct mark and {0xFFFF_FFFF & ~_BITS:#x} or {bits:#x}"
        yield "}"
    yield "chain classify {"
    if config.classifier is not None:
        default = config.classifier.default
        for rule in config.classifier.rules:
            if (found := _conditions(rule)) is not None:
                yield f"{found} goto type_{rule.type.value.lower()}"
    yield f"goto type_{default.value.lower()}"
    yield "}"


def _conditions(rule: ClassifierRule) -> str | None:
    """Give a rule's conditions; None where it is about IPv6."""
    words = ["meta nfproto ipv4"]
    for what, network in (("saddr", rule.source), ("daddr", rule.destination)):
        if network is not None:
            if network.version != 4:
                return None
            words.append(f"ip {what} {network}")
    ports = (("sport", rule.source_ports), ("dport", rule.destination_ports))
    if rule.protocol is not None:
        words.append(f"meta l4proto {PROTOCOLS.get(str(rule.protocol), rule.protocol)}")
    elif rule.source_ports or rule.destination_ports:
        words.append("meta l4proto { tcp, udp }")
    words += [f"th {what} {each[0]}-{each[1]}" for what, each in ports if each]
    if rule.dscp is not None:
        words.append(f"ip dscp {rule.dscp}")
    return " ".join(words)


class UnreachedError(ControlError):
    """Chains are in force, but a function cannot be reached: packets to it are refused."""


class Chains:
    """The chains of this machine's gateway. They stay in force without the agent."""

    def __init__(self) -> None:
        self._steering: Steering | None = None
        self._complaint = ""

    def apply(self, config: GatewayConfig, steering: Steering | None) -> None:
        """Put chains in force; None removes them.

        Raises:
            UnreachedError: they are in force, and the packets of some function are refused.
            ControlError: it is not possible.
        """
        self._steering = steering
        try:
            if steering is None:
                self._remove()
            else:
                self._put(config, steering)
        except (OSError, NodeError, NetlinkError) as error:
            raise ControlError(f"service functions: {_reason(error)}") from error

    def refresh(self) -> None:
        """Put routes back that went away with an interface."""
        if self._steering is None:
            return
        complaint = ""
        try:
            with IPRoute() as route:
                _routes(route, tables(self._steering))
        except (OSError, NetlinkError) as error:
            complaint = _reason(error)
        if complaint and complaint != self._complaint:
            _log.warning("service functions: %s", complaint)
        self._complaint = complaint

    def _put(self, config: GatewayConfig, steering: Steering) -> None:
        ways = tables(steering)
        with IPRoute() as route:
            for number in ways.values():
                _refuse(route, number)
            have = set(_rules(route))
            for number in set(ways.values()) - have:
                route.rule("add", table=number, fwmark=number, priority=_PRIORITY)
            nft.apply(ruleset(config, steering))
            for number in have - set(ways.values()):
                _forget(route, number)
            # Only now: at no time are packets led past a function that is not there yet.
            try:
                _routes(route, ways)
                for interface, _ in ways:
                    _accept_returns(interface)
            except (OSError, NetlinkError) as error:
                raise UnreachedError(f"service functions: {_reason(error)}") from error

    def _remove(self) -> None:
        with IPRoute() as route:
            have = set(_rules(route))
            if not have:
                return  # nothing was ever put in force
            nft.apply(f"table inet {_TABLE}\ndelete table inet {_TABLE}\n")
            for number in have:
                _forget(route, number)


def _rules(route: IPRoute) -> Iterator[int]:
    """Give the tables that rules of ours lead to."""
    for rule in route.get_rules(family=socket.AF_INET):
        table = rule.get_attr("FRA_TABLE") or 0
        ours = rule.get_attr("FRA_PRIORITY") == _PRIORITY
        if ours and table in range(_FIRST, _FIRST + _MOST):
            yield table


def _routes(route: IPRoute, ways: Mapping[tuple[str, IPv4Address], int]) -> None:
    for (interface, next_hop), table in ways.items():
        found = route.link_lookup(ifname=interface)
        if not found:
            raise OSError(errno.ENODEV, f"there is no interface {interface}")
        route.route(
            "replace", dst="0.0.0.0/0", gateway=str(next_hop), oif=found[0], table=table, priority=1
        )


def _refuse(route: IPRoute, table: int) -> None:
    """Refuse packets for which the table has no other route."""
    last = {"dst": "0.0.0.0/0", "table": table, "priority": _LAST_METRIC}
    route.route("replace", type="unreachable", **last)


def _forget(route: IPRoute, table: int) -> None:
    route.rule("delete", table=table, fwmark=table, priority=_PRIORITY)
    with contextlib.suppress(NetlinkError):
        route.flush_routes(table=table)


def _accept_returns(interface: str) -> None:
    """Let packets arrive by the interface that would be sent by another."""
    base = Path("/proc/sys/net/ipv4/conf")
    own, every = (base / name / "rp_filter" for name in (interface, "all"))
    if _STRICT in (own.read_text().strip(), every.read_text().strip()):
        own.write_text(_LOOSE)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())
