"""Workflow files with a switch, and packets that follow its flow entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hawser.overlay.config.entry import Address, Entry
from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.resolved import resolved
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.switch import flow_entries
from hawser.spec.workflow import Scenario


def file(
    wan: Mapping[int, str], groups: Sequence[Sequence[str]] = (), **overlay: object
) -> dict[str, Any]:
    """Give a workflow of branches, each by its number with its ports, one letter each.

    Args:
        wan: number of a branch -> its WAN ports.
        groups: member paths of each path group.
        overlay: further fields of the overlay.
    """
    ids = list(wan)
    return {
        "hawser": 1,
        "name": "switched",
        "title": "Branches with a switch",
        "topology": {
            "nodes": [f"{kind}{i}" for i in ids for kind in ("h", "gw")],
            "links": {f"lan{i}": {"ends": [f"h{i}.lan", f"gw{i}.lan"]} for i in ids},
            "internet": {
                "ports": {f"gw{i}.{port}": {"rate": "40 Mbit/s"} for i in ids for port in wan[i]}
            },
        },
        "overlay": {
            "branches": {
                f"b{i}": {
                    "id": i,
                    "gateway": f"gw{i}",
                    "wan": list(wan[i]),
                    "lan": "lan",
                    "prefix": f"10.{i % 250}.{i // 250}.0/24",
                }
                for i in ids
            },
            "path_groups": {f"pg{n}": {"paths": list(g)} for n, g in enumerate(groups)},
            **overlay,
        },
        "measurements": {"rtt": {"probe": "ping", "from": f"h{ids[0]}", "to": f"h{ids[1]}"}},
    }


@dataclass(frozen=True)
class Packet:
    """What a switch sees of a packet."""

    source: Address
    destination: Address
    source_port: int
    destination_port: int


class Network:
    """All switches of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        lab = resolved(scenario)
        assert lab.fabric is not None
        self.addresses: Addresses = lab.addresses
        self.fabric: Fabric = lab.fabric
        self.entries: dict[str, list[Entry]] = {
            lab.fabric.branches[name].gateway: entries
            for name, entries in flow_entries(lab.fabric).items()
        }
        self._owner = {
            each.ip: port for port in self.addresses.wan for each in self.addresses.every(port)
        }

    def send(self, gateway: str, packet: Packet) -> tuple[list[str], Packet]:
        """Let an agent send a packet: the WAN ports it passes, and what the last agent gets."""
        origin: Literal["agent", "wan"] = "agent"
        passed: list[str] = []
        for _ in range(64):
            entry = self.entry(gateway, origin, packet)
            packet = _written(entry, packet)
            if entry.output == "agent":
                return passed, packet
            passed.append(f"{gateway}.{entry.output.port}")
            assert self._owner[packet.source] == passed[-1]
            passed.append(self._owner[packet.destination])
            gateway, origin = passed[-1].partition(".")[0], "wan"
        raise AssertionError(f"a packet loops: {passed}")

    def entry(self, gateway: str, origin: Literal["agent", "wan"], packet: Packet) -> Entry:
        """The only entry of a gateway that fits a packet."""
        (found,) = (e for e in self.entries[gateway] if _fits(e, origin, packet))
        return found


def _fits(entry: Entry, origin: str, packet: Packet) -> bool:
    match = entry.match
    ports = (match.source_port, match.destination_port)
    seen = (packet.source_port, packet.destination_port)
    alike = all(mine in (None, theirs) for mine, theirs in zip(ports, seen, strict=True))
    ends = (match.source, match.destination) == (packet.source, packet.destination)
    return match.from_ == origin and ends and alike


def _written(entry: Entry, packet: Packet) -> Packet:
    write, match = entry.write, entry.match
    ports = packet.source_port, packet.destination_port
    if write.port is not None:
        forward = match.destination_port is not None
        ports = (ports[0], write.port) if forward else (write.port, ports[1])
    return Packet(write.source, write.destination, *ports)
