"""A sensor's record log on its way into Kafka and Spark, all of this machine."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from harness.bench import SampleError
from harness.lab import until
from harness.obtain import UnavailableError
from harness.ports import free_port
from hawser.ids.cluster import jars
from hawser.ids.cluster.job import Job
from hawser.ids.cluster.kafka import Broker
from hawser.ids.errors import IdsError, Lacking, Unavailable
from hawser.ids.features import NAMES
from hawser.ids.stream.names import RECORDS

if TYPE_CHECKING:
    from hawser.ids.stream.ship import Shipper

_RECORDS = 100_000
_A_FILE = 20_000
"""Records of a file of the log: 15 MB, about what a sensor's has."""
_LOG = "log"
_START_S = 120.0
_SHIP_S = 120.0


def shipped() -> Callable[[], float]:
    """Prepare a sample: records a second from the log into Kafka.

    Raises:
        UnavailableError: Kafka is not here, and cannot be fetched.
    """
    _need("kafka", "confluent_kafka", "streams")
    return lambda: _sample(_shipped)


def scored(model: Callable[[], bytes]) -> Callable[[], float]:
    """Prepare a sample: records a second from the log through Kafka into Spark's history.

    Args:
        model: gives the model file with which the job on Spark scores them.

    Raises:
        UnavailableError: Kafka or Spark is not here, and cannot be fetched.
    """
    _need("kafka", "confluent_kafka", "spark")
    _need("spark", "pyspark", "spark")
    return lambda: _sample(partial(_scored, model))


def _need(jar: str, module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise UnavailableError(f"{module} is missing (tools/setup --extra {extra})")
    try:
        jars.java()
        jars.folder(jar)
    except (IdsError, Lacking) as error:
        raise UnavailableError(str(error)) from error


def _sample(measure: Callable[[Path, Broker], float]) -> float:
    """Measure with a broker that has topics and nothing else."""
    from confluent_kafka import KafkaException

    from hawser.ids.stream import kafka

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / _LOG).mkdir()
        broker = Broker(folder / "cluster", free_port())
        try:
            broker.start()
            until(lambda: kafka.is_ready(broker.address), "Kafka answers", _START_S)
            kafka.make_topics(broker.address)
            return measure(folder, broker)
        except (IdsError, Lacking, Unavailable, KafkaException, OSError) as error:
            raise SampleError(str(error)) from error
        finally:
            broker.stop()


def _shipped(folder: Path, broker: Broker) -> float:
    _write(folder / _LOG, 0, _RECORDS)
    start = time.perf_counter()
    with _shipping(folder / _LOG, broker.address) as shipper:
        until(lambda: shipper.counters.records >= _RECORDS, "all records are sent", _SHIP_S)
        seconds = time.perf_counter() - start
    found = _stored(broker.address)
    if found != _RECORDS:
        raise SampleError(f"Kafka has {found} of {_RECORDS} records")
    return _RECORDS / seconds


def _scored(model: Callable[[], bytes], folder: Path, broker: Broker) -> float:
    """Let the job take some records first: Java compiles what runs often."""
    file = folder / "model.json"
    file.write_bytes(model())
    later = folder / "later"
    later.mkdir()
    job = Job(broker.folder, broker.address, file, cores=2)
    _write(folder / _LOG, 0, _A_FILE)
    _write(later, _A_FILE, _RECORDS)
    job.start()
    try:
        with _shipping(folder / _LOG, broker.address):
            until(lambda: _in_history(job.store) == _A_FILE, "Spark scores", _START_S)
            start = time.perf_counter()
            for path in sorted(later.iterdir()):
                path.rename(folder / _LOG / path.name)
            wanted = _A_FILE + _RECORDS
            until(lambda: _in_history(job.store) >= wanted, "all records are scored", _SHIP_S)
            seconds = time.perf_counter() - start
        if (found := _in_history(job.store)) != wanted:
            raise SampleError(f"the history has {found} of {wanted} records")
        return _RECORDS / seconds
    finally:
        job.stop()


@contextmanager
def _shipping(log: Path, brokers: str) -> Iterator[Shipper]:
    """Send a log while the block runs."""
    from hawser.ids.stream.kafka import Sender
    from hawser.ids.stream.ship import Shipper

    shipper, stop = Shipper(log, Sender(brokers, "bench")), threading.Event()
    thread = threading.Thread(target=shipper.run, args=(stop,))
    thread.start()
    try:
        yield shipper
    finally:
        stop.set()
        thread.join()


def _in_history(store: Path) -> int:
    """Records of finished batches."""
    from hawser.ids import records

    try:
        return sum(pq.read_metadata(file).num_rows for file in records.stored(store / "records"))
    except (IdsError, OSError, pa.ArrowInvalid):  # nothing yet
        return 0


def _stored(brokers: str) -> int:
    """Records that a reader of Kafka gets."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    from hawser.ids.stream.kafka import PARTITIONS

    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(RECORDS, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
        found, deadline = 0, time.monotonic() + _SHIP_S
        ended: set[int | None] = set()
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                found += 1
            else:
                ended.add(message.partition())
        return found
    finally:
        consumer.close()


def _write(log: Path, after: int, count: int) -> None:
    """Write records as a sensor does (docs/guide/flows.md), in files of their own."""
    features = [round(1000 / (n + 1), 3) for n in range(len(NAMES))]
    plain = {"reason": "ended", "first_us": 1_780_000_000_000_000, "last_us": 1_780_000_000_500_000}
    plain |= {"srcip": "198.18.0.1", "dstip": "198.18.99.2", "dstport": 443, "proto": 6}
    for begin in range(after, after + count, _A_FILE):
        lines = []
        for seq in range(begin + 1, begin + _A_FILE + 1):
            name = {"schema": 1, "id": f"be9c4be9c4be9c40-{seq}", "seq": seq}
            rest = {"srcport": seq % 60_000, "is_conversation": True, "features": features}
            line = {**name, **plain, **rest, "score": 0.25, "model": "bench 1"}
            lines.append(json.dumps(line) + "\n")
        (log / f"records-{begin // _A_FILE + 1:010}.jsonl").write_text("".join(lines))
