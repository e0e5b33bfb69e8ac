"""An SD-WAN described by addresses alone: no topology, no lab."""

from __future__ import annotations

import json
import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import jsonschema
import pytest

from hawser.overlay.config.entry import EntryMatch, EntryWrite
from hawser.overlay.config.gateway import IpipTransport, MptcpTransport, QuicTransport
from hawser.overlay.config.shaping import class_id
from hawser.overlay.sdwan.branch import Branch, WanPort
from hawser.overlay.sdwan.fabric import Fabric, fabric
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.switch import flow_entries
from hawser.spec.overlay import (
    Encryption,
    PathGroup,
    Priority,
    Service,
    Settings,
    SwitchKind,
    TrafficType,
    Transport,
)
from hawser.spec.route import Stop
from hawser.spec.topology import PortType

SCHEMA = Path(__file__).parents[3] / "schemas" / "gateway-config.schema.json"
EXAMPLE = PathGroup(
    id=4,
    paths=("b1.a>b3.a>b3.a>b2.a", "b1.b>b4.a>b4.b>b2.a", "b1.a>b5.a>b5.a>b2.b", "b1.b>b2.b"),
)
"""Document 004, section III.D."""


def branch(number: int, **ports: object) -> Branch:
    """A branch with two ports at 203.0.113.0/24, whose second addresses are 100 higher."""
    found = {
        name: WanPort(
            interface=f"eth{index}",
            address=IPv4Address(f"203.0.113.{10 * number + index}"),
            second=IPv4Address(f"203.0.113.{100 + 10 * number + index}"),
            next_hop=IPv4Address("203.0.113.1"),
        )
        for index, name in enumerate("ab", 1)
    }
    return Branch(
        id=number,
        gateway=f"gw{number}",
        lan="lan",
        source=IPv4Address(f"10.{number}.0.1"),
        prefixes=(IPv4Network(f"10.{number}.0.0/24"), IPv4Network(f"172.16.{number}.0/24")),
        ports=found | ports,
    )


def five(settings: Settings | None = None, switch: SwitchKind = SwitchKind.BPF) -> Fabric:
    branches = {f"b{number}": branch(number) for number in range(1, 6)}
    return fabric(branches, settings or Settings(), [EXAMPLE], switch=switch)


def test_the_published_entries_follow_from_addresses() -> None:
    """Subflow 1 at its source, in transit and at its destination, with agents' addresses."""
    entries = {name: {e.name: e for e in found} for name, found in flow_entries(five()).items()}
    sent = entries["b1"]["b1>b2 g4 m1 forward source"]
    assert ends(sent.match) == ("203.0.113.11", "203.0.113.121")
    assert (sent.match.destination_port, sent.write.port) == (0x2004, 0x2114)
    assert ends(sent.write) == ("203.0.113.11", "203.0.113.31")
    passed = entries["b3"]["b1>b2 g4 m1 forward transit"]
    assert passed.match.source == sent.write.source
    assert ends(passed.write) == ("203.0.113.31", "203.0.113.21")
    assert passed.output != "agent"
    assert passed.output.port == "a"
    got = entries["b2"]["b1>b2 g4 m1 forward destination"]
    assert got.output == "agent"
    assert ends(got.write) == ends(sent.match)
    assert got.write.port == 0x2004


@pytest.mark.parametrize("switch", SwitchKind)
def test_wan_ports_filter_where_services_are_named(switch: SwitchKind) -> None:
    ssh = (Service(protocol="tcp", port=22),)
    named = branch(2).model_copy(update={"wan_services": ssh})
    made = configurations(fabric({"b1": branch(1), "b2": named}, Settings(), [], switch=switch))
    assert made["b1"].wan is None
    wan = made["b2"].wan
    if switch is SwitchKind.OPENFLOW:
        assert wan is None
    else:
        assert wan is not None
        assert (wan.interfaces, wan.services) == (("eth1", "eth2"), ssh)


def ends(of: EntryMatch | EntryWrite) -> tuple[str, str]:
    return str(of.source), str(of.destination)


def test_pairs_without_groups_get_the_default_ones() -> None:
    found = five()
    (group,) = found.between("b5", "b3")
    assert (group.branches, group.number, group.traffic) == (("b3", "b5"), 0, TrafficType.II)
    assert [path.hops for path in group.paths] == [
        ((Stop("b3", x), Stop("b5", y)),) for x in "ab" for y in "ab"
    ]
    assert len(found.groups) == 10


def test_leased_lines_get_a_group_for_urgent_traffic() -> None:
    leased = branch(1).ports["b"].model_copy(update={"type": PortType.LEASED})
    branches = {"b1": branch(1, b=leased), "b2": branch(2, b=leased)}
    first, second = fabric(branches, Settings(), switch=SwitchKind.BPF).groups
    assert (first.traffic, second.traffic) == (TrafficType.II, TrafficType.I)
    assert {hop for path in second.paths for hop in path.hops} == {
        (Stop("b1", "b"), Stop("b2", "b"))
    }


@pytest.mark.parametrize(
    ("settings", "switch", "kind"),
    [
        (Settings(), SwitchKind.BPF, MptcpTransport),
        (Settings(transport=Transport.QUIC), SwitchKind.OPENFLOW, QuicTransport),
        (Settings(transport=Transport.IPIP), SwitchKind.NONE, IpipTransport),
    ],
)
def test_configurations_are_what_gateways_read(
    settings: Settings, switch: SwitchKind, kind: type
) -> None:
    configs = configurations(five(settings, switch))
    schema = json.loads(SCHEMA.read_text())
    for name, config in configs.items():
        placed = config.placed(Path("/etc/hawser"))
        jsonschema.validate(placed.model_dump(mode="json"), schema)
        assert isinstance(config.transport, kind)
        assert {peer.branch for peer in config.peers} == configs.keys() - {name}
        assert placed.control == Path(f"/etc/hawser/gw{name[1]}.sock")
        assert [str(prefix) for prefix in config.peers[0].prefixes][1].startswith("172.16.")


@pytest.mark.parametrize("transport", [Transport.MPTCP, Transport.QUIC])
def test_ends_of_a_path_agree(transport: Transport) -> None:
    """Who connects has the other's address for Multipath TCP, and entries the same as agents."""
    found = five(Settings(transport=transport))
    configs, entries = configurations(found), flow_entries(found)
    for one, other in (("b1", "b2"), ("b3", "b5")):
        (there,) = (peer for peer in configs[one].peers if peer.branch == other)
        (back,) = (peer for peer in configs[other].peers if peer.branch == one)
        for group, turned in zip(there.groups, back.groups, strict=True):
            ends = [(path.local, path.remote) for path in group.paths]
            assert ends == [(path.remote, path.local) for path in turned.paths]
            sent = [e.match for e in entries[one] if f"{one}>{other} g{group.id} " in e.name]
            agents = {(m.source, m.destination) for m in sent if m.from_ == "agent"}
            assert agents == set(ends)
            second = {int(remote.packed[3]) > 100 for _, remote in ends}
            assert second == {transport is Transport.MPTCP}


def test_only_ports_that_wait_get_classes() -> None:
    limited = branch(1).ports["a"].model_copy(update={"limited": True})
    branches = {f"b{n}": branch(n, **({"a": limited} if n == 1 else {})) for n in range(1, 6)}
    for priority, level in ((Priority.HOPS, 2), (Priority.NONE, 1)):
        found = fabric(branches, Settings(priority=priority), [EXAMPLE], switch=SwitchKind.BPF)
        outputs = {e.name: e.output for e in flow_entries(found)["b1"] if e.output != "agent"}
        assert outputs["b1>b2 g4 m1 forward source"].class_ == class_id(level)
        assert outputs["b1>b2 g4 m2 forward source"].class_ is None


def test_no_gateways_without_a_transport() -> None:
    settings = Settings(transport=Transport.NONE)
    assert configurations(five(settings, SwitchKind.NONE)) == {}
    plain = configurations(five(Settings(encryption=Encryption.NONE)))
    assert plain["b1"].tls is None


def test_a_fabric_comes_back_from_json() -> None:
    assert Fabric.model_validate_json(five().model_dump_json()) == five()


def test_nothing_of_a_lab_is_needed() -> None:
    code = "import sys, hawser.overlay.sdwan.gateway as _; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not [name for name in done.stdout.split() if name.startswith("hawser.overlay.lab")]


def test_with_hubs_only_they_have_tunnels_to_all() -> None:
    branches = {f"b{number}": branch(number) for number in range(1, 7)}
    joined = PathGroup(paths=("b4.a>b6.a",))
    settings = Settings(transport=Transport.QUIC, hubs=("b2", "b5"))
    made = configurations(fabric(branches, settings, [joined]))
    peers = {name: [peer.branch for peer in config.peers] for name, config in made.items()}
    assert peers == {
        "b1": ["b2", "b5"],
        "b2": ["b1", "b3", "b4", "b5", "b6"],
        "b3": ["b2", "b5"],
        "b4": ["b2", "b5", "b6"],
        "b5": ["b1", "b2", "b3", "b4", "b6"],
        "b6": ["b2", "b4", "b5"],
    }
    assert all(peer.groups for config in made.values() for peer in config.peers)
