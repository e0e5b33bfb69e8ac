"""Flows as ovs-ofctl reads them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.parts import openvswitch
from hawser.openflow.text import lines
from hawser.overlay.config.openflow import OpenFlowSwitch
from hawser.overlay.sdwan.flow import Flow, flows
from worked_example import entries, switch, wide_entries


def test_a_flow_is_one_line() -> None:
    flow = Flow(
        table=1,
        priority=20,
        match={"in_port": 1, "eth_type": 0x0800, "ip_proto": 17, "udp_dst": (0, 0xF000)},
        write=(("eth_src", "02:00:00:00:00:01"), ("ipv4_dst", "192.0.2.1"), ("udp_src", 7)),
        decrement=True,
        output=501,
        report=True,
        kind="entry",
        counter="m1",
    )
    wanted = (
        f"cookie={flow.cookie:#x},table=1,priority=20,in_port=1,dl_type=0x800,nw_proto=17,"
        "udp_dst=0x0/0xf000,actions=set_field:02:00:00:00:00:01->eth_src,"
        "set_field:192.0.2.1->ip_dst,set_field:7->udp_src,dec_ttl,output:501,"
        "controller(max_len=65509)"
    )
    assert list(lines([flow])) == [wanted]


@pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}")
@pytest.mark.parametrize("entries_of", [entries, wide_entries], ids=["narrow", "wide"])
@pytest.mark.parametrize("gateway", [1, 2, 3])
def test_open_vswitch_reads_all_of_them(
    entries_of: Callable[[int], list[dict[str, Any]]], gateway: int, tmp_path: Path
) -> None:
    made = OpenFlowSwitch.model_validate(
        switch(gateway) | {"socket": "of", "entries": entries_of(gateway)}
    )
    file = tmp_path / "flows"
    file.write_text("\n".join(lines(flows(made))))
    command = ("ovs-ofctl", "-OOpenFlow13", "parse-flows", str(file))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert done.stdout.count("ADD") == len(flows(made))
