"""Ports of a load: outgoing interface with its next hop, incoming interface, addresses."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from hawser.node.base import Node
from hawser.probe.base import ProbeError

Address = IPv4Address | IPv6Address
_TIMEOUT = 10.0


@dataclass(frozen=True)
class SendingPort:
    """An interface, and the Ethernet address of its next hop."""

    interface: str
    next_hop: str


def sending_port(node: Node, source: Address, target: Address) -> SendingPort:
    """Find the interface and next hop by which a node reaches an address.

    Raises:
        ProbeError: the node has no route, or the next hop does not answer.
    """
    route = _json(node, "route", "get", str(target))[0]
    hop, interface = str(route.get("gateway", target)), str(route["dev"])
    # any packet makes the kernel resolve the next hop; a reply is not needed
    family = "-6" if target.version == 6 else "-4"
    ping = ["ping", family, "-n", "-c", "3", "-i", "0.2", "-W", "1", "-I", str(source), hop]
    node.run(ping, timeout=_TIMEOUT, check=False)
    for entry in _json(node, "neighbour", "show", hop, "dev", interface):
        if "lladdr" in entry:
            return SendingPort(interface, str(entry["lladdr"]))
    raise ProbeError(f"{node.name}: the next hop {hop} on {interface} does not answer")


def ethernet_address(node: Node, interface: str) -> str:
    """Give the Ethernet address of an interface.

    Raises:
        ProbeError: there is no such interface.
    """
    for link in _json(node, "link", "show", "dev", interface):
        if "address" in link:
            return str(link["address"])
    raise ProbeError(f"{node.name}: {interface} has no Ethernet address")


def receiving_interface(node: Node, address: Address) -> str:
    """Find the interface that has an address.

    Raises:
        ProbeError: no interface has it.
    """
    for link in _json(node, "address", "show"):
        if any(info.get("local") == str(address) for info in link.get("addr_info", [])):
            return str(link["ifname"])
    raise ProbeError(f"{node.name}: no interface has the address {address}")


@contextlib.contextmanager
def taken_on(node: Node, interface: str, addresses: Sequence[Address]) -> Iterator[None]:
    """Make a node answer for addresses as if it had them."""
    have = {
        info.get("local")
        for link in _json(node, "address", "show")
        for info in link.get("addr_info", [])
    }
    added: list[str] = []
    try:
        for address in addresses:
            if str(address) not in have:
                prefix = f"{address}/{address.max_prefixlen}"
                options = ["nodad"] if address.version == 6 else []
                node.run(
                    ["ip", "address", "add", prefix, "dev", interface, *options], timeout=_TIMEOUT
                )
                added.append(prefix)
        yield
    finally:
        for prefix in added:
            node.run(
                ["ip", "address", "del", prefix, "dev", interface], timeout=_TIMEOUT, check=False
            )


def _json(node: Node, *words: str) -> list[dict[str, Any]]:
    done = node.run(["ip", "-j", *words], timeout=_TIMEOUT)
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    except ValueError as error:
        raise ProbeError(f"{node.name}: ip -j {' '.join(words)}: {error}") from error
    return found
