"""A sensor's record log on its way into Kafka, both of this machine."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from harness.bench import SampleError
from harness.lab import until
from harness.obtain import UnavailableError
from harness.ports import free_port
from hawser.ids.cluster import jars
from hawser.ids.cluster.kafka import Broker
from hawser.ids.errors import IdsError, Lacking, Unavailable
from hawser.ids.features import NAMES
from hawser.ids.stream.names import RECORDS

_RECORDS = 100_000
_A_FILE = 20_000
"""Records of a file of the log: 15 MB, about what a sensor's has."""
_START_S = 120.0
_SHIP_S = 120.0


def shipped() -> Callable[[], float]:
    """Prepare a sample: records a second from the log into Kafka.

    Raises:
        UnavailableError: Kafka is not here, and cannot be fetched.
    """
    if find_spec("confluent_kafka") is None:
        raise UnavailableError("confluent-kafka is missing (tools/setup --extra streams)")
    try:
        jars.java()
        jars.folder("kafka")
    except (IdsError, Lacking) as error:
        raise UnavailableError(str(error)) from error
    return _sample


def _sample() -> float:
    from confluent_kafka import KafkaException

    try:
        return _rate()
    except (IdsError, Lacking, Unavailable, KafkaException, subprocess.SubprocessError) as error:
        raise SampleError(str(error)) from error


def _rate() -> float:
    from hawser.ids.stream import kafka

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "records"
        log.mkdir()
        _write(log)
        broker = Broker(folder / "cluster", free_port())
        broker.start()
        try:
            until(lambda: kafka.is_ready(broker.address), "Kafka answers", _START_S)
            kafka.make_topics(broker.address)
            seconds = _ship(log, broker.address)
            found = _stored(broker.address)
        finally:
            broker.stop()
    if found != _RECORDS:
        raise SampleError(f"Kafka has {found} of {_RECORDS} records")
    return _RECORDS / seconds


def _ship(log: Path, brokers: str) -> float:
    """Send the whole log; seconds until Kafka has the last record."""
    from hawser.ids.stream.kafka import Sender
    from hawser.ids.stream.ship import Shipper

    shipper, stop = Shipper(log, Sender(brokers, "bench")), threading.Event()
    thread = threading.Thread(target=shipper.run, args=(stop,))
    start = time.perf_counter()
    thread.start()
    try:
        until(lambda: shipper.counters.records >= _RECORDS, "all records are sent", _SHIP_S)
        return time.perf_counter() - start
    finally:
        stop.set()
        thread.join()


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


def _write(log: Path) -> None:
    """Write records as a sensor does (docs/guide/flows.md)."""
    features = [round(1000 / (n + 1), 3) for n in range(len(NAMES))]
    plain = {"reason": "ended", "first_us": 1_780_000_000_000_000, "last_us": 1_780_000_000_500_000}
    plain |= {"srcip": "198.18.0.1", "dstip": "198.18.99.2", "dstport": 443, "proto": 6}
    for file in range(_RECORDS // _A_FILE):
        with (log / f"records-{file + 1:010}.jsonl").open("w") as opened:
            for seq in range(file * _A_FILE + 1, (file + 1) * _A_FILE + 1):
                name = {"schema": 1, "id": f"be9c4be9c4be9c40-{seq}", "seq": seq}
                rest = {"srcport": seq % 60_000, "is_conversation": True, "features": features}
                line = {**name, **plain, **rest, "score": 0.25, "model": "bench 1"}
                opened.write(json.dumps(line) + "\n")
