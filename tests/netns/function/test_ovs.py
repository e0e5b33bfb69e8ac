"""Chains of `hawserd function` with Open vSwitch, which knows NSH: either is forwarder or function.

   client 10.0.0.1 ---- sff ---- 10.0.0.2 server
                         |
                        f1              one of sff and f1 is ovs-vswitchd, the other hawserd

The namespaces are those of lab/function/chain.py.
"""

from __future__ import annotations

import shutil

import pytest

from lab.function.chain import FORWARD, Chain, hop_packets, mac
from lab.function.ovs import Ovs

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("ovs-vswitchd") is None, reason="needs openvswitch-switch"),
]


def test_open_vswitch_forwards_to_our_function() -> None:
    with Chain(1, start=False) as chain:
        chain.functions[0].start()
        with Ovs(chain.namespace("sff"), chain.folder, ["client", "server", "f1"]) as ovs:
            ovs.add_flows(
                "priority=1,in_port=1,arp,actions=output:2",
                "priority=1,in_port=2,actions=output:1",
                "priority=1,in_port=1,ip,actions=encap(nsh(md_type=1)),set_field:1->nsh_spi,"
                "set_field:255->nsh_si,encap(ethernet),"
                f"set_field:{mac(1)}->eth_dst,output:3",
                "priority=1,in_port=3,dl_type=0x894f,nsh_spi=1,nsh_si=254,"
                "actions=decap(),decap(),resubmit(,1)",
                "table=1,actions=output:2",
            )
            assert chain.answered(10) == 10
        counters = chain.functions[0].counters()
        assert counters["served"]["packets"] == 10
        assert sum(counters["drops"].values()) == 0


def test_open_vswitch_is_a_function_of_ours() -> None:
    with Chain(1, start=False) as chain:
        chain.sff.start()
        with Ovs(chain.namespace("f1"), chain.folder, ["f0"]) as ovs:
            ovs.add_flows(
                "in_port=1,dl_type=0x894f,nsh_si=255,"
                "actions=set_field:254->nsh_si,dec_nsh_ttl,output:in_port"
            )
            assert chain.answered(10) == 10
        counters = chain.sff.counters()
        assert hop_packets(counters, FORWARD) == [10, 10]
        assert sum(counters["drops"].values()) == 0
