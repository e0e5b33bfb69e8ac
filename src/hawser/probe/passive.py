"""Counters of the lab during a trial: packets, drops, CPU time, memory and disk.

Nothing is sent. Counters are read before and after the trial; samples are the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from hawser.driver.base import Lab
from hawser.overlay.lab.plan import LinkPlan
from hawser.probe import counted, daemons, emulator, function, machine
from hawser.probe.counted import Counts, Tables
from hawser.store.sample import Sample

MEASUREMENT: Final = "passive"
_MIB = 2**20
_ENTRY = "switch:entry:"
"""Part of a gateway's counters that is one flow entry."""


@dataclass(frozen=True)
class Snapshot:
    """All counters of a lab at one moment."""

    network: Tables
    daemons: Mapping[str, daemons.State]


def snapshot(lab: Lab) -> Snapshot:
    """Read all counters of a lab.

    Raises:
        NodeError: a node's counters cannot be read.
        ProbeError: a daemon is gone or does not answer.
    """
    return Snapshot(
        network=counted.read(lab, lab.nodes),
        daemons={name: daemons.read(daemon) for name, daemon in lab.daemons.items()},
    )


def network(before: Tables, after: Tables) -> Iterator[Sample]:
    """Packets, bytes and drops by cause of every port and shaper class.

    A shaper class is named by its element, such as `path:p1:forward`; of an interface the subject
    is its port. A count that is smaller afterwards was reset in between: what it counted is not
    known, so there is no sample of it.
    """
    for node, tables in after.items():
        for key, counts in tables.items():
            if key == "lo":
                continue
            subject = key if ":" in key else f"port:{node}.{key}"
            earlier = before.get(node, {}).get(key, {})
            yield from _added(subject, earlier, counts)


def links(cables: Iterable[LinkPlan], before: Tables, after: Tables) -> Iterator[Sample]:
    """What was put on every link: `link:lan1:forward` is what left its first end.

    A link with a shaper is counted by its class already.
    """
    classes = {key for tables in after.values() for key in tables}
    for cable in cables:
        for (node, interface), direction in zip(cable.ends, ("forward", "reverse"), strict=True):
            subject = f"link:{cable.name}:{direction}"
            if subject not in classes:
                early, late = (_sent(tables, node, interface) for tables in (before, after))
                yield from _added(subject, early, late)


def _sent(tables: Tables, node: str, interface: str) -> Counts:
    counts = tables.get(node, {}).get(interface, {})
    return {name: counts[name] for name in ("tx_bytes", "tx_packets") if name in counts}


def _added(subject: str, before: Counts, after: Counts) -> Iterator[Sample]:
    for count, value in after.items():
        added = value - before.get(count, 0)
        if added >= 0 and count != "backlog":  # bytes that wait now: no count
            metric = f"tx_{count}" if count in ("bytes", "packets") else count
            yield _sample(
                metric, "bytes" if metric.endswith("bytes") else "packets", added, subject
            )


def processors(readings: Sequence[machine.Reading]) -> Iterator[Sample]:
    """What the machine used: each core and all together, most memory, and bytes of its disks."""
    for core, share in enumerate(machine.shares(readings[0], readings[-1])):
        yield _sample("cpu", "%", share, f"core:{core}")
    yield _sample("cpu", "%", sum(machine.shares(readings[0], readings[-1])), "machine")
    yield _sample("memory", "MiB", max(r.used_memory for r in readings) / _MIB, "machine")
    first, last = readings[0], readings[-1]
    yield _sample("disk_read", "MiB", (last.disk_read - first.disk_read) / _MIB, "machine")
    yield _sample("disk_written", "MiB", (last.disk_written - first.disk_written) / _MIB, "machine")
    for early, late in pairwise(readings):
        yield Sample(
            measurement=MEASUREMENT,
            metric="cpu",
            unit="%",
            value=sum(machine.shares(early, late)),
            subject="machine",
            kind="interval",
            time=late.at - readings[0].at,
        )


def daemon(
    name: str, early: daemons.State, late: daemons.State, seconds: float
) -> Iterator[Sample]:
    """Processor time, memory and own counters of a daemon over so many seconds."""
    subject = f"daemon:{name}"
    yield _sample("memory", "MiB", late.peak_memory / _MIB, subject)
    if early.pid != late.pid:
        return  # started again: what the first process used and counted is not known
    yield _sample("cpu", "%", 100 * (late.cpu_seconds - early.cpu_seconds) / seconds, subject)
    if early.wan is not None and late.wan is not None:
        yield from emulator.samples(early.wan, late.wan)
    for (part, count), value in late.counters.items():
        added = value - early.counters.get((part, count), 0)
        idle = added == 0 and part.startswith(_ENTRY)  # of hundreds of flow entries most are
        if added >= 0 and not idle:
            yield _sample(count, _unit(count), added, f"{subject}:{part}".rstrip(":"))


def _unit(count: str) -> str:
    """Of a daemon's own counter: what it drops are records, which may hold several packets."""
    if count.startswith("drop_"):
        return "records"
    return next((unit for unit in ("bytes", "packets", "records") if unit in count), "events")


def _sample(metric: str, unit: str, value: float, subject: str) -> Sample:
    return Sample(
        measurement=MEASUREMENT, metric=metric, unit=unit, value=float(value), subject=subject
    )


def _onboarding(lab: Lab) -> Iterator[Sample]:
    """Time from the first token to traffic between all branches, with a controller."""
    if lab.onboarding is not None:
        yield _sample("onboarding_time", "s", lab.onboarding, "controller")


class Passive:
    """Counts for as long as its block runs; `finish` within the block reads the result."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._watch = machine.Watch()
        self.late: tuple[str, ...] = ()
        """Paths that the WAN emulator delayed longer than it should. Set by `finish`."""
        self.faults: tuple[str, ...] = ()
        """Packets that the WAN emulator lost by mistake; the trial is void. Set by `finish`."""

    def __enter__(self) -> Self:
        self._before = snapshot(self._lab)
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__()

    def finish(self) -> list[Sample]:
        """Read everything again, and say what was counted since the block began.

        Raises:
            NodeError: a node's counters cannot be read.
            ProbeError: a daemon is gone or does not answer.
        """
        before, after = self._before, snapshot(self._lab)
        emulators = [
            (before.daemons[name].wan, late.wan)
            for name, late in after.daemons.items()
            if late.wan is not None
        ]
        pairs = [(early or late, late) for early, late in emulators]
        self.late = tuple(path for pair in pairs for path in emulator.late(*pair))
        self.faults = tuple(fault for pair in pairs for fault in emulator.dropped(*pair))
        readings = self._watch.readings_until_now()
        seconds = readings[-1].at - readings[0].at
        cables = [each for each in self._lab.plan.links if not {".", ":"} & set(each.name)]
        own = (
            sample
            for name, late in after.daemons.items()
            for sample in daemon(name, before.daemons[name], late, seconds)
        )
        chained = (
            sample
            for name, late in after.daemons.items()
            for sample in self._chained(name, before.daemons[name], late)
        )
        return [
            *_onboarding(self._lab),
            *network(before.network, after.network),
            *links(cables, before.network, after.network),
            *processors(readings),
            *own,
            *chained,
        ]

    def _chained(self, name: str, early: daemons.State, late: daemons.State) -> Iterator[Sample]:
        if early.function and late.function and early.pid == late.pid:
            chains = self._lab.plan.chains
            yield from function.samples(name, chains, early.function, late.function)
