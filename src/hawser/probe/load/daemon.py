"""Runs `hawserd load` on nodes and reads its result (schemas/load-result.schema.json)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hawser.control.client import ControlError, DaemonClient
from hawser.node.base import Completed, Node, Process
from hawser.overlay.config.load import LoadConfig
from hawser.probe.base import ProbeError

_READY_SECONDS = 10.0
_POLL_SECONDS = 0.01
_STOP_SECONDS = 10.0


class _Result(BaseModel):
    """A part of the result, reduced to the fields that are used here."""

    model_config = ConfigDict(frozen=True)


class SentStream(_Result):
    """What was sent of a stream."""

    frames: int


class Sent(_Result):
    """Counters of a sender; see the schema."""

    scheduled: int
    frames: int
    unsent: int
    refused: int
    cpu_s: float
    streams: list[SentStream] = []


class Distribution(_Result):
    """Quantiles in nanoseconds, and the non-empty buckets as (from, below, count)."""

    count: int
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    buckets: list[tuple[int, int, int]]


class ReceivedStream(_Result):
    """Delays of a stream."""

    delay: Distribution
    variation: Distribution


class Received(_Result):
    """Counters of a receiver; see the schema."""

    frames: int
    bytes: int
    unique: int
    duplicated: int
    reordered: int
    late: int
    seconds: float
    uncaptured: int
    streams: list[ReceivedStream]


class LoadResult(_Result):
    """Results of the sender and the receiver; either may be missing."""

    sent: Sent | None = None
    received: Received | None = None


def parse(text: str) -> LoadResult:
    """Parse the output of a daemon.

    Raises:
        ProbeError: the text is not a valid result.
    """
    try:
        return LoadResult.model_validate_json(text)
    except ValidationError as error:
        raise ProbeError(f"hawserd load: unexpected result: {error}") from error


@dataclass(frozen=True)
class Start:
    """How to start a daemon on a node."""

    node: Node
    program: Path
    """Path of `hawserd` on the node."""
    name: str
    """Name of the configuration file."""

    def command(self, config: LoadConfig) -> list[str]:
        """Write the configuration to the node, and return the command that runs it."""
        path = self.node.directory / f"{self.name}.json"
        self.node.put(path, config.model_dump_json().encode())
        return [str(self.program), "load", "--config", str(path)]


def run(start: Start, config: LoadConfig, timeout: float) -> LoadResult:
    """Run a daemon until it exits.

    Raises:
        ProbeError: the daemon failed; the text includes its output.
    """
    done = start.node.run(start.command(config), timeout=timeout, check=False)
    return _finished(start.node, done)


@contextlib.contextmanager
def running(
    start: Start, config: LoadConfig, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Callable[[], LoadResult]]:
    """Run a daemon that counts from now on. The yielded function stops it and returns its result.

    Raises:
        ProbeError: the daemon did not become ready.
    """
    node = start.node
    process = node.start(start.command(config))
    try:
        _until_ready(node, process, node.socket(Path(config.control or "")), sleep)
        yield lambda: _finished(node, process.stop(_STOP_SECONDS))
    finally:
        process.stop(_STOP_SECONDS)


def _until_ready(
    node: Node, process: Process, control: Path, sleep: Callable[[float], None]
) -> None:
    client = DaemonClient(control)
    for _ in range(round(_READY_SECONDS / _POLL_SECONDS)):
        with contextlib.suppress(ControlError):
            client.counters()
            return
        if not process.running():
            break
        sleep(_POLL_SECONDS)
    raise ProbeError(_said(node, process.stop()))


def _finished(node: Node, done: Completed) -> LoadResult:
    if done.returncode != 0:
        raise ProbeError(_said(node, done))
    return parse(done.stdout)


def _said(node: Node, done: Completed) -> str:
    words = (done.stderr or done.stdout).strip()[-500:] or "it said nothing"
    return f"hawserd load on {node.name}: {words}"
