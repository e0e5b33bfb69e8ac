#!/usr/bin/env python3
"""Service chains beside each other: frames a second through 0 to 11 functions, and delays."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import correlation, linear_regression, mean
from typing import Any

from harness.bench import Bench, Measure, Metric, Peer, SampleError
from harness.cli import Effort, main
from harness.lab import Lab, until
from harness.obtain import from_system, hawserd
from harness.result import Check, at_least, at_most
from harness.samples import Samples
from peers import chain
from peers.chain import Row
from peers.generators import CORE

_BARE, _HAWSER = "bare XDP redirects", "hawser function"
_FEW, _MANY = "hawser firewall, 10 rules", "hawser firewall, 100 000 rules"
_OVS = "Open vSwitch, NSH"
_FIELDS, _SLICES = "Python, fields", "Python, slices"

_LENGTHS = {64: (0, 1, 2, 4, 6, 8, 11), 1462: (1, 6, 11)}
"""Lengths of chains by the bytes of a frame as on the wire, with the frame check sequence."""
_COMPARED = {64: (0, 1, 6, 11), 1462: (1, 6, 11)}
"""Those of them that are made of bare redirects, too."""
_HAWSER_LENGTHS = {64: (1, 2, 4, 6, 8, 11), 1462: (1, 6, 11)}
"""Those that are made of functions: one of none is the same as the other."""
_SMALL = 64
_CHECK = 4
_HEADER = 24
"""Bytes of a network service header of MD type 1, which is added."""
_ECHO_LENGTHS = (0, 2, 4, 6, 8, 11)
_ECHOES = 50
"""Echoes at each length for one that is asked for: ping tells whole microseconds."""
_TURN = 250
"""Of them, as many follow each other in one chain; the first tenth warms the caches."""
_TRIAL_S = 0.3
_BEYOND, _BELOW = 1.5, 0.8
"""Of what arrives where frames are sent as fast as can be: no rate without loss is higher than the
first, and the search begins at the second."""
_DOWN = 0.5
"""Of a rate with loss, while none without is known."""
_WIDTH = 1.04
"""The search ends where the lowest rate with loss is within this of the highest without."""
_TRIALS = 2
"""Of a rate, until one passes."""
_WARMING = {"frames_per_s": 1_000}
"""Before a search, so that caches know the flow."""
_WARMING_S = 0.2
_TOLERATED = 0.01
"""Share of frames that programs with packet sockets may lose: these overflow when they wait."""
_SLOWEST, _FASTEST = 1_000, 8_000_000
"""Frames a second: no chain here is slower or faster."""

_MINIMUM = {1: 2.0, 6: 0.6, 11: 0.3}
"""Million 64-byte frames a second that a chain must carry, by its length."""

_ABOUT = """\
A chain of n functions, each in a network namespace of its own, in a row of veth links from
generator to sink; all on this machine, the packets on one core. Frames carry a network service
header of MD type 1; each function takes one off service index and time to live, and sends on by
its own table. `bare XDP redirects` is the limit of the method: the same namespaces, links and
frames with programs that look one entry up, write Ethernet addresses and redirect. Open vSwitch
(userspace datapath) and the Python scripts (packet sockets, decode, index down, rebuild) are a
chain of one, and so are firewalls, whose last rule is the one that fits. The functions of published
experiments decode every header into an object with a field for each of its fields, and build it
again from that (`fields` here; OpenDaylight's vxlan_tool.py); `slices` is as little as a script can
do: it takes slices of the frame and changes one number. Every chain has led
frames of the flow before it is measured. The rate is the highest at which no frame is lost in
{trial} s, of two trials the better one, found by halving to 4 %; Open vSwitch and the script may
lose {tolerated:.0%}, as the buffers of packet sockets overflow whenever their readers wait.
Overloaded means what arrives of frames that are sent as fast as can be, many of which are lost.
Frame sizes are those before the header of 24 bytes is added. Round-trip time: {echoes} echoes at
each of {echo_lengths} functions, {turn} at a time by turns; they pass the functions both ways, and
a classifier at their ends puts the header on and takes it off. Slope and R2 of the line through the
means of the faster nine tenths."""


def _metric(size: int, length: int) -> str:
    return f"rate_{size}_{length}"


def _most(size: int) -> str:
    return f"most_{size}"


METRICS = (
    *(
        Metric(_metric(size, length), "million/s", f"{size} B, {length}", 3)
        for size, lengths in _LENGTHS.items()
        for length in lengths
    ),
    *(Metric(_most(size), "million/s", f"{size} B, 1, overloaded", 3) for size in _LENGTHS),
    Metric("rtt_slope", "us", "RTT a function"),
    Metric("rtt_r2", "", "R2", 4),
)

Through = Callable[[Row], contextlib.AbstractContextManager[None]]


def _rates(
    through: Through, size: int, lengths: Sequence[int], tolerated: float = 0.0
) -> Mapping[str, float]:
    found = {}
    for length in lengths:
        with Lab() as lab:
            row = chain.row(lab, length)
            with through(row):
                _trial(row, size, _WARMING, _WARMING_S)
                first = _trial(row, size, "max")
                found[_metric(size, length)] = _highest(row, size, first, tolerated) / 1e6
                if length == 1:
                    found[_most(size)] = first.received / 1e6
    return found


def _highest(row: Row, size: int, first: _Trial, tolerated: float) -> float:
    """Highest rate, frames a second, at which no more than this share of frames is lost.

    A rate at which more are lost is tried again: loss that the rate did not cause does not come
    twice (ETSI GS NFV-TST 009 section 12.3.3, binary search with loss verification).

    Args:
        row: the chain.
        size: bytes of a frame.
        first: a trial as fast as can be.
        tolerated: share of frames that may be lost.
    """
    if first.loss <= tolerated:
        return first.received
    low, high, rate = 0.0, first.received * _BEYOND, first.received * _BELOW
    while rate > _SLOWEST and high > low * _WIDTH:
        trials = (_trial(row, size, {"frames_per_s": rate}) for _ in range(_TRIALS))
        passed = next((trial for trial in trials if trial.loss <= tolerated), None)
        if passed:
            low = passed.received
        else:
            high = rate
        rate = (low * high) ** 0.5 if low else high * _DOWN
    if low == 0.0:
        raise SampleError(f"frames are lost at every rate from {_SLOWEST} a second on")
    return low


class _Trial:
    """Frames a second that arrived, and the share of those that did not."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        received = result["received"]
        self.received = float(received["unique"] / received["seconds"])
        self.loss = result["lost"] / (result["lost"] + received["unique"])


def _trial(row: Row, size: int, rate: object, seconds: float = _TRIAL_S) -> _Trial:
    per_second = rate["frames_per_s"] if isinstance(rate, dict) else _FASTEST / 2
    frames = max(200, int(per_second * seconds))
    file = row.gen.directory / "load.json"
    file.write_text(json.dumps(_load(row, size, rate, frames)))
    command = [hawserd().path, "load", "--config", str(file)]
    return _Trial(json.loads(row.gen.run(command, timeout=60).splitlines()[-1]))


def _load(row: Row, size: int, rate: object, frames: int) -> dict[str, Any]:
    stream = {
        "name": "s",
        "ethernet": {"destination": row.links[0].into.mac},
        "outer": {"nsh": {"spi": 1, "si": 255}},
        "source": {"first": "198.18.0.1"},
        "target": {"first": "198.18.99.2"},
        "source_port": {"first": 10000},
        "target_port": {"first": 10500},
        "sizes": {"fixed": size - _CHECK + _HEADER},
        "rate": rate,
        "amount": {"frames": frames},
    }
    gen, sink = row.links[0].out, row.links[-1].into
    return {
        "version": 1,
        "send": {
            "port": {"interface": gen.device, "netns": gen.namespace.name},
            "cpu": CORE,
            "traffic": {"streams": [stream]},
        },
        "receive": {"port": {"interface": sink.device, "netns": sink.namespace.name}},
    }


@contextlib.contextmanager
def built(build: chain.Build, row: Row) -> Iterator[None]:
    """Build a chain for as long as the context lasts."""
    build(row)
    yield


def _echoes(program: str, count: int) -> Mapping[str, float]:
    """The line through the round-trip times over the length of the chain.

    All chains stand beside each other and are asked by turns, so that whatever makes the machine
    slow for a while meets all of them.
    """
    times: dict[int, list[float]] = {length: [] for length in _ECHO_LENGTHS}
    with contextlib.ExitStack() as stack:
        rows = {n: _answering(program, stack.enter_context(Lab()), n) for n in _ECHO_LENGTHS}
        for _ in range(count // _TURN):
            for length, row in rows.items():
                times[length] += _round_trips(row)
    # ping tells whole microseconds: a mean resolves more, without the slowest, who were disturbed.
    means = [mean(sorted(some)[: len(some) * 9 // 10]) * 1000 for some in times.values()]
    slope, _ = linear_regression(_ECHO_LENGTHS, means)
    return {"rtt_slope": slope, "rtt_r2": correlation(_ECHO_LENGTHS, means) ** 2}


def _answering(program: str, lab: Lab, length: int) -> Row:
    """A chain between two hosts."""
    row = chain.steered(program, lab, length)
    for address, port in (("10.0.0.1", row.links[0].out), ("10.0.0.2", row.links[-1].into)):
        port.namespace.ip("address", "add", f"{address}/24", "dev", port.device)
        port.namespace.run(["ethtool", "-K", port.device, "tx", "off", "gro", "on"])
    until(lambda: _answers(row), "echoes come back")
    return row


def _round_trips(row: Row) -> list[float]:
    """Those of a turn, milliseconds."""
    ping = ["taskset", "-c", "0", "ping", "-c", str(_TURN), "-i", "0.0002", "10.0.0.2"]
    times = [float(t) for t in re.findall(r"time=([\d.]+) ms", row.gen.run(ping, timeout=60))]
    if len(times) < _TURN:
        raise SampleError(f"{_TURN - len(times)} of {_TURN} echoes were lost")
    return times[_TURN // 10 :]


def _answers(row: Row) -> bool:
    try:
        row.gen.run(["ping", "-c", "1", "-W", "1", "10.0.0.2"])
    except SampleError:
        return False
    return True


def rate_cases(through: Through, lengths: Mapping[int, Sequence[int]]) -> dict[str, Measure]:
    """Give the rates of chains of these lengths, by bytes of a frame."""
    cases = lengths.items()
    return {f"{size} B": partial(_rates, through, size, some) for size, some in cases}


def _one(build: chain.Build, tolerated: float = 0.0) -> dict[str, Measure]:
    """Chains of one, by frames of each size."""
    through = partial(built, build)
    return {f"{size} B": partial(_rates, through, size, [1], tolerated) for size in _LENGTHS}


def _bare(_effort: Effort) -> Peer:
    return Peer(_BARE, cases=rate_cases(chain.redirecting, _COMPARED))


def _hawser(effort: Effort) -> Peer:
    program = hawserd()
    build = partial(chain.hawser, program.path)
    cases = rate_cases(partial(built, build), _HAWSER_LENGTHS)
    echoes = partial(_echoes, program.path, _ECHOES * effort.echoes)
    return Peer(_HAWSER, program.version, {**cases, "round-trip time": echoes})


def _open_vswitch(_effort: Effort) -> Peer:
    switch = from_system("ovs-vswitchd", "openvswitch-switch")
    return Peer(_OVS, switch.version, _one(chain.open_vswitch, _TOLERATED))


def _python(name: str, way: str, _effort: Effort) -> Peer:
    version = sys.version.split()[0]
    return Peer(name, version, _one(partial(chain.python, way), _TOLERATED))


def _firewall(name: str, rules: int, _effort: Effort) -> Peer:
    program = hawserd()
    through = partial(built, partial(chain.firewall, program.path, rules))
    return Peer(name, program.version, rate_cases(through, {_SMALL: (1,)}))


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _BARE: _bare,
    _HAWSER: _hawser,
    _OVS: _open_vswitch,
    _FIELDS: partial(_python, _FIELDS, "fields"),
    _SLICES: partial(_python, _SLICES, "slices"),
    _FEW: partial(_firewall, _FEW, 10),
    _MANY: partial(_firewall, _MANY, 100_000),
}


def _checks(samples: Samples) -> list[Check]:
    of = [
        at_least(
            f"{_HAWSER}, {length} functions, 64 B, million/s, at least",
            samples.median(_HAWSER, _metric(_SMALL, length)),
            limit,
        )
        for length, limit in _MINIMUM.items()
    ]
    shares = [
        at_least(
            f"{_HAWSER} / {_BARE}, {length} functions, {size} B, at least",
            samples.ratio(_metric(size, length), _HAWSER, _BARE),
            0.6,
        )
        for size in _LENGTHS
        for length in _MINIMUM
    ]
    one = _metric(_SMALL, 1)
    return [
        *of,
        *shares,
        *(
            at_least(
                f"{_HAWSER} / {_OVS}, {size} B, both overloaded, at least",
                samples.ratio(_most(size), _HAWSER, _OVS),
                5,
            )
            for size in _LENGTHS
        ),
        at_least(f"{_HAWSER} / {_OVS}, at least", samples.ratio(one, _HAWSER, _OVS), 5),
        at_least(f"{_HAWSER} / {_FIELDS}, at least", samples.ratio(one, _HAWSER, _FIELDS), 100),
        at_least(f"{_MANY} / 10 rules, at least", samples.ratio(one, _MANY, _FEW), 0.8),
        at_most("RTT a function in us, at most", samples.median(_HAWSER, "rtt_slope"), 15),
        at_least("R2 of RTT over length, at least", samples.median(_HAWSER, "rtt_r2"), 0.99),
    ]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="chain",
        title="Service chains",
        about=_ABOUT.format(
            trial=_TRIAL_S,
            tolerated=_TOLERATED,
            echoes=_ECHOES * effort.echoes,
            echo_lengths=", ".join(map(str, _ECHO_LENGTHS)),
            turn=_TURN,
        ),
        metrics=METRICS,
        peers=peers,
        checks=_checks,
    )


TOOLS = (
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("taskset", "util-linux"),
    ("nsenter", "util-linux"),
    ("bpftool", "bpftool"),
    ("clang", "clang"),
)

if __name__ == "__main__":
    sys.exit(main(str(__doc__), TOOLS, _PEERS, _bench, rounds=3))
