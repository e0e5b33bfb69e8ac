"""Changes of a namespace's kernel, given as data, are made or refused with the node's name.

a: e 10.0.0.1/24 --x-- e 10.0.0.2/24 :b        changes are applied to a
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network

import pytest

from hawser.driver.local import LocalLab
from hawser.node.base import NodeError
from hawser.node.change import Device, Settings
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.small import pair, whole

pytestmark = pytest.mark.root


def test_an_interface_that_a_program_made_is_brought_up_and_routed(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    node = deploy(pair(whole())).nodes["a"]
    node.run(["ip", "tuntap", "add", "t0", "mode", "tun"], timeout=10)
    networks = (IPv4Network("198.51.100.0/24"), IPv4Network("203.0.113.0/24"))
    for _ in range(2):
        node.apply(Device(name="t0", networks=networks, mtu=1400))
    node.apply(Device(name="t0", networks=(IPv4Network("0.0.0.0/0"),), table=77))
    link = node.run(["ip", "link", "show", "t0"], timeout=10).stdout
    assert "mtu 1400" in link
    assert "UP" in link
    routes = node.run(["ip", "route", "show", "dev", "t0"], timeout=10).stdout.splitlines()
    assert [route.split()[0] for route in routes] == [str(each) for each in networks]
    assert "default" in node.run(["ip", "route", "show", "table", "77"], timeout=10).stdout


def test_what_the_kernel_refuses_names_the_node(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    node = deploy(pair(whole())).nodes["a"]
    with pytest.raises(NodeError, match="node a: interface t1: there is none of that name"):
        node.apply(Device(name="t1", networks=()))
    with pytest.raises(NodeError, match=r"node a: setting net\.ipv4\.nonsense"):
        node.apply(Settings(values={"net.ipv4.nonsense": "1"}))
