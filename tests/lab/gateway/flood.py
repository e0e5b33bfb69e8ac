"""A flood of forged Initials at a gateway (lab/gateway/initials.py sends them)."""

from __future__ import annotations

import subprocess
import sys

from lab import ROOT
from lab.gateway.pair import Gateway, Lab

SENDER = ROOT / "tests" / "lab" / "gateway" / "initials.py"
LISTENER = 66 << 6
"""Port on which branch 2 accepts the connections of group 0."""
RATE = 10_000
"""Initials a second, if the machine can."""


def flood(lab: Lab, number: int, interface: str, to: str) -> subprocess.Popen[str]:
    """Send forged Initials to gateway 2 from a namespace, for longer than a test needs.

    Their sources belong to nobody: what answers them is lost on the way.
    """
    lab.at(2, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.wa.rp_filter=0")
    command = (str(SENDER), interface, "10.66.0.0", to, str(LISTENER), "600", str(RATE))
    sender = lab.start(number, sys.executable, *command, stdout=subprocess.PIPE)
    assert sender.stdout
    assert sender.stdout.readline() == "starts\n"
    return sender


def unauthenticated(gateway: Gateway) -> dict[str, int]:
    found: dict[str, int] = gateway.get("/v1/counters")["unauthenticated"]
    return found
