"""Latency under load, flows that join one by one, and time series of windows and queues.

h1: p ----x, 20 Mbit/s, 60 kB (24 ms)---- p :h2
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hawser.store import Bundle, Sample
from lab.run.cli import hawser

pytestmark = pytest.mark.root

WORKFLOW = """\
hawser: 1
name: loaded
title: Latency under load
topology: {nodes: [h1, h2], links: {x: {ends: [h1.p, h2.p], rate: 20 Mbit/s, queue: 60 kB}}}
measurements:
  tcp: {probe: iperf3, from: h1, to: h2, duration: 3 s, warmup: 1 s, interval: 100 ms}
  late: {probe: iperf3, from: h1, to: h2, duration: 2 s, warmup: 1 s, with: tcp, start: 1 s}
  rtt: {probe: ping, from: h1, to: h2, interval: 20 ms, during: tcp}
repeat: 1
settle: 0 s
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sample, ...]:
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "loaded.yaml").write_text(WORKFLOW)
    done = hawser("run", "loaded.yaml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "runs").iterdir()
    assert json.loads(done.stdout)["valid"]
    (trial,) = Bundle.open(Path(path)).trials
    return trial.samples()


def values(samples: Sequence[Sample], name: str, metric: str, kind: str) -> list[float]:
    wanted = (name, metric, kind)
    return [s.value for s in samples if (s.measurement, s.metric, s.kind) == wanted]


def test_echoes_are_sent_while_the_queue_is_used(samples: tuple[Sample, ...]) -> None:
    """Idle, an echo takes some microseconds; a full queue holds it for 24 ms."""
    (median,) = values(samples, "rtt", "rtt", "summary")
    assert 3 < median < 60
    assert len(values(samples, "rtt", "rtt", "interval")) > 50


def test_windows_queues_and_goodput_have_ten_points_a_second(samples: tuple[Sample, ...]) -> None:
    for metric in ("goodput", "cwnd", "srtt"):
        assert 25 <= len(values(samples, "tcp", metric, "interval")) <= 31, metric
    queue = values(samples, "tcp", "queue", "interval")
    assert len(queue) > 15
    assert 10_000 < max(queue) <= 62_000
    assert not values(samples, "late", "queue", "interval")  # its interval is the default


def test_flows_that_join_share_what_there_is(samples: tuple[Sample, ...]) -> None:
    shared = [s for s in samples if s.metric == "fairness"]
    assert [(s.measurement, s.subject) for s in shared] == [("tcp", "tcp + late")]
    assert 0.5 < shared[0].value <= 1
    (first,), (second,) = (values(samples, n, "goodput", "summary") for n in ("tcp", "late"))
    assert second > 1
    assert first + second < 2 * 20
