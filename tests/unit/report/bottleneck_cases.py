"""Evidence of measurements whose limit is known, as samples of a trial. The numbers are invented.

h1 ---x--- fw ---y--- h2        routed: 400 Mbit/s each unless a case says otherwise
            |
            z--- h3

h1 -lan1- gw1 ==a,b== internet ==a,b== gw2 -lan2- h2       sdwan: paths p1 and p2,
                         ||                                 cross traffic over a bottleneck
                         gw3 -lan3- h3                      on p2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hawser.spec import load
from hawser.spec.workflow import Scenario

ROUTED = """\
hawser: 1
name: routed
title: A router between three hosts
topology:
  nodes: [h1, fw, h2, h3]
  links:
    x: {ends: [h1.x, fw.x], rate: 400 Mbit/s}
    y: {ends: [fw.y, h2.y], rate: 400 Mbit/s}
    z: {ends: [fw.z, h3.z], rate: 400 Mbit/s}
measurements:
  tcp: {probe: iperf3, from: h1, to: h2}
  back: {probe: iperf3, from: h1, to: h2, reverse: true}
  paced: {probe: iperf3, from: h1, to: h2, rate: 5 Mbit/s}
  udp: {probe: iperf3, from: h1, to: h2, protocol: udp, rate: 40 Mbit/s}
  http: {probe: http, from: h1, to: h2}
  search: {probe: throughput, from: h1, to: h2, sizes: {fixed: 1400 B}}
"""
SDWAN = """\
hawser: 1
name: sdwan
title: Three branches
topology:
  nodes: [h1, gw1, gw2, h2, gw3, h3]
  links:
    lan1: {ends: [h1.lan, gw1.lan]}
    lan2: {ends: [gw2.lan, h2.lan]}
    lan3: {ends: [gw3.lan, h3.lan]}
  internet:
    ports:
      gw1.a: {rate: 100 Mbit/s}
      gw1.b: {rate: 100 Mbit/s}
      gw2.a: {rate: 100 Mbit/s}
      gw2.b: {rate: 100 Mbit/s}
      gw3.a: {rate: 100 Mbit/s}
    paths:
      p1: {ends: [gw1.a, gw2.a], rate: 20 Mbit/s}
      p2: {ends: [gw1.b, gw2.b], rate: 20 Mbit/s}
    bottlenecks:
      m: {between: [[gw1.b, gw2.b]], rate: 50 Mbit/s, reverse: {cross_traffic: {tcp: 10}}}
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan, prefix: 10.2.0.0/24}
    b3: {id: 3, gateway: gw3, wan: [a], lan: lan, prefix: 10.3.0.0/24}
measurements:
  tcp: {probe: iperf3, from: h1, to: h2}
"""


def scenario(text: str) -> Scenario:
    return load("x.yaml", lambda _: text.encode()).variants[0].scenario


Values = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """What was recorded, and what limited."""

    limits: frozenset[str]
    """Kind and element of each."""
    evidence: Mapping[str, Values]
    """In addition to what a measurement of little load leaves (`QUIET`)."""
    measurement: str = "tcp"
    workflow: str = ROUTED
    delivered: float | None = None
    """Mbit/s that arrived."""

    @property
    def samples(self) -> dict[str, dict[str, float]]:
        quiet = QUIET if self.workflow == ROUTED else {}
        subjects = (*quiet, *self.evidence)
        return {s: {**quiet.get(s, {}), **self.evidence.get(s, {})} for s in subjects}


def queue(
    load: float,
    busiest: float,
    drops: float = 0,
    of: float = 10_000,
    at: float = 0,
    span: float = 90,
    rate: float = 400,
    frame: float = 1400,
) -> Values:
    """A direction: percent of its rate on average and at most, packets dropped of how many, load
    when it dropped, and percent of the time from the first drop to the last."""
    found = {
        "rate_limit": rate,
        "load": load,
        "load_busiest": busiest,
        "packets": of,
        "bytes": of * frame,
        "drop_queue": drops,
    }
    return found | ({"load_at_drop": at or load, "drop_span": span} if drops else {})


def thread(demand: float, cpu: float | None = None) -> Values:
    return {"thread_demand": demand, "thread_cpu": demand if cpu is None else cpu}


def quota(throttled: float) -> Values:
    return {"cpu": throttled / 10, "cpu_limit": 10, "throttled": throttled}


def sockets(
    window: float = 5, buffer: float = 0, busy: float = 99, unread: float | None = None
) -> Values:
    found = {
        "busy": busy,
        "receive_window_limited": window,
        "send_buffer_limited": buffer,
    }
    return found if unread is None else found | {"receive_buffer_unread": unread}


QUIET: Mapping[str, Values] = {
    "link:x:forward": queue(10, 20),
    "link:x:reverse": queue(0.3, 0.6, frame=66),
    "link:y:forward": queue(10, 20),
    "link:y:reverse": queue(0.3, 0.6, frame=66),
    "program:h1:iperf3": thread(12),
    "program:h2:iperf3": thread(15),
    "node:fw": {"packets": 10_000, "drop_filter": 0},
    "socket:h1": sockets(),
    "socket:h2": {"packets": 10_000, "drop_buffer": 0, "receive_buffer_unread": 4},
}


def _limits(*named: str) -> frozenset[str]:
    return frozenset(named)


NONE = _limits()
Y, X, BACK = "rate link:y:forward", "rate link:x:forward", "rate link:y:reverse"
SLOW = queue(96, 100, 40, 8000, 97, rate=20)
SHORT = queue(40, 70, 200, 10_000, 55)
WINDOW, SMALL_WINDOW = "window h2", sockets(window=92)
POLICED = {"packets": 10_000, "drop_filter": 300}
NO_TCP: Values = {}

GUILTY: dict[str, Case] = {
    "a full link": Case(_limits(Y), {"link:y:forward": SLOW}),
    "a full link with a queue that never overflows": Case(
        _limits(Y), {"link:y:forward": queue(97, 99, rate=20)}
    ),
    "a full link with a queue of half a BDP": Case(
        _limits(Y), {"link:y:forward": queue(86, 100, 25, 9000, 99, rate=20)}
    ),
    "a link that is full now and then": Case(
        _limits(Y), {"link:y:forward": queue(50, 100, 60, 9000, 98)}
    ),
    "a short queue": Case(_limits("queue link:y:forward"), {"link:y:forward": SHORT}),
    "a policer": Case(_limits("filter fw"), {"node:fw": POLICED}),
    "a function without CPU quota left": Case(_limits("function fw"), {"node:fw": quota(95)}),
    "a function that is always busy": Case(
        _limits("function fw"), {"program:fw:firewall": thread(99)}
    ),
    "a generator without CPU quota left": Case(_limits("generator h1"), {"node:h1": quota(90)}),
    "a generator that is always busy": Case(
        _limits("generator h1"), {"program:h1:iperf3": thread(98)}
    ),
    "a receiver without CPU quota left": Case(_limits("receiver h2"), {"node:h2": quota(90)}),
    "a receiver that waits for a core": Case(
        _limits("receiver h2"), {"program:h2:iperf3": thread(96, 55)}
    ),
    "a small receive window": Case(_limits(WINDOW), {"socket:h1": SMALL_WINDOW}),
    "a receiver that reads slowly": Case(
        _limits("receiver h2"),
        {"socket:h1": sockets(window=85), "socket:h2": {"receive_buffer_unread": 80}},
    ),
    "a small send buffer": Case(_limits("generator h1"), {"socket:h1": sockets(buffer=40)}),
    "a sender with nothing to send": Case(_limits("generator h1"), {"socket:h1": sockets(busy=20)}),
    "loss of a path": Case(
        _limits("loss link:y:forward"),
        {"link:y:forward": {"drop_loss": 200, "packets_offered": 20_000}},
    ),
    "acknowledgements that fill a slow direction back": Case(
        _limits(BACK), {"link:y:reverse": queue(98, 100, 90, 9000, 99, rate=1, frame=66)}
    ),
    "UDP beyond the rate of a link": Case(
        _limits(Y),
        {"link:y:forward": queue(99, 100, 4000, 8000, 99, rate=20), "socket:h1": NO_TCP},
        "udp",
        delivered=19,
    ),
    "UDP that the receiver does not read": Case(
        _limits("receiver h2"),
        {"socket:h2": {"packets": 500, "drop_buffer": 500}},
        "udp",
        delivered=20,
    ),
    "UDP of a generator that cannot keep up": Case(
        _limits("generator h1"), {"program:h1:iperf3": thread(99)}, "udp", delivered=25
    ),
    "UDP in bursts that a queue cannot take": Case(
        _limits("queue link:y:forward"),
        {"link:y:forward": queue(20, 30, 1000, 9000, 25)},
        "udp",
        delivered=36,
    ),
    "UDP through a policer": Case(
        _limits("filter fw"),
        {"node:fw": {"packets": 9000, "drop_filter": 6000}},
        "udp",
        delivered=13,
    ),
    "UDP that all arrives": Case(_limits("load h1"), {}, "udp", delivered=40),
    "TCP at a rate that all arrives": Case(
        _limits("load h1"), {"socket:h1": sockets(busy=30)}, "paced", delivered=5
    ),
    "TCP at a rate, where what arrived is not known": Case(
        _limits("load h1"), {"socket:h1": sockets(busy=30)}, "paced"
    ),
    "a full link backwards": Case(
        _limits(BACK), {"link:y:reverse": SLOW, "socket:h2": sockets()}, "back"
    ),
    "responses that fill a link": Case(_limits(BACK), {"link:y:reverse": SLOW}, "http"),
    "a search up to the rate of a link": Case(
        _limits(Y), {"link:y:forward": queue(70, 100, 900, 90_000, 99)}, "search"
    ),
    "two paths that are full together": Case(
        _limits("rate path:p1:forward", "rate path:p2:forward"),
        {"path:p1:forward": SLOW, "path:p2:forward": SLOW},
        workflow=SDWAN,
    ),
    "a gateway that is always busy": Case(
        _limits("function daemon:gw1"),
        {"daemon:gw1": thread(99), "path:p1:forward": queue(40, 60, rate=20)},
        workflow=SDWAN,
    ),
    "a policer and a short queue": Case(
        _limits("filter fw", "queue link:y:forward"), {"node:fw": POLICED, "link:y:forward": SHORT}
    ),
    "a full link, and a policer that takes its share": Case(
        _limits(Y, "filter fw"), {"link:y:forward": SLOW, "node:fw": POLICED}
    ),
    "a small window half of the time, and a short queue": Case(
        _limits(WINDOW, "queue link:y:forward"),
        {"socket:h1": sockets(window=55), "link:y:forward": SHORT},
    ),
}
"""Something limited, and must be named."""

SLOW_START = queue(30, 97, 300, 10_000, 97, span=12)
INNOCENT: dict[str, Case] = {
    "one drop in 9000 at 10 % load": Case(
        _limits(WINDOW),
        {"link:y:forward": queue(10, 30, 1, 9000, 95), "socket:h1": SMALL_WINDOW},
    ),
    "one drop in 9000 at 10 % load, and nothing else": Case(
        NONE, {"link:y:forward": queue(10, 30, 1, 9000, 95)}
    ),
    "drops of slow start before 30 % load": Case(
        _limits(WINDOW), {"link:y:forward": SLOW_START, "socket:h1": sockets(window=80)}
    ),
    "drops of slow start before 30 % load, and nothing else": Case(
        NONE, {"link:y:forward": SLOW_START}
    ),
    "cross traffic that fills the other direction": Case(
        _limits("rate path:p1:forward"),
        {
            "path:p1:forward": SLOW,
            "bottleneck:m:forward": queue(30, 40, rate=50),
            "bottleneck:m:reverse": queue(99, 100, 900, 20_000, 99, rate=50),
        },
        workflow=SDWAN,
    ),
    "UDP of constant rate with 6 lost": Case(
        _limits("load h1"),
        {"link:y:forward": queue(30, 60, 6, 20_000, 40)},
        "udp",
        delivered=39.99,
    ),
    "UDP with 6 lost, where what arrived is not known": Case(
        NONE, {"link:y:forward": queue(30, 60, 6, 20_000, 40)}, "udp"
    ),
    "UDP of a generator that waits for a core but keeps up": Case(
        _limits("load h1"), {"program:h1:iperf3": thread(95, 60)}, "udp", delivered=39.9
    ),
    "a link off the way that is full": Case(
        _limits("receiver h2"),
        {"link:z:forward": SLOW, "program:h2:iperf3": thread(97)},
    ),
    "a policer of a host off the way": Case(
        _limits(Y), {"link:y:forward": SLOW, "node:h3": {"packets": 900, "drop_filter": 300}}
    ),
    "a busy gateway of another branch": Case(
        _limits("rate path:p1:forward"),
        {"daemon:gw3": thread(99), "path:p1:forward": SLOW},
        workflow=SDWAN,
    ),
    "data of others that fills the direction of acknowledgements": Case(
        _limits(WINDOW), {"link:y:reverse": SLOW, "socket:h1": SMALL_WINDOW}
    ),
    "a function at 85 %": Case(NONE, {"program:fw:firewall": thread(85)}),
    "a receiver that waits for a core behind a full link": Case(
        _limits(Y), {"link:y:forward": SLOW, "program:h2:iperf3": thread(93, 40)}
    ),
    "bursts of a throttled generator that overflow a queue": Case(
        _limits("generator h1"), {"node:h1": quota(95), "link:x:forward": SHORT}
    ),
    "three packets lost on a path": Case(
        _limits(WINDOW),
        {
            "link:y:forward": {"drop_loss": 3, "packets_offered": 30_000},
            "socket:h1": SMALL_WINDOW,
        },
    ),
    "a few drops of a filter behind a full link": Case(
        _limits(Y),
        {"link:y:forward": SLOW, "node:fw": {"packets": 10_000, "drop_filter": 20}},
    ),
    "drops of a connection that seldom sends": Case(
        _limits("generator h1"), {"link:y:forward": SHORT, "socket:h1": sockets(busy=15)}
    ),
    "a few datagrams that the receiver did not read": Case(
        _limits("load h1"),
        {"socket:h2": {"packets": 40_000, "drop_buffer": 8}},
        "udp",
        delivered=39.99,
    ),
    "acknowledgements that the receiver sends, window-limited": Case(
        _limits(Y), {"link:y:forward": SLOW, "socket:h2": sockets(window=90)}
    ),
    "loss on the way of acknowledgements": Case(
        _limits(Y),
        {
            "link:y:forward": SLOW,
            "link:y:reverse": {"drop_loss": 400, "packets_offered": 8000},
        },
    ),
    "a window that is full because the link is": Case(
        _limits(Y), {"link:y:forward": queue(97, 99, rate=20), "socket:h1": SMALL_WINDOW}
    ),
}
"""Something looks guilty, and must not be named."""

CASES = GUILTY | INNOCENT
