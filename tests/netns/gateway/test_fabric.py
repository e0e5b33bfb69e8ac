"""A `Fabric` alone: gateways of the published network, started by hand from real addresses.

                10.1.0.1                      10.2.0.1
                   gw1 ==a,b==  router ==a,b== gw2
                             ||a,b ||a,b ||a,b
                   gw3 10.3.0.1   gw4 10.4.0.1   gw5 10.5.0.1

Nothing here knows a lab's plan: the addresses are those of the cables, as an inventory has them.
The namespaces are those of lab/gateway/switch.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import permutations
from pathlib import Path
from typing import Literal

import pytest

from hawser.overlay.sdwan.branch import Branch, WanPort
from hawser.overlay.sdwan.fabric import Fabric, fabric
from hawser.overlay.sdwan.gateway import configurations
from hawser.spec.overlay import PathGroup, Placement, Service, Settings, SwitchKind, Transport
from lab.gateway.pair import Gateway, Lab, pki, run
from lab.gateway.switch import BRANCHES, address, counters, next_hop, switched
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

TABLE_II = (
    ("b1.a>b2.a", "b1.b>b3.b>b3.a>b2.a", "b1.b>b4.a>b4.b>b2.b", "b1.a>b5.a>b5.b>b2.b"),
    ("b1.a>b2.b", "b1.b>b3.a>b3.b>b2.b", "b1.b>b4.b>b4.a>b2.a", "b1.a>b5.b>b5.a>b2.a"),
    ("b1.b>b2.a", "b1.a>b3.a>b3.b>b2.a", "b1.a>b4.b>b4.a>b2.b", "b1.b>b5.b>b5.a>b2.b"),
    ("b1.b>b2.b", "b1.a>b3.b>b3.a>b2.a", "b1.a>b4.a>b4.b>b2.a", "b1.b>b5.a>b5.b>b2.a"),
)
"""Path groups 1 to 4 between branches 1 and 2; all other branches reach each other directly."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield switched(lab)


def second(port: str) -> str:
    """The second address of a WAN port: connections of Multipath TCP are taken there."""
    return address(port)[:-1] + "3"


def network(transport: Transport, label_bits: Literal[5, 6]) -> Fabric:
    """The SD-WAN, from what an operator knows of it. With 5 bits, branches go to 1900."""
    scale = 380 if label_bits == 5 else 1
    branches = {
        f"b{number}": Branch(
            id=number * scale,
            gateway=f"gw{number}",
            lan="lo",
            source=IPv4Address(f"10.{number}.0.1"),
            prefixes=(IPv4Network(f"10.{number}.0.0/24"),),
            services=(Service(protocol="any"),),
            ports={
                letter: WanPort(
                    interface=f"w{letter}",
                    address=IPv4Address(address(f"{number}{letter}")),
                    second=IPv4Address(second(f"{number}{letter}")),
                    next_hop=IPv4Address(next_hop(f"{number}{letter}")),
                )
                for letter in "ab"
            },
        )
        for number in BRANCHES
    }
    groups = [PathGroup(id=number, paths=paths) for number, paths in enumerate(TABLE_II, 1)]
    settings = Settings(transport=transport, placement=Placement.ROUND_ROBIN, label_bits=label_bits)
    return fabric(branches, settings, groups, switch=SwitchKind.BPF)


def prepare(lab: Lab) -> None:
    """Give each gateway's namespace what its machine has before the gateway starts."""
    for number in BRANCHES:
        name = f"{lab.prefix}-{number}"
        run("ip", "-n", name, "address", "add", f"10.{number}.0.1/32", "dev", "lo")
        for letter in "ab":
            other = second(f"{number}{letter}")
            table = str(100 + "ab".index(letter))
            run("ip", "-n", name, "address", "add", f"{other}/24", "dev", f"w{letter}")
            run("ip", "-n", name, "rule", "add", "from", other, "table", table)
        # The daemon makes subflows; ports that the kernel chooses are below all path labels.
        lab.at(number, "sysctl", "-qw", "net.mptcp.pm_type=1")
        lab.at(number, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 4095")
    certify(lab.folder / "pki")


def certify(folder: Path) -> None:
    """Put certificates where configurations name them."""
    folder.mkdir()
    for name, files in pki(folder, [f"b{number}" for number in BRANCHES]).items():
        Path(files["certificate"]).rename(folder / f"{name}.pem")
        Path(files["key"]).rename(folder / f"{name}.key")


def start(lab: Lab, of: Fabric) -> dict[str, Gateway]:
    """Start a gateway of each branch with the configuration that the fabric gives it."""
    made = {}
    for branch, config in configurations(of).items():
        namespace = f"{lab.prefix}-{branch[1:]}"
        document = config.placed(lab.folder).model_dump(mode="json")
        made[branch] = Gateway(namespace, document, lab.folder)
    lab.gateways += made.values()
    for gateway in reversed(made.values()):  # lower numbers connect: peers and transits are there
        gateway.start()
    until(lambda: all(gateway.up() for gateway in made.values()), "all branches are connected")
    return made


def idle(gateways: dict[str, Gateway]) -> list[str]:
    """Entries that have counted no packet: their member path was never used."""
    return [
        f"{branch}: {name}"
        for branch, gateway in gateways.items()
        for name, count in counters(gateway)[0].items()
        if not count
    ]


@pytest.mark.parametrize(
    ("transport", "label_bits"), [(Transport.MPTCP, 6), (Transport.QUIC, 6), (Transport.QUIC, 5)]
)
def test_gateways_started_by_hand_carry_traffic(
    lab: Lab, transport: Transport, label_bits: Literal[5, 6]
) -> None:
    prepare(lab)
    gateways = start(lab, network(transport, label_bits))
    for one, other in permutations(BRANCHES, 2):
        lab.at(one, "ping", "-c", "2", "-i", "0.2", "-W", "20", f"10.{other}.0.1")
    transfers = [Transfer(lab, 2 << 20, port=7000 + number) for number in range(8)]
    for transfer in transfers:
        transfer.end()
    until(lambda: not idle(gateways), "every member path, direct or not, is used both ways")
    for branch, gateway in gateways.items():
        drops = counters(gateway)[1]
        assert not any(drops.values()), f"{branch}: {drops}"
    transits = {name for name in counters(gateways["b4"])[0] if "transit" in name}
    assert transits == {
        f"b1>b2 g{group} m3 {way} transit" for group in range(1, 5) for way in ("forward", "return")
    }
