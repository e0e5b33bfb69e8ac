"""A policy is in force where packets pass: a class keeps to the ports with its labels.

See tests/lab/controller/network.py for the topology: `wa` is fibre, `wb` is lte.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.controller.network import Deployment
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

LABELS = {
    f"gw{n}.{port}": {"label": label}
    for n in (1, 2)
    for port, label in (("wa", "fibre"), ("wb", "lte"))
}
ENDS = ("-I", "10.1.0.1", "10.2.0.1")
SENT = 400_000
"""Bytes of the pings of one round: far more than a port sends to learn what its paths carry."""


def test_a_class_keeps_to_its_ports_and_falls_back(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        put_in_force(network, {"II": {"labels": ["fibre"]}}, switch="bpf")
        fibre, lte = sent(network)
        assert fibre > SENT
        assert lte < SENT / 2
        network.lab.at(1, "ip", "link", "set", "wa", "down")
        until(lambda: answered(network), "packets take the other port")
        _, lte = sent(network)
        assert lte > SENT


def test_a_class_that_must_not_use_other_ports_does_not(tmp_path: Path) -> None:
    only = {"labels": ["fibre"], "otherwise": "drop"}
    with Deployment(tmp_path, (1, 2)) as network:
        put_in_force(network, {"I": only, "II": only}, switch="none")
        fibre, lte = sent(network)
        assert fibre > SENT
        assert lte < SENT / 2
        network.lab.at(1, "ip", "link", "set", "wa", "down")
        until(lambda: not network.branches[1].reaches(), "the path is down")
        assert not answered(network)


def put_in_force(network: Deployment, policy: dict[str, Any], switch: str) -> None:
    """Join the branches, then put a policy in force."""
    network.controller.begin()
    network.join_all()
    until(network.connected, "every branch reaches every other")
    until(network.controller.settled, "the controller knows that it is so")
    change = {"ports": LABELS, "policy": policy, "overlay": {"switch": switch}}
    network.controller.patch(change)
    until(network.controller.settled, "the policy is kept everywhere")
    until(network.connected, "every branch reaches every other")
    until(lambda: answered(network), "packets pass")


def answered(network: Deployment) -> bool:
    return " 1 received" in network.lab.at(1, "ping", "-c", "1", "-W", "2", *ENDS, check=False)


def sent(network: Deployment) -> tuple[int, int]:
    """Bytes that the two ports of b1 send while it pings b2."""
    before = [_bytes(network, port) for port in ("wa", "wb")]
    network.lab.at(1, "ping", "-c", "100", "-i", "0.02", "-s", str(SENT // 100), *ENDS)
    after = [_bytes(network, port) for port in ("wa", "wb")]
    return after[0] - before[0], after[1] - before[1]


def _bytes(network: Deployment, port: str) -> int:
    return int(network.lab.at(1, "cat", f"/sys/class/net/{port}/statistics/tx_bytes"))
