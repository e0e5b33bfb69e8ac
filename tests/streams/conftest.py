"""Kafka and Spark of this machine: the real ones, in a folder of the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flow_models import CONTENT, sealed
from harness.ports import free_port
from hawser.ids.cluster.job import Job
from hawser.ids.cluster.kafka import Broker
from hawser.ids.stream import kafka

PATIENCE_S = 420
"""Far beyond need: starts take 20 s on an idle machine."""


def until(what: str, is_so: Callable[[], bool], every: float = 0.3) -> None:
    """Wait for a condition; it is asked again after that many seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(every)


@dataclass
class Cluster:
    """A broker and a job."""

    broker: Broker
    job: Job

    def start_kafka(self) -> None:
        """Start Kafka and wait for it."""
        self.broker.start()
        until("Kafka answers", lambda: kafka.is_ready(self.broker.address))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A broker with topics; the job is not started."""
    model = tmp_path / "model.json"
    model.write_bytes(sealed(CONTENT))
    broker = Broker(tmp_path, free_port())
    made = Cluster(broker, Job(tmp_path, broker.address, model))
    try:
        made.start_kafka()
        kafka.make_topics(broker.address)
        yield made
    finally:
        made.job.stop()
        broker.stop()
