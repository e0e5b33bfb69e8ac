"""Runs `hawserd load` on nodes and reads its result (schemas/load-result.schema.json)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.daemon import binary
from hawser.node.base import Completed, Node, Process
from hawser.overlay.config.load import LoadConfig
from hawser.probe.base import ProbeError

_READY_SECONDS = 10.0
_POLL_SECONDS = 0.01
_STOP_SECONDS = 10.0


class _Result(BaseModel):
    """A part of the result; fields that nobody asks for here are left out."""

    model_config = ConfigDict(frozen=True)


class Sent(_Result):
    """What a sender did; see the schema."""

    scheduled: int
    frames: int
    unsent: int
    refused: int
    cpu_s: float


class Distribution(_Result):
    """Quantiles in nanoseconds, and filled buckets: from, below, count."""

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
    """What a receiver counted; see the schema."""

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
    """Both sides, of which one may be missing."""

    sent: Sent | None = None
    received: Received | None = None


def parse(text: str) -> LoadResult:
    """Read what a daemon printed.

    Raises:
        ProbeError: it is no result.
    """
    try:
        return LoadResult.model_validate_json(text)
    except ValidationError as error:
        raise ProbeError(f"hawserd load: unexpected result: {error}") from error


def run(node: Node, name: str, config: LoadConfig, timeout: float) -> LoadResult:
    """Run a daemon to its end, with its configuration in a file of this name.

    Raises:
        ProbeError: it failed; the text holds what it said.
    """
    done = node.run(_command(node, name, config), timeout=timeout, check=False)
    return _finished(node, done)


@contextlib.contextmanager
def running(
    node: Node, name: str, config: LoadConfig, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Callable[[], LoadResult]]:
    """Run a daemon that counts from now on; what is given stops it and gives its result.

    Raises:
        ProbeError: it did not get ready.
    """
    process = node.start(_command(node, name, config))
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


def _command(node: Node, name: str, config: LoadConfig) -> list[str]:
    """Put a configuration on a node, and give the command that runs it."""
    path = node.directory / f"{name}.json"
    node.put(path, config.model_dump_json().encode())
    return [str(binary()), "load", "--config", str(path)]
