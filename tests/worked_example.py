"""The example of document 004, section III.D: branches 1 to 5, path group 4.

subflow 1   1a > 3a, 3a > 2a      label 0x2114
subflow 2   1b > 4a, 4b > 2a            0x2124
subflow 3   1a > 5a, 5a > 2b            0x2134
subflow 4   1b > 2b                     0x2144
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

GROUP = 4
AGENT = 0x2004
"""Port on which the agent of branch 2 takes connections of this group."""

Hop = tuple[str, str]
"""Leaves by this port, arrives at that one."""

PATHS: dict[int, tuple[Hop, ...]] = {
    1: (("1a", "3a"), ("3a", "2a")),
    2: (("1b", "4a"), ("4b", "2a")),
    3: (("1a", "5a"), ("5a", "2b")),
    4: (("1b", "2b"),),
}
"""Member paths by number; each ends where the agents see it begin and end."""


def address(port: str, host: int = 2) -> str:
    """Address of a WAN port such as `1a`; host 1 is the internet's side."""
    return f"198.18.{port[0]}.{4 * 'ab'.index(port[1]) + host}"


def label(member: int) -> int:
    return 0x2100 | member << 4 | GROUP


def entries(gateway: int, paths: dict[int, tuple[Hop, ...]] = PATHS) -> list[dict[str, Any]]:
    """All entries of a gateway, both directions, as configurations have them."""
    found = (each for member, hops in paths.items() for each in _path(member, hops))
    return [entry for number, entry in found if number == gateway]


def wide_entries(gateway: int) -> list[dict[str, Any]]:
    """The same with wide labels: both ports, which stay as they are."""
    found = []
    for entry in entries(gateway):
        member = int(entry["name"][1])
        there = wide_ports(member)
        here = there if "forward" in entry["name"] else there[::-1]
        match = {**entry["match"], "source_port": here[0], "destination_port": here[1]}
        found.append(entry | {"match": match, "write": {**entry["write"], "port": None}})
    return found


def wide_ports(member: int) -> tuple[int, int]:
    """Source and destination port of a member path, forward."""
    return (64 + 1) << 6 | member, (64 + 2) << 6 | GROUP


def ports(gateway: int) -> list[dict[str, str]]:
    """WAN ports of a gateway, as configurations have them."""
    return [
        {
            "name": port,
            "interface": port,
            "address": address(f"{gateway}{port}"),
            "next_hop": address(f"{gateway}{port}", 1),
            "type": "internet",
        }
        for port in "ab"
    ]


def switch(gateway: int) -> dict[str, Any]:
    """Give a gateway as an OpenFlow controller knows it."""
    named = [
        {"name": port["name"], "addresses": [port["address"]], "next_hop": port["next_hop"]}
        for port in ports(gateway)
    ]
    return {"name": f"gw{gateway}", "ports": named, "entries": entries(gateway)}


def _path(member: int, hops: tuple[Hop, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    pair = (hops[0][0], hops[-1][1])
    back = tuple((there, here) for here, there in reversed(hops))
    yield from _way(f"m{member} forward", label(member), pair, hops, "destination_port")
    yield from _way(f"m{member} return", label(member), pair[::-1], back, "source_port")


def _way(
    name: str, number: int, pair: Hop, hops: Iterable[Hop], matched: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    came, old, where = pair, AGENT, "agent"
    for hop in hops:
        yield _entry(name, where, came, old, hop, number, matched)
        came, old, where = hop, number, "wan"
    yield _entry(name, where, came, old, pair, AGENT, matched)


def _entry(
    name: str, where: str, came: Hop, old: int, goes: Hop, new: int, matched: str
) -> tuple[int, dict[str, Any]]:
    last = where == "wan" and new == AGENT
    here = goes[1] if last else goes[0]
    entry = {
        "name": name,
        "match": {
            "from": where,
            "source": address(came[0]),
            "destination": address(came[1]),
            matched: old,
        },
        "write": {"source": address(goes[0]), "destination": address(goes[1]), "port": new},
        "output": "agent" if last else {"port": here[1], "class": None},
    }
    return int(here[0]), entry
