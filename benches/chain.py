#!/usr/bin/env python3
"""Service chains beside each other: frames a second through 0 to 11 functions, and delays."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import correlation, linear_regression, mean

from harness.bench import Bench, Measure, Metric, Peer, SampleError
from harness.cli import Effort, main
from harness.lab import Lab, until
from harness.obtain import from_system, hawserd
from harness.result import Check, Figure, at_least
from harness.samples import Samples
from peers import chain, frames
from peers.chain import Row

_BARE, _HAWSER = "bare XDP redirects", "hawser function"
_FEW, _MANY = "hawser firewall, 10 rules", "hawser firewall, 100 000 rules"
_OVS = "Open vSwitch, NSH"
_FIELDS, _SLICES = "Python, fields", "Python, slices"

_LENGTHS = {64: (0, 1, 2, 4, 6, 8, 11), 1462: (1, 6, 11)}
"""Chain lengths by frame size in bytes, with the frame check sequence."""
_COMPARED = {64: (0, 1, 6, 11), 1462: (1, 6, 11)}
"""Chain lengths for which the limit without functions, XDP redirects alone, is measured too."""
_HAWSER_LENGTHS = {64: (1, 2, 4, 6, 8, 11), 1462: (1, 6, 11)}
"""Chain lengths that are measured with functions; an empty chain has none."""
_SMALL = 64
_ECHO_LENGTHS = (0, 2, 4, 6, 8, 11)
_ECHOES = 50
"""Echoes per chain length and unit of effort: ping has a resolution of 1 us."""
_TURN = 250
"""Consecutive echoes in one chain; the first tenth warms the caches and is discarded."""
_TOLERATED = 0.01
"""Loss ratio allowed for programs with packet sockets, which overflow while not scheduled."""

_AIM = {1: 2.0, 6: 0.6, 11: 0.3}
"""Throughput of 64-byte frames that our machines should reach, million frames/s, by length."""

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
                load = frames.Load(size)
                first = frames.overloaded(row, load)
                found[_metric(size, length)] = frames.highest(row, load, first, tolerated) / 1e6
                if length == 1:
                    found[_most(size)] = first.received / 1e6
    return found


@contextlib.contextmanager
def built(build: chain.Build, row: Row) -> Iterator[None]:
    """Build a chain for as long as the context lasts."""
    build(row)
    yield


def _echoes(program: str, count: int) -> Mapping[str, float]:
    """Linear regression of the round-trip time over the chain length.

    All chains exist at the same time and are measured in turn, so that a slow phase of the machine
    affects all of them.
    """
    times: dict[int, list[float]] = {length: [] for length in _ECHO_LENGTHS}
    with contextlib.ExitStack() as stack:
        rows = {n: _answering(program, stack.enter_context(Lab()), n) for n in _ECHO_LENGTHS}
        for _ in range(count // _TURN):
            for length, row in rows.items():
                times[length] += _round_trips(row)
    # ping has a resolution of 1 us; a mean resolves more. The slowest tenth was disturbed.
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
    """Round-trip times of one turn, milliseconds."""
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
    """Give the rates of chains of these lengths, by frame size."""
    cases = lengths.items()
    return {f"{size} B": partial(_rates, through, size, some) for size, some in cases}


def _one(build: chain.Build, tolerated: float = 0.0) -> dict[str, Measure]:
    """Chains of one function, by frame size."""
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
    shares = [
        at_least(
            f"{_HAWSER} / {_BARE}, {length} functions, {size} B, at least",
            samples.ratio(_metric(size, length), _HAWSER, _BARE),
            0.6,
        )
        for size in _LENGTHS
        for length in _AIM
    ]
    one = _metric(_SMALL, 1)
    return [
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
        at_least("R2 of RTT over length, at least", samples.median(_HAWSER, "rtt_r2"), 0.99),
    ]


def _figures(samples: Samples) -> list[Figure]:
    slope = samples.median(_HAWSER, "rtt_slope")
    return [
        *(
            Figure(
                name=f"{_HAWSER}, {length} functions, 64 B, million/s, at least",
                value=samples.median(_HAWSER, _metric(_SMALL, length)),
                aim=aim,
            )
            for length, aim in _AIM.items()
        ),
        Figure(name="RTT a function in us, at most", value=slope, aim=15),
    ]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="chain",
        title="Service chains",
        about=_ABOUT.format(
            trial=frames.TRIAL_S,
            tolerated=_TOLERATED,
            echoes=_ECHOES * effort.echoes,
            echo_lengths=", ".join(map(str, _ECHO_LENGTHS)),
            turn=_TURN,
        ),
        metrics=METRICS,
        peers=peers,
        checks=_checks,
        figures=_figures,
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
