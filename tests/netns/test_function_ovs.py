"""Chains of `hawserd function` with Open vSwitch as function."""

from __future__ import annotations

import shutil

import pytest
from chain_lab import FORWARD, Chain, hop_packets
from ovs_lab import Ovs

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("ovs-vswitchd") is None, reason="needs openvswitch-switch"),
]


def test_open_vswitch_is_a_function_of_ours() -> None:
    with Chain(1, start=False) as chain:
        chain.sff.start()
        with Ovs(chain.namespace("f1"), chain.folder, ["f0"]) as ovs:
            ovs.add_flows(
                "in_port=1,dl_type=0x894f,nsh_si=255,"
                "actions=set_field:254->nsh_si,dec_nsh_ttl,output:in_port"
            )
            assert " 0% packet loss" in chain.ping("-c", "10", "-i", "0.02")
        counters = chain.sff.counters()
        assert hop_packets(counters, FORWARD) == [10, 10]
        assert sum(counters["drops"].values()) == 0
