"""How soon a chain fails open or closed once a function was killed; tests/netns test that it does.

   client --in-- n1 --between-- n2        chain f1, x, g both ways; x is the program that is
                 |                        killed while its kernel goes on forwarding
   server --out--+                        (drawn in lab/plans/chains.py)

An echo request leaves the client every 5 ms. Those that come to x and to the server are captured.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec.workflow import Change
from lab.plans.chains import SLEEPER, chain, chain_with
from lab.traffic.chains import SOME, Echoes, missed, sniffed
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
Requests = Callable[[], dict[int, float]]
LIMIT = 0.2
"""Seconds from the kill to the first packet past the function, or to the last one through it."""


@contextmanager
def requests(node: NamespaceNode, interface: str) -> Iterator[Requests]:
    """Capture echo requests: the number of each, and when it was seen first (of `time.time`)."""
    line = re.compile(r"^([\d.]+) .* ICMP echo request, id \d+, seq (\d+),")
    with sniffed(node, interface, "-tt icmp[icmptype]=icmp-echo") as lines:

        def seen() -> dict[int, float]:
            found = [match for each in lines() if (match := line.match(each))]
            return {int(each[2]): float(each[1]) for each in reversed(found)}

        yield seen


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_chain_soon_fails_open(deploy: Deploy, steering: str) -> None:
    lab = deploy(chain_with(SLEEPER, steering=steering, fail="open"))
    x, server = lab.nodes["x"], lab.nodes["server"]
    with Echoes(lab), requests(x, "f0") as through, requests(server, "eth") as arrived:
        until(lambda: len(through()) > SOME and len(arrived()) > SOME, "the chain carries")
        killed = time.time()
        lab.apply("function:x", Change(up=False))

        def past() -> list[float]:
            last = max(through())
            return [at for number, at in arrived().items() if number > last]

        until(lambda: len(past()) > SOME, "echoes pass by the function")
        assert min(past()) - killed < LIMIT


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_chain_soon_fails_closed(deploy: Deploy, steering: str) -> None:
    lab = deploy(chain_with(SLEEPER, steering=steering, fail="closed"))
    with Echoes(lab), requests(lab.nodes["server"], "eth") as arrived:
        until(lambda: len(arrived()) > SOME, "the chain carries")
        killed, before = time.time(), missed(lab)
        lab.apply("function:x", Change(up=False))
        until(lambda: missed(lab) > before + SOME, "echoes are dropped")
        assert max(arrived().values()) - killed < LIMIT


def test_a_chain_of_a_daemon_soon_fails_open(deploy: Deploy) -> None:
    """Its program at XDP ends with it, so that packets are lost until they pass by."""
    lab = deploy(chain(fail="open"))
    with Echoes(lab), requests(lab.nodes["server"], "eth") as arrived:
        until(lambda: len(arrived()) > SOME, "the chain carries")
        killed = time.time()
        lab.apply("function:f2", Change(up=False))

        def past() -> list[float]:
            numbers = arrived()
            lost = [each for each in range(min(numbers), max(numbers)) if each not in numbers]
            return [at for each, at in numbers.items() if lost and each > max(lost)]

        until(lambda: len(past()) > SOME, "echoes pass by the function")
        assert min(past()) - killed < LIMIT
