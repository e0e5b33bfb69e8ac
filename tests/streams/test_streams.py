"""Records of two sensors through Kafka and Spark, while each of them is killed.

log b1 -> ship b1 \
                   Kafka (hawser.records) -> Spark -> history (Parquet)
log b2 -> ship b2 /                               \\-> Kafka (hawser.verdicts)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, TopicPartition

from flow_models import CONTENT, sealed
from flow_records import random, record
from hawser.ids import records, table
from hawser.ids.cluster import processes
from hawser.ids.errors import IdsError
from hawser.ids.history import batches, merge
from hawser.ids.stream.kafka import PARTITIONS
from hawser.ids.stream.names import RECORDS, VERDICTS
from sensor_log import SensorLog
from streams.conftest import Cluster, until

ROOT = Path(__file__).parents[2]
RUNS = {"b1": "b1b1b1b1", "b2": "b2b2b2b2"}
NOW_US = 1_780_000_000_000_000


@contextmanager
def shipping(
    cluster: Cluster, folder: Path, sensor: str, brokers: str = "", access: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    status = folder.parent / f"{sensor}.status.json"
    at = brokers or cluster.broker.address
    options = ["--sensor", sensor, "--brokers", at, "--status", str(status)]
    options += ["--access", str(access)] if access else []
    with (folder.parent / f"{sensor}.log").open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "hawser.cli", "ids", "ship", str(folder), *options],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdout=output,
            stderr=output,
        )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(60)


def kill(found: processes.Started | None) -> None:
    """Kill a process and its children at once, as a crash of the machine's would."""
    assert found is not None
    process = found.process()
    assert process is not None
    for each in (*process.children(recursive=True), process):
        each.send_signal(signal.SIGKILL)
    process.wait(30)


class Writing:
    """Two sensors that write records until told to stop."""

    def __init__(self, folder: Path) -> None:
        self.logs = {}
        for sensor, run in RUNS.items():
            (folder / sensor).mkdir()
            self.logs[sensor] = SensorLog(folder / sensor, run=run, lines=700)
        self.names: set[str] = set()
        self._rows = random(2000).rows.to_pylist()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            for log in self.logs.values():
                for _ in range(5):
                    times = {"first_us": NOW_US, "last_us": NOW_US + number}
                    self.names.add(log.add(self._rows[number % len(self._rows)] | times))
                    number += 1
            time.sleep(0.1)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def stored(store: Path) -> pa.Table:
    files = records.stored(store)
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])


def count(store: Path) -> int:
    try:
        return sum(pq.read_metadata(file).num_rows for file in records.stored(store))
    except (IdsError, OSError, pa.ArrowInvalid):  # nothing yet, or a batch is written again
        return 0


def names(store: Path) -> Counter[str]:
    return Counter(map(name, stored(store).select(["id", "seq"]).to_pylist()))


def verdicts(cluster: Cluster) -> dict[str, dict[str, object]]:
    return {str(each["id"]): each for each in read_topic(cluster, VERDICTS, 1)}


def read_topic(cluster: Cluster, topic: str, partitions: int) -> list[dict[str, object]]:
    """The committed messages that are there now; more may come meanwhile."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.broker.address,
            "group.id": "test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = {each.partition: end_of(consumer, each) for each in places}
        consumer.assign(places)
        found, deadline = [], time.monotonic() + 30
        while ends and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                found.append(json.loads(message.value()))
            if message.offset() >= ends.get(message.partition(), 0):
                ends.pop(message.partition(), None)
        return found
    finally:
        consumer.close()


def end_of(consumer: Consumer, place: TopicPartition) -> int:
    """Where a partition ends. A broker that has just started leads none yet, and says so."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return consumer.get_watermark_offsets(place, 60)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def sent(cluster: Cluster) -> Counter[str]:
    return Counter(map(name, read_topic(cluster, RECORDS, PARTITIONS)))


def name(row: Mapping[str, object]) -> str:
    return f"{str(row['id']).partition('-')[0]}/{row['seq']}"


def wait_for_more(cluster: Cluster) -> None:
    before = sent(cluster)
    for sensor, run in RUNS.items():
        until(f"{sensor} sends", lambda run=run: of(run, sent(cluster)) > of(run, before) + 50)


def of(run: str, found: Counter[str]) -> int:
    return sum(1 for each in found if each.startswith(run))


def check_counters(folder: Path) -> None:
    for sensor in RUNS:
        status = json.loads((folder / f"{sensor}.status.json").read_text())
        assert (status["lost"], status["malformed"], status["waiting_bytes"]) == (0, 0, 0)


def test_kafka_has_each_record_once_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    writing = Writing(tmp_path)
    try:
        with shipping(cluster, tmp_path / "b2", "b2"):
            for _ in range(2):
                with shipping(cluster, tmp_path / "b1", "b1") as ship:
                    wait_for_more(cluster)
                    kill(processes.read(cluster.broker.record))
                    time.sleep(1)
                    cluster.start_kafka()
                    wait_for_more(cluster)
                    ship.kill()
            with shipping(cluster, tmp_path / "b1", "b1"):
                writing.stop()
                until("all is sent", lambda: set(sent(cluster)) >= writing.names)
                time.sleep(2)  # for the last counters
    finally:
        writing.stop()
    assert set(sent(cluster)) == writing.names
    assert set(sent(cluster).values()) == {1}
    check_counters(tmp_path)


def test_spark_stores_each_record_once_when_it_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    history = cluster.job.store / "records"
    writing = Writing(tmp_path)
    try:
        cluster.job.start()
        with shipping(cluster, tmp_path / "b1", "b1"), shipping(cluster, tmp_path / "b2", "b2"):
            until("some records are stored", lambda: count(history) > 100)
            until("a batch is begun", lambda: begun(cluster) > len(batches(history)))
            kill(processes.read(cluster.job.record))
            cluster.job.start()
            time.sleep(2)
            writing.stop()
            until("all is stored", lambda: count(history) >= len(writing.names))
    finally:
        writing.stop()
    found = names(history)
    assert set(found) == writing.names
    assert set(found.values()) == {1}
    check_counters(tmp_path)
    check_scores(cluster, history)
    merge(history)
    assert names(history) == found


def begun(cluster: Cluster) -> int:
    """Batches of which Spark has written down what they contain."""
    return len(list((cluster.job.store / "checkpoints/score/offsets").glob("[0-9]*")))


def check_scores(cluster: Cluster, history: Path) -> None:
    """Scores are the model's, and those above its threshold have verdicts."""
    model = table.parse(sealed(CONTENT), "model")
    whole = stored(history)
    assert whole["score"].to_pylist() == model.score(records.read([history]).features).tolist()
    pairs = zip(whole["id"].to_pylist(), whole["score"].to_pylist(), strict=True)
    named = {flow for flow, score in pairs if score >= model.threshold}
    assert named
    until("each has its verdict", lambda: set(verdicts(cluster)) >= named)
    assert {key for key, each in verdicts(cluster).items() if each["kind"] == "flow"} == named


def test_a_scan_over_branches_is_seen_where_no_sensor_sees_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    for sensor, run in RUNS.items():
        (tmp_path / sensor).mkdir()
        log = SensorLog(tmp_path / sensor, run=run)
        for port in range(70):
            tried = {"srcip": "203.0.113.9", "dstip": f"10.{sensor[1]}.0.1", "dstport": port}
            log.add(record(last_us=NOW_US + port, is_conversation=False, **tried))
            busy = {"srcip": "10.9.9.9", "dstip": f"10.{sensor[1]}.0.2", "dstport": port}
            log.add(record(last_us=NOW_US + port, is_conversation=True, **busy))
    cluster.job.start()
    with shipping(cluster, tmp_path / "b1", "b1"), shipping(cluster, tmp_path / "b2", "b2"):
        until("the scan is named", lambda: bool(verdicts(cluster)))
    found = verdicts(cluster).values()
    assert {each["srcip"] for each in found} == {"203.0.113.9"}
    assert {each["kind"] for each in found} == {"scan"}
    assert max(int(str(each["sensors"])) for each in found) == 2
    assert all(125 <= int(str(each["targets"])) <= 155 for each in found)  # 140, 5 % each way
