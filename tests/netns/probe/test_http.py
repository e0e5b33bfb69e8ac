"""Real HTTP requests: wrk in one namespace, nginx in the other.

a: wrk, e 10.0.0.1/24 --x, 20 Mbit/s-- e 10.0.0.2/24, nginx :b
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe.base import ProbeError
from hawser.spec.workflow import Change
from lab.plans.small import pair, whole
from lab.run.probes import HTTP_RATE, http, limited_pair

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
CONNECTIONS = 4
SIZE = 100_000


def test_a_link_limits_large_objects(deploy: Deploy, tmp_path: Path) -> None:
    """100 kB over 20 Mbit/s: at least 40 ms each, and every byte has crossed the link."""
    lab = deploy(limited_pair())
    found = http(lab, tmp_path, size="100 kB", connections=CONNECTIONS, duration="2 s")
    alone = SIZE * 8 / HTTP_RATE / 1000
    assert found["http_latency_p50"] > 0.9 * alone
    assert 0 < found["requests"] < 1.1 * (1000 / alone) + CONNECTIONS
    assert found["http_latency_p50"] <= found["http_latency_p90"] <= found["http_latency_p99"]
    assert found["http_errors"] == 0
    assert "connections" not in found
    assert '"requests"' in (tmp_path / "web.wrk.txt").read_text()
    assert lab.nodes["b"].counters()["link:x:reverse"]["bytes"] > found["requests"] * 2 * SIZE


def test_without_keepalive_each_request_has_its_connection(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair())
    found = http(lab, tmp_path, keepalive=False, connections=CONNECTIONS)
    assert found["requests"] > 0
    assert found["connections"] == pytest.approx(found["requests"], rel=0.05, abs=2 * CONNECTIONS)
    assert found["http_errors"] == 0


def test_where_nothing_answers_the_trial_is_void(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair(whole()))
    change = Change(up=False)
    lab.apply("link:x", change)
    with pytest.raises(ProbeError, match="http a -> b: wrk ended with code 1: unable to connect"):
        http(lab, tmp_path)


def test_all_it_writes_is_in_the_labs_directory(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair())
    http(lab, tmp_path)
    assert {path.name for path in (lab.directory / "http" / "web").iterdir()} >= {
        "nginx.conf", "wrk.lua", "objects", "error.log"
    }  # fmt: skip
    lab.destroy()
    assert not lab.directory.exists()


def test_an_open_loop_keeps_its_rate(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair())
    found = http(lab, tmp_path, request_rate=500, connections=16, threads=2, duration="3 s")
    assert found["requests"] == pytest.approx(500, rel=0.05)
    assert found["http_errors"] == 0
    assert found["http_unsent"] <= 25
    assert 0 < found["http_latency_p50"] <= found["http_latency_p999"]


def test_what_waits_for_a_slow_server_counts_as_slow(deploy: Deploy, tmp_path: Path) -> None:
    """Each takes 40 ms on the link, and twice as many are due as fit: they pile up by the second.

    A closed loop with one connection would show 40 ms.
    """
    lab = deploy(limited_pair())
    found = http(
        lab, tmp_path, size="100 kB", connections=1, request_rate=50, warmup="0 s", duration="3 s"
    )
    assert found["requests"] < 30
    assert found["http_latency_p50"] > 300
    assert found["http_latency_p99"] > 1000
    assert found["http_unsent"] > 40
