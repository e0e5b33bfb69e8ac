"""Counters as our netlink code reads them, beside pyroute2's reading of the same.

 a scratch namespace
+-------------------------------------------------+
|  one 192.0.2.1/24 -------------------- two      |      one: HTB class of 1 Mbit/s, queue of 3
|  lo                                             |      packets, which a flood overflows
+-------------------------------------------------+
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import pytest
from pyroute2 import IPRoute

from hawser.node.netns import namespace, rtnetlink
from hawser.node.netns.rtnetlink import Link, Qdisc

pytestmark = pytest.mark.root

MADE = """
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link set lo up
ip link add dev one type veth peer name two
ip address add 192.0.2.1/24 dev one
ip link set one up
ip link set two up
tc qdisc add dev one root handle 1: htb default 1
tc class add dev one parent 1: classid 1:1 htb rate 1mbit
tc qdisc add dev one parent 1:1 handle 10: pfifo limit 3
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:01 dev one
"""


def read() -> tuple[
    Mapping[str, Link], Mapping[tuple[int, int], Qdisc], list[object], list[object]
]:
    for line in MADE.strip().splitlines():
        subprocess.run(line.split(), check=True)
    flood = ["ping", "-q", "-c", "50", "-l", "50", "-s", "1000", "-w", "1", "192.0.2.2"]
    subprocess.run(flood, check=False, stdout=subprocess.DEVNULL)
    subprocess.run(["ping", "-q", "-c", "5", "-i", "0.01", "127.0.0.1"], check=True)
    with IPRoute() as route:
        found = list(route.get_links()), list(route.get_qdiscs())
    return rtnetlink.links(), rtnetlink.qdiscs(), *found


def test_counters_are_what_pyroute2_reads() -> None:
    links, qdiscs, links_there, qdiscs_there = namespace.scratch(read)
    assert set(links) == {"lo", "one", "two"}
    for link in links_there:
        found, wanted = links[link.get_attr("IFLA_IFNAME")], link.get_attr("IFLA_STATS64")
        assert found.index == link["index"]
        names = {"rx_dropped": "rx_drop_device", "tx_dropped": "tx_drop_device"}
        both = {key: (found.counters.get(names.get(key, key)), wanted[key]) for key in wanted}
        known = {key: pair for key, pair in both.items() if pair[0] is not None}
        assert len(known) == len(found.counters) - 1 == 8  # it does not know rx_nohandler
        assert {key: pair for key, pair in known.items() if pair[0] != pair[1]} == {}
    assert links["lo"].counters["rx_packets"] == 10
    for qdisc in qdiscs_there:
        basic = qdisc.get_nested("TCA_STATS2", "TCA_STATS_BASIC")
        queue = qdisc.get_nested("TCA_STATS2", "TCA_STATS_QUEUE")
        wanted = Qdisc(basic["packets"], basic["bytes"], queue["drops"], queue["backlog"])
        assert qdiscs[qdisc["index"], qdisc["handle"]] == wanted
    dropping = qdiscs[links["one"].index, 0x10_0000]
    assert dropping.drops > 0
    assert dropping.packets > 0
