"""OpenFlow switches under the network's controller: made by agents, filled by the controller.

 host 7                   gateway n (n = 1 .. 3)
+--------------+         +----------------------------------------------+
| lan 10.1.0.5 |---------| lan0 (n = 1)                                 |
+--------------+         | mpa_0, mpa_1   the WAN addresses             |
                         | Open vSwitch   which has the ports wa and wb |--- WAN
                         +----------------------------------------------+

The WAN and the controller are those of tests/lab/controller/network.py. Next hops have the Ethernet
addresses that they happen to have, as on any network.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.parts import openvswitch
from lab.controller.network import Branch, Deployment
from lab.namespace import run
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

HOST = 7
NEAR = {"near": {"id": 0, "paths": ["b1.wa>b2.wa"]}}
GROUPS = NEAR | {"far": {"id": 1, "class": "I", "paths": ["b1.wb>b3.wa>b3.wb>b2.wb"]}}
BULK = {"protocol": "tcp", "destination_ports": [7001, 7001]}


def switched(network: Deployment, **overlay: Any) -> None:  # noqa: ANN401 (JSON)
    """Start everything with OpenFlow switches, and wait until it is as it should be."""
    as_on_a_wire(network)
    network.controller.begin()
    network.controller.patch({"overlay": {"switch": "openflow"} | overlay})
    network.join_all()
    until(network.connected, "every branch reaches every other")
    until(network.controller.settled, "the controller knows that it is so")
    until(lambda: installed(network), "every switch has its flows")


def as_on_a_wire(network: Deployment) -> None:
    """Let frames leave the WAN whole: a virtual cable would carry them without checksums."""
    for number in network.branches:
        for letter in "ab":
            network.lab.at(0, "ethtool", "-K", f"i{number}{letter}", "tx", "off", "tso", "off")


def installed(network: Deployment) -> bool:
    """Whether the controller has all switches as it wants them."""
    found = [each["switch"] for each in network.controller.gateways().values()]
    return all(each["connected"] and each["installed"] for each in found)


def flows(branch: Branch) -> list[str]:
    """Flows of a switch."""
    target = f"unix:{branch.directory / 'ofs' / 'ofs_br.mgmt'}"
    return run("ovs-ofctl", "-OOpenFlow13", "dump-flows", target).splitlines()[1:]


def carried(branch: Branch, address: str) -> int:
    """Packets that a switch has sent to an address of another gateway."""
    sent = (each for each in flows(branch) if f"set_field:{address}->ip_dst" in each)
    counts = (re.search(r"n_packets=(\d+)", each) for each in sent)
    return sum(int(each[1]) for each in counts if each)


def entries(branch: Branch) -> set[str]:
    """What a switch does with the packets of entries, by cookies."""
    found = (each for each in flows(branch) if "->ip_dst" in each)
    return {each.partition("cookie=")[2].partition(",")[0] for each in found}


def test_classes_and_groups_move_while_a_connection_goes_on(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as network:
        beside(network)
        branches = {"b1": {"lan": "lan0"}}
        classes = {"bulk": BULK | {"type": "II"}}
        switched(network, branches=branches, path_groups=GROUPS, classes=classes)
        one, _, three = network.branches.values()
        transfer = Transfer(network.lab, port=7001, pause=0.01, ends=(HOST, 2))
        until(lambda: carried(one, "198.18.21.2") > 100, "the near group carries it")
        before = carried(three, "198.18.22.2")
        network.controller.patch({"overlay": {"classes": {"bulk": {"type": "I"}}}})
        until(network.controller.settled, "the class is moved")
        until(lambda: carried(three, "198.18.22.2") > before + 100, "the third gateway carries it")
        # The paths of a group move, which is a matter of the switches.
        old = entries(one)
        moved = {"far": {"paths": ["b1.wa>b3.wb>b3.wa>b2.wa"]}}
        network.controller.patch({"overlay": {"path_groups": moved}})
        until(network.controller.settled, "the group is moved")
        until(lambda: installed(network), "the switches have other entries")
        assert entries(one) != old
        assert re.search(r"switch b3: \d+ flows go, \d+ come", network.controller.log())
        until(lambda: carried(three, "198.18.21.2") > 100, "it takes the new path")
        on_without_a_controller(network, transfer)
        transfer.end()


def on_without_a_controller(network: Deployment, transfer: Transfer) -> None:
    """Kill the controller, then a switch: the agent fills it again. Then the controller is back."""
    _, two, three = network.branches.values()
    network.controller.stop(signal.SIGKILL)
    have = {branch.number: entries(branch) for branch in (two, three)}
    os.kill(three.switch(), signal.SIGKILL)
    until(lambda: refilled(three, have[3]), "the agent has filled the switch")
    until(lambda: carried(three, "198.18.21.2") > 100, "it carries the connection again")
    three.stop(signal.SIGKILL)
    three.work()
    until(lambda: "Traceback" not in three.log() and refilled(three, have[3]))
    network.controller.begin()
    until(lambda: installed(network), "the controller finds the switches as they should be")
    assert entries(two) == have[2]
    until(network.controller.settled)


def refilled(branch: Branch, wanted: set[str]) -> bool:
    try:
        return entries(branch) == wanted
    except RuntimeError:  # it does not run yet
        return False


def test_a_gateway_that_returns_takes_its_entries_along(tmp_path: Path) -> None:
    """Paths of the new configuration lead over lines that are cut."""
    with Deployment(tmp_path, (1, 2)) as network:
        switched(network, path_groups=NEAR)
        before = {branch.number: entries(branch) for branch in network.branches.values()}
        network.lab.at(0, "ip", "link", "set", "i1b", "down")
        cut = {"near": {"paths": ["b1.wb>b2.wb"]}}
        network.controller.patch({"overlay": {"path_groups": cut}})
        gave_up = "version 3: returned"
        branches = network.branches.values()
        until(lambda: all(gave_up in each.log() for each in branches), "both return")
        had = {branch.number: branch for branch in branches}
        until(lambda: {n: entries(each) for n, each in had.items()} == before, "so do switches")
        network.ping(1, 2)
        # They try it again, and return again, until an operator takes it back.
        network.controller.ask("POST", "/v1/versions/2/restore", {"reason": "the line is cut"})
        until(network.controller.settled)
        until(lambda: installed(network), "the controller fills the switches again")
        network.ping(1, 2)


def test_ports_are_given_back(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        as_on_a_wire(network)
        network.start()
        before = kernel(network)
        for kind, ports in (("openflow", "mpa_0"), ("bpf", "wa")):
            network.controller.patch({"overlay": {"switch": kind}})
            until(network.controller.settled, f"{kind} is kept")
            until(network.connected, f"{kind} switches carry packets")
            network.ping(1, 2)
            where = network.lab.at(1, "ip", "-br", "address", "show", "to", "198.18.11.2")
            assert where.split("@")[0].split()[0] == ports
        assert kernel(network) == before
        number = network.controller.gateways()["b2"]["id"]
        network.controller.patch({"overlay": {"switch": "openflow"}})
        until(lambda: network.controller.settled() and installed(network))
        network.controller.ask("POST", f"/v1/gateways/{number}/revoke", {"reason": "stolen"})
        refused = "does not accept this gateway"
        until(lambda: refused in network.branches[2].log())
        assert network.controller.gateways().keys() == {"b1"}


def kernel(network: Deployment) -> list[str]:
    """What the kernel of gateway 1 has: addresses, routes, offloads."""
    at = network.lab.at
    routes = sorted(at(1, "ip", "route", "show", "table", "all", "type", "unicast").splitlines())
    addresses = at(1, "ip", "-br", "-4", "address")
    return [*routes, re.sub(r"@\S+", "", addresses), at(1, "ethtool", "-k", "wa")]


def beside(network: Deployment) -> None:
    """Put a host beside gateway 1."""
    lab = network.lab
    gateway = lab.namespaces.name(1)
    host = lab.namespace(HOST)
    run("ip", "-n", gateway, "address", "delete", "10.1.0.1/32", "dev", "lo")
    lab.cable((1, "lan0", "10.1.0.1/24"), (HOST, "lan", "10.1.0.5/24"))
    run("ip", "-n", host, "route", "add", "default", "via", "10.1.0.1")
    lab.at(1, "sysctl", "-qw", "net.ipv4.ip_forward=1")
