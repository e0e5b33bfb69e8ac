"""How long a flood lasts that is found by Kafka and Spark alone.

sensor -> record log -> hawser ids ship -> Kafka -> job on Spark -> Kafka -> hawser ids verdicts
                                                                    sensor -> firewall <-/

The sensor's own model calls nothing malicious. See tests/lab/function/sensed.py for the chain.
"""

from __future__ import annotations

import logging
import random
import statistics
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is missing: tools/setup --extra spark")

from hawser.ids.cluster.job import Job
from lab.function import model
from lab.function.sensed import DISCARD, SERVER, Sensed, sensed
from streams.conftest import Cluster, cluster, until
from streams.test_streams import shipping
from streams.test_verdicts import blocked, taking

__all__ = ["cluster"]

pytestmark = pytest.mark.root

FLOODS = 30
NOTHING: model.Nodes = (0.0,)
LIMIT_S = 5.0
"""Document 002 looks at windows of 2 s, and reacts later."""

_log = logging.getLogger(__name__)


def block_time(chain: Sensed, source: str) -> float:
    """Seconds from a flood's first packet until the firewall has its rule."""
    with chain.udp("client", source, 5555) as flood, chain.udp("server", SERVER, DISCARD):
        begun = time.monotonic()

        def is_blocked() -> bool:
            for _ in range(5):
                flood.sendto(bytes(64), (SERVER, DISCARD))
            return source in blocked(chain)

        until(f"{source} is blocked", is_blocked, every=0.02)
        return time.monotonic() - begun


def test_a_flood_is_blocked_through_kafka_and_spark_within_five_seconds(
    cluster: Cluster, tmp_path: Path
) -> None:
    scores = tmp_path / "unanswered.json"
    model.write(scores, model.text(model.UNANSWERED))
    cluster.job = Job(cluster.job.folder, cluster.job.brokers, scores)
    cluster.job.start()
    with sensed(NOTHING, per_minute=1000) as chain:
        floods = [f"10.0.0.{100 + number}" for number in range(FLOODS + 1)]
        for each in floods:
            chain.chain.at("client", "ip", "address", "add", f"{each}/24", "dev", "c0")
        with shipping(cluster, chain.records, "b1"), taking(cluster, chain, tmp_path):
            block_time(chain, floods.pop())  # Spark starts
            times = []
            for each in floods:
                time.sleep(random.uniform(0, 1))  # noqa: S311 (not at one phase of the batches)
                times.append(block_time(chain, each))
        assert not chain.status()["flows"]["malicious"], "the sensor's own model is silent"
    times.sort()
    p50, p99 = statistics.median(times), times[int(0.99 * len(times))]
    _log.info("%d floods blocked: p50 %.2f s, p99 %.2f s", len(times), p50, p99)
    assert p99 < LIMIT_S, times
