"""Strict priority at a WAN port behind Open vSwitch: the class is in the sender's Ethernet address.

   gw1                                                  internet            gw2
  +--------------------------------------------+       +--------+       +-------------+
  | mpa_0 -[ovs]- out_0 - wan_0 -TC- a:        |-------|        |-------| a  [ovs]    |
  |        Type I > Type II > the rest         |       |        |-------| b           |
  +--------------------------------------------+       +--------+       +-------------+

Type I goes by path 3 (a > b), Type II by path 1 (a > a).
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.driver.parts import openvswitch
from hawser.node.netns import namespace
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.small import FRAME, MBIT
from lab.plans.switches import PRIORITY_QUEUE, SHAPER, prioritised
from lab.traffic.counted import kernel_priority
from lab.waiting import PATIENCE, until
from worked_example import AGENT, address

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

ROUNDS = 5
BURST = PRIORITY_QUEUE + 10
"""Frames of Type II at once: more than their queue holds."""
SLOW = MBIT / 2
"""A full queue takes 0.7 s to drain, enough to send one more packet meanwhile."""


def udp(lab: LocalLab, node: str, where: tuple[str, int]) -> socket.socket:
    made = namespace.inside(
        lab.nodes[node].namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )
    made.bind(where)
    return made


def test_type_one_goes_first(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    """It overtakes queued Type II packets, and loses nothing where their queue overflows."""
    lab = deploy(prioritised(SLOW))
    gw1 = lab.nodes["gw1"]
    priorities = [kernel_priority(gw1, f"{SHAPER}:{level}") for level in ("I", "II", "III")]
    assert priorities == sorted(set(priorities))
    came: list[bytes] = []
    overtaken: list[int] = []
    with udp(lab, "gw1", (address("1a"), 0)) as near, udp(lab, "gw2", ("", AGENT)) as far:
        far.settimeout(PATIENCE)
        for number in range(1, ROUNDS + 1):
            for _ in range(BURST):
                near.sendto(b"2".ljust(FRAME - 42), (address("2a"), AGENT))
            near.sendto(b"1", (address("2b"), AGENT))
            until(lambda n=number: drained(lab, n), "all has left or was dropped")
            while len(came) < left(lab, "I", "II"):
                came.append(far.recv(FRAME)[:1])
            last = len(came) - 1 - came[::-1].index(b"1")
            overtaken.append(came[last:].count(b"2"))
    assert came.count(b"1") == ROUNDS
    assert min(overtaken) > 0
    assert statistics.median(overtaken) > PRIORITY_QUEUE / 2
    counted = gw1.counters()
    assert counted[f"{SHAPER}:I"]["packets"] == ROUNDS
    assert counted[f"{SHAPER}:I"]["drop_queue"] == 0
    assert counted[f"{SHAPER}:II"]["drop_queue"] > 0
    assert counted[f"{SHAPER}:III"]["packets"] < 20


def left(lab: LocalLab, *levels: str) -> float:
    counted = lab.nodes["gw1"].counters()
    return sum(counted[f"{SHAPER}:{level}"]["packets"] for level in levels)


def drained(lab: LocalLab, rounds: int) -> bool:
    """Whether everything sent in this number of rounds is accounted for."""
    counted = lab.nodes["gw1"].counters()
    classes = [counted[f"{SHAPER}:{level}"] for level in ("I", "II")]
    return sum(each["packets"] + each["drop_queue"] for each in classes) == rounds * (BURST + 1)
