"""A collector beside a trial's measurements: it runs before them, and has all records at the end.

    log of each sensor -> hawser ids ship -> Kafka -> job on Spark -> history

All of it are the commands that a user runs, on the collector's node: its namespace has no link, so
Kafka's port is in nobody's way, and its control group limits what they take from the machine. The
logs are read as files of this machine. What still runs at the end goes with the lab.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from hawser.driver.base import Lab
from hawser.driver.roles import python_environment
from hawser.node.base import Node, NodeError, Process, tail
from hawser.overlay.lab.plan import IdsDaemon
from hawser.probe import sensors
from hawser.probe.base import ProbeError
from hawser.spec.collector import Collector
from hawser.spec.metric import COLLECTED
from hawser.store.sample import Sample

_KAFKA_SECONDS: Final = 10.0
_SPARK_SECONDS: Final = 15.0
"""Expected times to start, one after the other, on an idle machine of two cores."""
_WINDOW_SECONDS: Final = 2.5
"""After which a flow that has ended has its last window's record: windows have 2 s."""
_START_SECONDS: Final = 180.0
_ARRIVE_SECONDS: Final = 60.0
"""For records to arrive after the last one was made; those that have not are missing."""
_POLL_SECONDS: Final = 0.2
_FOLDER: Final = "collector"
_BROKER: Final = "127.0.0.1:9092"
_KEPT: Final = ("*.log", "*.status.json", "store/status.json")
_ENVIRONMENT: Final = {"SPARK_LOCAL_IP": "127.0.0.1"}


def tools(collector: Collector | None) -> tuple[str, ...]:
    """Programs that a collector needs."""
    return () if collector is None else ("java",)


def seconds(collector: Collector | None) -> float:
    """Give the expected time until a collector runs, and until it has the last records."""
    if collector is None:
        return 0.0
    spark = _SPARK_SECONDS if collector.model is not None else 0.0
    return _KAFKA_SECONDS + spark + _WINDOW_SECONDS


@contextmanager
def collecting(
    lab: Lab, collector: Collector | None, raw: Path, stage: Callable[[str], None]
) -> Iterator[Collecting | None]:
    """Collect records while the block runs; logs are kept in `raw/collector`.

    Args:
        lab: where.
        collector: what is to run; nothing if None.
        raw: folder of the trial for output of programs.
        stage: is told what is done.

    Raises:
        ProbeError: Kafka, Spark or a sender did not get ready.
        NodeError: a program cannot be started.
    """
    if collector is None:
        yield None
        return
    stage("start the collector")
    made = Collecting(lab, collector)
    with ExitStack() as stack:
        stack.callback(made.keep, raw / _FOLDER)
        stack.callback(made.stop)
        made.start()
        yield made


class Collecting:
    """The collector of one trial."""

    def __init__(self, lab: Lab, collector: Collector) -> None:
        self._lab = lab
        self._node: Node = lab.nodes[collector.node]
        self._model = collector.model
        self._folder = self._node.directory / _FOLDER
        self._senders: dict[str, Process] = {}

    def start(self) -> None:
        """Start Kafka, Spark if it is wanted, and a sender for each sensor, and wait for them."""
        command = ["cluster", "start", str(self._folder)]
        if self._model is not None:
            model = self._folder / "model.json"
            self._node.put(model, self._model.encode())
            command += ["--model", str(model)]
        self._node.run(_hawser(*command), timeout=_START_SECONDS, env=_environment())
        for daemon in self._lab.plan.daemons:
            if isinstance(daemon, IdsDaemon) and daemon.config.ids.records is not None:
                log = self._node.directory / daemon.config.ids.records.folder
                self._senders[daemon.name] = self._send(daemon.name, log)
        for name in self._senders:
            self._expect(name, partial(self._is_connected, name))
        if self._model is not None:
            self._expect("spark", self._spark_runs)

    def stop(self) -> None:
        """End the senders. Kafka and Spark go with the lab."""
        for process in self._senders.values():
            process.stop()

    def _send(self, sensor: str, log: Path) -> Process:
        status = self._folder / f"{sensor}.status.json"
        command = ["ship", str(log), "--sensor", sensor, "--brokers", _BROKER]
        return self._node.start(
            _hawser(*command, "--status", str(status)),
            log=self._folder / f"{sensor}.log",
            env=_environment(),
        )

    def finish(self, sleep: Callable[[float], None]) -> list[Sample]:
        """Wait until the last records were made, and then until they have arrived.

        Args:
            sleep: waits, or ends by an exception.

        Raises:
            ProbeError: a sensor does not answer, or a sender has ended.
        """
        sleep(_WINDOW_SECONDS)
        made = {name: status.flows.records for name, status in sensors.read(self._lab).items()}
        self._until(lambda: self._arrived() >= sum(made.values()), _ARRIVE_SECONDS, sleep)
        counts = {"records_shipped": self._shipped()}
        if self._model is not None:
            counts["records_stored"] = stored(self._folder)
        arrived = counts.get("records_stored", counts["records_shipped"])
        counts["records_missing"] = max(0, sum(made.values()) - arrived)
        return [
            Sample(measurement=_FOLDER, metric=metric, unit=COLLECTED[metric], value=value)
            for metric, value in counts.items()
        ]

    def keep(self, target: Path) -> None:
        """Copy what the programs said and counted."""
        target.mkdir(exist_ok=True)
        for pattern in _KEPT:
            for path in self._folder.glob(pattern):
                with suppress(OSError):
                    (target / path.name).write_bytes(path.read_bytes())

    def _arrived(self) -> int:
        return stored(self._folder) if self._model is not None else self._shipped()

    def _shipped(self) -> int:
        return sum(int(self._status(name).get("records", 0)) for name in self._senders)

    def _status(self, sensor: str) -> dict[str, Any]:
        """Counters of a sender; none before it has written any."""
        try:
            found: dict[str, Any] = json.loads(
                self._node.get(self._folder / f"{sensor}.status.json")
            )
        except (NodeError, ValueError):
            return {}
        return found

    def _is_connected(self, sensor: str) -> bool:
        return bool(self._status(sensor).get("is_connected"))

    def _spark_runs(self) -> bool:
        """Both queries of the job have begun."""
        checkpoints = self._folder / "store" / "checkpoints"
        return all((checkpoints / name / "metadata").exists() for name in ("score", "scan"))

    def _expect(self, log: str, is_ready: Callable[[], bool]) -> None:
        if not self._until(is_ready, _START_SECONDS, time.sleep):
            raise ProbeError(f"collector: {log} did not get ready{self._last_words(log)}")

    def _until(
        self, is_so: Callable[[], bool], seconds: float, sleep: Callable[[float], None]
    ) -> bool:
        """Wait while all senders run; says whether it came to be so.

        Raises:
            ProbeError: a sender has ended.
        """
        end = time.monotonic() + seconds
        while not is_so():
            for name, process in self._senders.items():
                if not process.running():
                    raise ProbeError(f"collector: {name} is not sent{self._last_words(name)}")
            if time.monotonic() > end:
                return False
            sleep(_POLL_SECONDS)
        return True

    def _last_words(self, log: str) -> str:
        try:
            return tail(self._node.get(self._folder / f"{log}.log").decode(errors="replace"))
        except NodeError:
            return ""


def stored(folder: Path) -> int:
    """Count the different records in the finished batches of the history that Spark writes."""
    import pyarrow.parquet as pq  # heavy, and most runs have no collector

    seen: set[tuple[str, int]] = set()
    for done in folder.glob("store/records/batch=*/_SUCCESS"):
        for file in done.parent.glob("*.parquet"):
            rows = pq.read_table(file, columns=["id", "seq"], partitioning=None)
            seen.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return len(seen)


def _hawser(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hawser.cli", "ids", *arguments]


def _environment() -> dict[str, str]:
    return {**python_environment(), **_ENVIRONMENT}
