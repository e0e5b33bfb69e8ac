"""Flow entries as OpenFlow 1.3 matches and actions: a gateway's two flow tables.

    0  admission   drops fragments; passes ARP between a WAN port and its agent's port;
                   sends IPv4 for this station to table 1
    1  entries     matches the entries; drops labels that match none; passes the gateway's
                   own packets; drops the rest

The controller only encodes these flows as messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

from hawser.overlay.config.entry import Entry
from hawser.overlay.config.openflow import (
    FIRST_AGENT,
    FIRST_OUT,
    FIRST_WAN,
    OpenFlowPort,
    OpenFlowSwitch,
)
from hawser.spec.model import Model

ADMISSION, ENTRIES = 0, 1

_IPV4, _ARP = 0x0800, 0x0806
_FRAGMENT = (1, 1)
"""Value and mask of NXM_NX_IP_FRAG: any fragment, the first or a later one."""
_PROTOCOLS = {6: "tcp", 17: "udp"}
_ICMP = 1
_ICMP_ERRORS = (3, 11, 12)
"""Destination unreachable, time exceeded, parameter problem (RFC 792)."""

Value = int | str | tuple[int, int]


class Flow(Model):
    """One flow entry. Fields have the names of OpenFlow 1.3's OXM."""

    table: int
    priority: int
    match: Mapping[str, Value]
    write: tuple[tuple[str, int | str], ...] = ()
    """Fields to set, in this order."""
    decrement: bool = False
    """Whether to decrement the TTL, as a router does."""
    output: int | None = None
    """Output port number. With neither `output` nor `goto`, packets are dropped."""
    report: bool = False
    """Whether the controller receives a copy (packet-in)."""
    goto: int | None = None
    kind: Literal["entry", "drop", "own"]
    counter: str
    """Counter of its packets: the name of an entry, the cause of a drop, or own traffic."""

    @cached_property
    def cookie(self) -> int:
        """Give a hash of what the flow does: equal flows have equal cookies.

        Installed and wanted flows can therefore be compared by their cookies alone.
        """
        body = self.model_dump_json(
            include={"table", "priority", "write", "decrement", "output", "goto", "report"}
        )
        text = json.dumps([body, sorted(self.match.items())]).encode()
        # 63 bits: all ones would be a reserved value (OpenFlow 1.3.5, 7.3.4.2).
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1


def flows(switch: OpenFlowSwitch) -> tuple[Flow, ...]:
    """Compute all of a switch's flow entries. Equal configurations give equal flows."""
    return (*_admission(switch), *_entries(switch), *_own(switch))


def _admission(switch: OpenFlowSwitch) -> Iterator[Flow]:
    yield Flow(table=ADMISSION, priority=0, match={}, kind="drop", counter="not_admitted")
    # NXM fields, because fields are encoded in order of class and number, prerequisites first.
    fragment: dict[str, Value] = {"eth_type_nxm": _IPV4, "ip_frag": _FRAGMENT}
    yield Flow(table=ADMISSION, priority=40, match=fragment, kind="drop", counter="fragment")
    for place, port in enumerate(switch.ports):
        yield from _arp(place, port)
        arriving: dict[str, Value] = {"in_port": FIRST_WAN + place, "eth_dst": port.mac}
        for where in (arriving, {"in_port": FIRST_AGENT + place}):
            yield Flow(
                table=ADMISSION,
                priority=20,
                match={**where, "eth_type": _IPV4},
                goto=ENTRIES,
                kind="own",
                counter="admitted",
            )


def _arp(place: int, port: OpenFlowPort) -> Iterator[Flow]:
    """Let the agent's port answer ARP for its addresses, and resolve its next hop."""
    asking: dict[str, Value] = {"in_port": FIRST_AGENT + place, "eth_type": _ARP}
    yield _own_flow(ADMISSION, 30, asking, FIRST_OUT + place, "arp")
    for address in port.addresses:
        asked: dict[str, Value] = {
            "in_port": FIRST_WAN + place,
            "eth_type": _ARP,
            "arp_tpa": str(address),
        }
        yield _own_flow(ADMISSION, 30, asked, FIRST_AGENT + place, "arp")


def _own(switch: OpenFlowSwitch) -> Iterator[Flow]:
    """Pass the gateway's own packets through the port that has their address; drop the rest."""
    wide = any(entry.match.wide for entry in switch.entries)
    yield _unmatched(0, {})
    for place, port in enumerate(switch.ports):
        wan, agent = FIRST_WAN + place, FIRST_AGENT + place
        for address in map(str, port.addresses):
            sent: dict[str, Value] = {"in_port": agent, "eth_type": _IPV4, "ipv4_src": address}
            yield _own_flow(ENTRIES, 10, sent, FIRST_OUT + place, "own")
            taken: dict[str, Value] = {"in_port": wan, "eth_type": _IPV4, "ipv4_dst": address}
            yield _own_flow(ENTRIES, 10, taken, agent, "own")
            for ports in _below_labels(wide=wide):
                yield _own_flow(ENTRIES, 12, {**taken, **ports}, agent, "own")
            yield from _errors(taken, agent)
    yield from _labelled(switch)


def _errors(taken: dict[str, Value], agent: int) -> Iterator[Flow]:
    """Copy ICMP errors for the gateway to the controller: they may quote rewritten packets.

    The gateway's stack gets them too, since they may quote its own packets. It ignores the others.
    """
    for kind in _ICMP_ERRORS:
        match = {**taken, "ip_proto": _ICMP, "icmpv4_type": kind}
        flow = _own_flow(ENTRIES, 13, match, agent, "icmp_error")
        yield flow.model_copy(update={"report": True})


def _below_labels(*, wide: bool) -> Iterator[dict[str, Value]]:
    """Match TCP and UDP destination ports that are not labels, so belong to the gateway itself.

    The two upper nibbles of a narrow label are branches. A port below 4096 has 0 in the first, an
    agent's port has 0 in the second. With wide labels an agent has no ports other than labels, and
    the entries match all of those.
    """
    for number, protocol in _PROTOCOLS.items():
        for mask in (0xF000,) if wide and protocol == "udp" else (0xF000, 0x0F00):
            yield {"ip_proto": number, f"{protocol}_dst": (0, mask)}


def _labelled(switch: OpenFlowSwitch) -> Iterator[Flow]:
    """Drop labelled packets that match no entry: the stack would answer with a reset.

    A source port counts as a label only if it names the same two branches as some entry. Any other
    may be a server's port.
    """
    narrow = (entry.match for entry in switch.entries if not entry.match.wide)
    returned = {match.source_port for match in narrow if match.source_port}
    branches = sorted({port & 0xFF00 for port in returned if not _is_below(port)})
    for number, protocol in _PROTOCOLS.items():
        packet: dict[str, Value] = {"eth_type": _IPV4, "ip_proto": number}
        for place in range(len(switch.ports)):
            yield _unmatched(11, {"in_port": FIRST_WAN + place, **packet})
        for label in branches:
            yield _unmatched(15, {**packet, f"{protocol}_src": (label, 0xFF00)})


def _is_below(port: int) -> bool:
    """Whether a port is an agent's or below 4096, so not a label."""
    return not (port & 0xF000 and port & 0x0F00)


def _unmatched(priority: int, match: dict[str, Value]) -> Flow:
    return Flow(table=ENTRIES, priority=priority, match=match, kind="drop", counter="no_entry")


def _own_flow(
    table: int, priority: int, match: dict[str, Value], output: int, counter: str
) -> Flow:
    return Flow(
        table=table, priority=priority, match=match, output=output, kind="own", counter=counter
    )


def _entries(switch: OpenFlowSwitch) -> Iterator[Flow]:
    """Translate the entries. OpenFlow matches ports only together with their protocol.

    An entry with a narrow label therefore becomes two flows, one for TCP and one for UDP. One with
    a wide label becomes a flow for UDP.
    """
    for entry in switch.entries:
        came, (output, sender, receiver) = _came(switch, entry), leaves(switch, entry)
        for number, protocol in _PROTOCOLS.items():
            if entry.match.wide and protocol != "udp":
                continue
            yield Flow(
                table=ENTRIES,
                priority=20,
                match={
                    "in_port": came,
                    "eth_type": _IPV4,
                    "ip_proto": number,
                    "ipv4_src": str(entry.match.source),
                    "ipv4_dst": str(entry.match.destination),
                    **_label(entry, protocol),
                },
                write=(
                    ("eth_src", sender),
                    ("eth_dst", receiver),
                    ("ipv4_src", str(entry.write.source)),
                    ("ipv4_dst", str(entry.write.destination)),
                    *_written(entry, protocol),
                ),
                decrement=came < FIRST_AGENT and output < FIRST_AGENT,
                output=output,
                kind="entry",
                counter=entry.name,
            )


def _label(entry: Entry, protocol: str) -> dict[str, int]:
    """Give the ports that hold the label."""
    ports = {"src": entry.match.source_port, "dst": entry.match.destination_port}
    return {f"{protocol}_{end}": port for end, port in ports.items() if port is not None}


def _written(entry: Entry, protocol: str) -> Iterator[tuple[str, int]]:
    """Give the port that replaces a narrow label; a wide label stays."""
    if entry.write.port is not None:
        for name in _label(entry, protocol):
            yield name, entry.write.port


def _came(switch: OpenFlowSwitch, entry: Entry) -> int:
    """Give the ingress port of an entry's packets: the one with their local address."""
    if entry.match.from_ == "agent":
        return FIRST_AGENT + switch.holder(entry.match.source)
    return FIRST_WAN + switch.holder(entry.match.destination)


def leaves(switch: OpenFlowSwitch, entry: Entry) -> tuple[int, str, str]:
    """Give the output port of an entry's packets, and their Ethernet source and destination."""
    if entry.output == "agent":
        place = switch.holder(entry.write.destination)
        port = switch.ports[place]
        return FIRST_AGENT + place, port.next_mac, port.mac
    place = switch.place(entry.output.port)
    port = switch.ports[place]
    return FIRST_OUT + place, port.sender(entry.output.class_), port.next_mac
