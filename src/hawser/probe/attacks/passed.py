"""What got through: captures before and behind a chain, compared packet by packet of each flow.

Only what the end that began a flow sent is compared: answers pass the chain the other way. A flow
is blocked if payload or empty packets of it are missing behind the chain. Packets with payload are
not counted: where XDP programs hand them to the kernel it may merge several (GRO).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from hawser.probe.attacks.packets import CaptureError, Packet, Way, packets
from hawser.probe.attacks.recorder import FILE, MEASUREMENT
from hawser.probe.base import ProbeError
from hawser.spec.attack import FLOODS
from hawser.spec.capture import Capture
from hawser.spec.workflow import Scenario
from hawser.store import labels
from hawser.store.labels import BENIGN, Flow, Labels
from hawser.store.sample import Sample

_LATER_US: Final = 3_000_000
"""Time that a detector is given before an attack's volume counts as late."""
_SHORT_US: Final = 2_000_000
"""Window of the published detector, which blocks no shorter flow."""
_MOST_WAYS: Final = 5_000_000
"""Flows of one capture."""
_NEVER: Final = 2**63 - 1
_LARGEST_PACKET: Final = 65_535 + 18
_HEADERS: Final = 24 + 16
"""Bytes of a file's and a packet's header (pcap-savefile(5))."""
_DROPPED: Final = re.compile(r"^(\d+) packets? dropped by kernel", re.MULTILINE)
"""Of what tcpdump says at its end."""


@dataclass
class _Sent:
    """What the end that began a flow sent."""

    late_from: int
    """Time from which on its bytes are late."""
    first_us: int
    last_us: int = 0
    payload: int = 0
    empty: int = 0
    """Packets without payload."""
    volume: int = 0
    late: int = 0
    """Bytes of an attack later than `_LATER_US` after its begin."""

    def add(self, packet: Packet) -> None:
        self.last_us = packet.time_us
        self.payload += packet.payload
        self.empty += not packet.payload
        self.volume += packet.size
        if packet.time_us >= self.late_from:
            self.late += packet.size


@dataclass(frozen=True)
class Passed:
    """A flow: what was sent before the chain, and what came out behind. Bytes."""

    label: str
    short: bool
    """Whether it lasted less than `_SHORT_US`."""
    sent: int
    got_through: int
    late_sent: int
    late_through: int
    blocked: bool
    block_us: int | None
    """From its first packet to the last that passed; None if all or none passed."""


def compare(
    before: Iterable[Packet],
    behind: Iterable[Packet],
    known: Labels,
    *,
    all_labelled: bool = True,
) -> list[Passed]:
    """Compare both sides of a chain, flow by flow.

    Flows that no row is about are benign; unless all are labelled, they are left out.

    Raises:
        CaptureError: there are too many flows.
    """
    names, begun = _begun(before, known)
    if not all_labelled:
        begun = {way: sent for way, sent in begun.items() if names[way] is not None}
    came = {way: _Sent(sent.late_from, sent.first_us) for way, sent in begun.items()}
    for packet in behind:
        if packet.way in came:
            came[packet.way].add(packet)
    return [_passed(names[way] or BENIGN, sent, came[way]) for way, sent in begun.items()]


_Names = dict[Way, str | None]


def _begun(found: Iterable[Packet], known: Labels) -> tuple[_Names, dict[Way, _Sent]]:
    """Give the direction of each flow that came first, with its label; None if no row has it."""
    names: _Names = {}
    begun: dict[Way, _Sent] = {}
    for packet in found:
        way = packet.way
        if way not in begun:
            if way.back in begun:
                continue
            if len(begun) >= _MOST_WAYS:
                raise CaptureError(f"found more than {_MOST_WAYS} flows")
            names[way], late = _label(packet, known)
            begun[way] = _Sent(late, packet.time_us)
        begun[way].add(packet)
    return names, begun


def _label(packet: Packet, known: Labels) -> tuple[str | None, int]:
    """Give the label of a flow by its first packet, and when its bytes begin to be late."""
    way, now = packet.way, packet.time_us
    source, target = way.ends
    flow = Flow(way.protocol, source, way.source_port, target, way.target_port, now, now)
    row = known.row(flow)
    if row is None or row.label == BENIGN:
        return row.label if row else None, _NEVER
    return row.label, row.first_us + _LATER_US


def _passed(label: str, sent: _Sent, came: _Sent) -> Passed:
    blocked = came.payload < sent.payload or came.empty < sent.empty
    if not blocked:  # headers of merged packets are not missing
        came.volume, came.late = sent.volume, sent.late
    return Passed(
        label=label,
        short=sent.last_us - sent.first_us < _SHORT_US,
        sent=sent.volume,
        got_through=min(sent.volume, came.volume),
        late_sent=sent.late,
        late_through=min(sent.late, came.late),
        blocked=blocked,
        block_us=came.last_us - sent.first_us if blocked and came.volume else None,
    )


_Row = tuple[str, str, float]
"""Metric, unit, value."""


def samples(found: Sequence[Passed]) -> list[Sample]:
    """Give the confusion matrix and volumes: of all, of each attack, and of short flows apart."""
    malicious = [each for each in found if each.label != BENIGN]
    benign = [each for each in found if each.label == BENIGN]
    wrong = sum(each.blocked for each in benign)
    right = sum(each.blocked for each in malicious) + len(benign) - wrong
    rows: list[tuple[str, _Row]] = [
        ("", ("accuracy", "%", _share(right, len(found)))),
        ("", ("benign_blocked", "flows", wrong)),
        ("", ("benign_passed", "flows", len(benign) - wrong)),
        ("", ("benign_flows_blocked", "%", _share(wrong, len(benign)))),
        *(("", row) for row in _rows(malicious)),
        *(("", row) for row in _floods(malicious)),
        *(("flows:short", row) for row in _rows([each for each in malicious if each.short])),
    ]
    for name in sorted({each.label for each in malicious}):
        own = [each for each in malicious if each.label == name]
        rows += [(f"attack:{name}", row) for row in _rows(own)]
    return [
        Sample(measurement=MEASUREMENT, metric=metric, unit=unit, value=value, subject=subject)
        for subject, (metric, unit, value) in rows
    ]


def _rows(malicious: Sequence[Passed]) -> Iterator[_Row]:
    blocked = sum(each.blocked for each in malicious)
    yield "malicious_blocked", "flows", blocked
    yield "malicious_passed", "flows", len(malicious) - blocked
    yield "malicious_flows_blocked", "%", _share(blocked, len(malicious))
    sent = sum(each.sent for each in malicious)
    if sent:
        through = sum(each.got_through for each in malicious)
        yield "malicious_volume_blocked", "%", _share(sent - through, sent)
    yield from _late("late_volume_blocked", malicious)
    times = sorted(each.block_us / 1000 for each in malicious if each.block_us is not None)
    if times:
        yield "time_to_block", "ms", median(times)
        yield "time_to_block_p99", "ms", times[min(len(times) - 1, int(0.99 * len(times)))]


def _floods(malicious: Sequence[Passed]) -> Iterator[_Row]:
    yield from _late("flood_volume_blocked", [each for each in malicious if each.label in FLOODS])


def _late(metric: str, malicious: Sequence[Passed]) -> Iterator[_Row]:
    late = sum(each.late_sent for each in malicious)
    if late:
        through = sum(each.late_through for each in malicious)
        yield metric, "%", _share(late - through, late)


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def compared(scenario: Scenario, raw: Path, *, all_labelled: bool) -> list[Sample]:
    """Compare the captures of a trial that the workflow names; nothing if it names none.

    Raises:
        ProbeError: one is no capture, or not whole.
    """
    labelled = scenario.attacks or scenario.replay
    if labelled is None or labelled.passed is None:
        return []
    names = labelled.passed.before, labelled.passed.behind
    try:
        contents = [_whole(scenario.capture[name], name, raw) for name in names]
        before, behind = map(packets, contents)
        known = Labels(labels.read(raw / FILE))
        return samples(compare(before, behind, known, all_labelled=all_labelled))
    except (OSError, CaptureError) as error:
        raise ProbeError(f"captures {names[0]} and {names[1]}: {error}") from error


def _whole(capture: Capture, name: str, raw: Path) -> bytes:
    content = (raw / f"capture-{name}.pcap").read_bytes()
    if len(content) > int(capture.size) - min(capture.snap, _LARGEST_PACKET) - _HEADERS:
        raise CaptureError(f"{name} is full ({capture.size}), expected room for all packets")
    said = raw / f"capture-{name}.txt"
    lost = _DROPPED.search(said.read_text("utf-8")) if said.exists() else None
    if lost and int(lost[1]):
        raise CaptureError(f"{name} lacks {lost[1]} packets, expected all: tcpdump was too slow")
    return content
