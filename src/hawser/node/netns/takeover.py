"""Moving what an interface has of IPv4, so that another one takes its place.

All functions act in the namespace of their `IPRoute`. Connections go on: the addresses are on one
of both interfaces at any time. Routes with several next hops stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from socket import AF_INET
from typing import Any, Final

from pyroute2 import IPRoute

_KERNEL: Final = 2
"""Protocol of routes that the kernel makes by itself (RTPROT_KERNEL)."""
_UNICAST: Final = 1
_USE: Final = 0x01
"""NTF_USE: resolve this neighbour as if a packet were sent to it."""
_VALID: Final = 0x02 | 0x04 | 0x08 | 0x10 | 0x80
"""States in which a neighbour's address is known (NUD_VALID) because it has answered."""

_COPIED: Final = {
    "RTA_GATEWAY": "gateway",
    "RTA_PRIORITY": "priority",
    "RTA_PREFSRC": "prefsrc",
    "RTA_TABLE": "table",
}


@dataclass(frozen=True)
class Link:
    """An interface."""

    index: int
    station: str
    """Ethernet address."""
    mtu: int


def link(route: IPRoute, name: str) -> Link | None:
    """Give an interface by its name."""
    index = next(iter(route.link_lookup(ifname=name)), None)
    if index is None:
        return None
    found = route.get_links(index)[0]
    return Link(found["index"], found.get_attr("IFLA_ADDRESS"), found.get_attr("IFLA_MTU"))


def addresses(route: IPRoute, index: int) -> list[str]:
    """Give the IPv4 addresses of an interface."""
    found = route.get_addr(family=AF_INET, index=index)
    return [str(each.get_attr("IFA_LOCAL")) for each in found]


def move(route: IPRoute, source: int, target: int) -> None:
    """Move addresses and routes from one interface to another that is up.

    Raises:
        NetlinkError: the kernel refuses.
    """
    moved = [_address(each) for each in route.get_addr(family=AF_INET, index=source)]
    for each in moved:
        route.addr("replace", index=target, **each)
    for each in list(_routes(route, source)):
        route.route("replace", oif=target, **each)
    for each in moved:
        route.addr("delete", index=source, **each)


def neighbour(route: IPRoute, index: int, address: str) -> str | None:
    """Give the Ethernet address of a neighbour, if it is known, and have the kernel keep it so."""
    route.neigh("replace", dst=address, ifindex=index, state=0, flags=_USE)
    for found in route.get_neighbours(family=AF_INET, ifindex=index):
        if found.get_attr("NDA_DST") == address and found["state"] & _VALID:
            return str(found.get_attr("NDA_LLADDR"))
    return None


def _address(found: Any) -> dict[str, object]:  # noqa: ANN401 (pyroute2 has no types)
    values: dict[str, object] = {
        "address": found.get_attr("IFA_LOCAL"),
        "prefixlen": found["prefixlen"],
    }
    if (broadcast := found.get_attr("IFA_BROADCAST")) is not None:
        values["broadcast"] = broadcast
    return values


def _routes(route: IPRoute, index: int) -> Iterator[dict[str, object]]:
    """Give routes by an interface that somebody has made."""
    for found in route.get_routes(family=AF_INET, oif=index):
        if found["proto"] == _KERNEL or found["type"] != _UNICAST:
            continue
        values: dict[str, object] = {
            name: value
            for key, name in _COPIED.items()
            if (value := found.get_attr(key)) is not None
        }
        to = found.get_attr("RTA_DST") or "0.0.0.0"  # noqa: S104 (no address, but the default route)
        values["dst"] = f"{to}/{found['dst_len']}"
        yield values | {"scope": found["scope"], "proto": found["proto"], "tos": found["tos"]}
