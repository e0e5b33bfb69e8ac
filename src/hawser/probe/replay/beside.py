"""A replay beside a trial's measurements, and labels with the times at which it was sent."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from hawser.driver.base import Lab
from hawser.driver.roles import python_environment
from hawser.node.base import Node, Process, tail
from hawser.probe.attacks.packets import CaptureError
from hawser.probe.attacks.recorder import FILE
from hawser.probe.base import ProbeError
from hawser.probe.load.port import ethernet_address, sending_port
from hawser.probe.replay.recording import (
    LARGEST,
    Side,
    Split,
    moved,
    split,
    times_ns,
    within,
)
from hawser.spec.metric import REPLAYED
from hawser.spec.replay import Replay
from hawser.store import labels
from hawser.store.errors import BundleError
from hawser.store.labels import FORMATS, Label
from hawser.store.sample import Sample

MEASUREMENT: Final = "replay"
"""Name under which counts are recorded, and of the folder for what the senders say."""
_SECOND_NS: Final = 1_000_000_000
_START_SECONDS: Final = 3.0
_FRAMES_A_SECOND: Final = 200_000
"""That a sender reads before it begins, at least."""
_POLL_SECONDS: Final = 0.2


def seconds(described: Replay | None) -> float:
    """Give how long a replay takes.

    Raises:
        ProbeError: the capture cannot be read.
    """
    if described is None:
        return 0.0
    first, last = _times_ns(Path(described.capture))
    return _START_SECONDS + (last - first) / described.speed / _SECOND_NS


@lru_cache(maxsize=8)
def _times_ns(path: Path) -> tuple[int, int]:
    """Give when a capture begins and ends; kept, as each variant asks and a file may be large."""
    try:
        return times_ns(_capture(path))
    except CaptureError as error:
        raise ProbeError(f"{path}: {error}") from error


def problems(described: Replay | None) -> Iterator[str]:
    """Say what is wrong with the files of a replay."""
    if described is None:
        return
    try:
        _labels(described)
    except ProbeError as error:
        yield str(error)


@contextmanager
def replaying(lab: Lab, described: Replay | None, raw: Path) -> Iterator[Replaying | None]:
    """Send a capture while the block runs; `raw/labels.csv` says which flows are malicious.

    Raises:
        ProbeError: a file cannot be read, or a next hop does not answer.
        NodeError: a sender cannot be started.
    """
    if described is None:
        yield None
        return
    made = Replaying(lab, described, raw)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Replaying:
    """The replay of one trial."""

    def __init__(self, lab: Lab, described: Replay, raw: Path) -> None:
        self._lab, self._described, self._raw = lab, described, raw
        self._ends = lab.nodes[described.source], lab.nodes[described.target]
        self._senders: dict[str, Process] = {}
        self._split = Split()
        self.all_labelled = False
        """Whether flows that no row of the label file is about are known to be benign."""

    def start(self) -> None:
        """Split the capture, start both senders, and write the labels."""
        described = self._described
        content = _capture(Path(described.capture))
        forward, back = self._ports()
        try:
            self._split = split(content, forward[1], back[1])
        except CaptureError as error:
            raise ProbeError(f"{described.capture}: {error}") from error
        sides = (self._split.forward, self._split.back)
        wait_s = _START_SECONDS + max(side.frames for side in sides) / _FRAMES_A_SECOND
        begin = time.monotonic_ns() + round(wait_s * _SECOND_NS)
        began_us = (time.time_ns() + begin - time.monotonic_ns()) // 1000
        for node, side, port in zip(self._ends, sides, (forward[0], back[0]), strict=True):
            self._senders[node.name] = self._send(node, side, port, begin)
        rows, self.all_labelled = _labels(described)
        zero_us = self._split.first_ns // 1000
        there = [moved(row, zero_us, began_us, described.speed) for row in rows]
        labels.write(self._raw / FILE, there)
        self._note(content)

    def _ports(self) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
        """Give the interface of each end, and Ethernet addresses of frames that leave there."""
        one, other = self._ends
        return self._port(one, other), self._port(other, one)

    def _port(self, node: Node, other: Node) -> tuple[str, bytes]:
        addresses = self._lab.plan.addresses
        found = sending_port(node, addresses[node.name], addresses[other.name])
        macs = (found.next_hop, ethernet_address(node, found.interface))
        return found.interface, b"".join(bytes.fromhex(mac.replace(":", "")) for mac in macs)

    def _send(self, node: Node, side: Side, port: str, begin: int) -> Process:
        folder = node.directory / MEASUREMENT
        file = folder / f"{node.name}.pcap"
        node.put(file, bytes(side.content))
        program = [sys.executable, "-m", "hawser.probe.replay.sender", str(file), port]
        times = ["--begin", str(begin), "--zero", str(self._split.first_ns)]
        command = [*program, *times, "--speed", str(self._described.speed)]
        return node.start(command, log=folder / f"{node.name}.log", env=python_environment())

    def _note(self, content: bytes) -> None:
        """Say what was replayed."""
        noted = {
            "capture": self._described.capture,
            "sha256": hashlib.sha256(content).hexdigest(),
            "frames": [self._split.forward.frames, self._split.back.frames],
            "padded": self._split.padded,
            "all_labelled": self.all_labelled,
        }
        (self._raw / f"{MEASUREMENT}.json").write_text(json.dumps(noted, indent=1) + "\n", "utf-8")

    def finish(self, sleep: Callable[[float], None]) -> list[Sample]:
        """Wait until all frames were sent.

        Args:
            sleep: waits, or ends by an exception.

        Raises:
            ProbeError: a sender failed.
        """
        while any(process.running() for process in self._senders.values()):
            sleep(_POLL_SECONDS)
        said = [self._said(node) for node in self._ends]
        counts = {
            "frames_replayed": sum(each["sent"] for each in said),
            "frames_unsent": sum(each["unsent"] for each in said),
            "frames_skipped": self._split.skipped,
            "replay_lateness": max(each["lateness_p99_ms"] for each in said),
        }
        return [
            Sample(measurement=MEASUREMENT, metric=metric, unit=REPLAYED[metric], value=value)
            for metric, value in counts.items()
        ]

    def _said(self, node: Node) -> dict[str, Any]:
        log = node.get(node.directory / MEASUREMENT / f"{node.name}.log").decode(errors="replace")
        try:
            found: dict[str, Any] = json.loads(log.splitlines()[-1])
        except (ValueError, IndexError) as error:
            raise ProbeError(f"replay: {node.name} failed{tail(log)}") from error
        return found

    def stop(self) -> None:
        """End the senders."""
        for process in self._senders.values():
            process.stop()


def _capture(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise ProbeError(f"{path}: {error.strerror or error}") from error
    if len(content) > LARGEST:
        raise ProbeError(f"{path}: larger than {LARGEST >> 20} MiB; cut it (editcap -A, -B)")
    return content


def _labels(described: Replay) -> tuple[list[Label], bool]:
    """Give what is said of the capture's time, and whether flows of which nothing is are benign.

    So they are in the lab, which labels all that it does.

    Raises:
        ProbeError: a file cannot be read, or nothing is said of that time.
    """
    times, rows = _times_ns(Path(described.capture)), list[Label]()
    formats = set()
    for name in described.labels:
        try:
            found, some = labels.read_any(Path(name))
        except BundleError as error:
            raise ProbeError(str(error)) from error
        formats.add(found)
        rows.extend(within(some, *times))
    if not rows:
        begin, end = (datetime.fromtimestamp(at // _SECOND_NS, UTC) for at in times)
        names = ", ".join(described.labels)
        raise ProbeError(f"{names}: found no label from {begin} to {end}, when it was captured")
    return rows, formats == {FORMATS[0]}
