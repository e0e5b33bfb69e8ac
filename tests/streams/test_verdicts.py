"""Verdicts from a real Kafka to a real sensor and its firewall, while each of them is killed.

Kafka (hawser.verdicts) -> hawser ids verdicts -> sensor -> firewall

See tests/lab/function/sensed.py for the chain.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from hawser.ids.cluster import processes
from hawser.ids.stream.names import VERDICTS
from lab.function import model
from lab.function.sensed import Sensed, sensed
from streams.conftest import Cluster, until
from streams.test_streams import ROOT, kill

pytestmark = pytest.mark.root


class Taking:
    """`hawser ids verdicts` of a sensor."""

    def __init__(self, cluster: Cluster, chain: Sensed, folder: Path) -> None:
        self._status = folder / "verdicts.json"
        socket = chain.sensor.config["control"]
        options = ("--sensor", "b1", "--place", str(folder / "place"))
        places = ("--brokers", cluster.broker.address, "--status", str(self._status))
        with (folder / "verdicts.log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hawser.cli", "ids", "verdicts", socket, *options, *places],
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                stdout=output,
                stderr=output,
            )

    def counted(self) -> dict[str, Any]:
        found: dict[str, Any] = (
            json.loads(self._status.read_text()) if self._status.exists() else {}
        )
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def taking(cluster: Cluster, chain: Sensed, folder: Path) -> Iterator[Taking]:
    made = Taking(cluster, chain, folder)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(60)


def say(cluster: Cluster, *sources: str, **more: object) -> None:
    """Write verdicts about sources that scan."""
    producer = Producer({"bootstrap.servers": cluster.broker.address, "log_level": 0})
    now = time.time_ns() // 1000
    for source in sources:
        about = {"schema": 1, "id": f"scan-{source}-{now}", "kind": "scan", "srcip": source}
        counts = {"first_us": now - 60_000_000, "last_us": now, "targets": 140, "sensors": 2}
        producer.produce(VERDICTS, json.dumps(about | counts | more).encode(), source.encode())
    assert producer.flush(60) == 0


def blocked(chain: Sensed) -> list[str]:
    """Sources that the firewall keeps out."""
    return sorted(str(rule["source"]).removesuffix("/32") for rule in chain.rules())


def test_verdicts_reach_the_firewall_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    with sensed(model.UNANSWERED, allow=["10.0.0.0/26"], per_minute=1000) as chain:
        say(cluster, "198.51.100.1")
        with taking(cluster, chain, tmp_path) as first:
            until("the first is blocked", lambda: blocked(chain) == ["198.51.100.1"])
            say(cluster, "198.51.100.2", "10.0.0.1", last_us=time.time_ns() // 1000)
            say(cluster, "198.51.100.9", targets="many")
            say(cluster, "198.51.100.9", last_us=1)
            until("the second is blocked", lambda: len(blocked(chain)) == 2)
            until("a poisoned one is counted", lambda: first.counted().get("malformed") == 1)
            until("an old one is counted", lambda: first.counted().get("expired") == 1)
            assert first.counted()["refused"] == {"the source is on the allow list": 1}
            first.process.kill()
            first.process.wait(60)
        say(cluster, "198.51.100.3")
        with taking(cluster, chain, tmp_path) as second:
            until("what came meanwhile is blocked", lambda: len(blocked(chain)) == 3)
            kill(processes.read(cluster.broker.record))
            cluster.start_kafka()
            say(cluster, "198.51.100.4")
            until("Kafka is back", lambda: len(blocked(chain)) == 4)
            chain.sensor.stop(signal.SIGKILL)
            say(cluster, "198.51.100.5", "198.51.100.6")
            until("the sensor is missed", lambda: second.counted()["failures"] > 0)
            chain.sensor.start()
            until("it is told", lambda: len(blocked(chain)) == 6)
            assert second.stop() == 0
        assert blocked(chain) == [f"198.51.100.{number}" for number in range(1, 7)]
        assert chain.chain.answered(20) == 20
