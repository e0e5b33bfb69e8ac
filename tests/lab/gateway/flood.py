"""A flood of forged Initials at a gateway (lab/gateway/initials.py sends them)."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from lab import ROOT
from lab.gateway.pair import Gateway, Lab
from lab.waiting import until

SENDER = ROOT / "tests" / "lab" / "gateway" / "initials.py"
LISTENER = 66 << 6
"""Port on which branch 2 accepts the connections of group 0."""
RATE = 10_000
"""Initials a second, if the machine can."""


@dataclass(frozen=True)
class Outcome:
    """What became of the peer of a gateway that was flooded."""

    connects: list[float]
    """Seconds from each start of the peer until it was connected."""
    grown: int
    """What the gateway's memory took more than before, at its peak, KiB."""
    retries: int
    """Initials a second that it answered with Retry."""

    def __str__(self) -> str:
        slowest = f"{max(self.connects):.2f} s, of {len(self.connects)} starts"
        return f"slowest connect {slowest}; {self.grown} KiB more; {self.retries} Retry/s"


def flood(lab: Lab, number: int, interface: str, to: str) -> subprocess.Popen[str]:
    """Send forged Initials to gateway 2 from a namespace, for longer than a test needs.

    Their sources belong to nobody: what answers them is lost on the way.
    """
    lab.at(2, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.wa.rp_filter=0")
    if not lab.at(2, "ip", "route", "show", "default"):
        lab.at(2, "ip", "route", "replace", "10.66.0.0/16", "via", lab.wans[1][0])
    command = (str(SENDER), interface, "10.66.0.0", to, str(LISTENER), "600", str(RATE))
    sender = lab.start(number, sys.executable, *command, stdout=subprocess.PIPE)
    assert sender.stdout
    assert sender.stdout.readline() == "starts\n"
    return sender


def restart_under_flood(lab: Lab, one: Gateway, two: Gateway, seconds: float) -> Outcome:
    """Flood gateway 2 of `Lab.direct` for some time, while its peer dies and starts again."""
    before = two.memory()[0]
    sender = flood(lab, 1, "wa", "198.18.0.2")
    until(lambda: unauthenticated(two)["retries"] > 2000, "addresses have to be proved")
    began, retries, connects = time.monotonic(), unauthenticated(two)["retries"], []
    while not connects or time.monotonic() < began + seconds:
        one.stop(9)
        started = time.monotonic()
        one.start()
        until(one.up, "a peer that restarts is back")
        connects.append(time.monotonic() - started)
        time.sleep(0.5)
    assert sender.poll() is None, "the flood goes on"
    rate = (unauthenticated(two)["retries"] - retries) / (time.monotonic() - began)
    return Outcome(connects, two.memory()[1] - before, round(rate))


def unauthenticated(gateway: Gateway) -> dict[str, int]:
    found: dict[str, int] = gateway.get("/v1/counters")["unauthenticated"]
    return found
