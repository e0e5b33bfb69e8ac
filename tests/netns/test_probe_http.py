"""Real requests: wrk in one namespace, nginx in the other.

a --x-- b
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driver_plans import pair, whole

from hawser.driver.local import LocalLab
from hawser.overlay.plan import NetworkPlan
from hawser.probe.base import Context, ProbeError
from hawser.probe.http import HttpProbe
from hawser.spec.measurement import Http
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
SHORT = {"duration": "1 s", "warmup": "0 s"}


def measure(lab: LocalLab, raw: Path, **fields: object) -> dict[str, float]:
    spec = Http.model_validate({"probe": "http", "from": "a", "to": "b"} | SHORT | fields)
    raw.mkdir(exist_ok=True)
    context = Context(lab, "web", raw, started=lambda: None)
    return {sample.metric: sample.value for sample in HttpProbe(spec).measure(context)}


@pytest.mark.measures
def test_a_link_limits_large_objects(deploy: Deploy, tmp_path: Path) -> None:
    """100 kB over 20 Mbit/s: 24 a second, and each of 4 waits for the others."""
    lab = deploy(pair(whole(20e6, 100_000), rate=20e6))
    reverse = pair(whole(20e6, 100_000), rate=20e6).shapers[0]
    lab.nodes["b"].reshape(
        None, reverse.model_copy(update={"node": "b", "name": "link:x:reverse"}), {}
    )
    found = measure(lab, tmp_path, size="100 kB", connections=4, duration="2 s", warmup="1 s")
    assert found["requests"] == pytest.approx(24, rel=0.15)
    assert found["http_latency_p50"] == pytest.approx(4 / 24 * 1000, rel=0.35)
    assert found["http_latency_p50"] <= found["http_latency_p90"] <= found["http_latency_p99"]
    assert found["http_errors"] == 0
    assert "connections" not in found
    assert '"requests"' in (tmp_path / "web.wrk.txt").read_text()


def test_without_keepalive_each_request_has_its_connection(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair())
    found = measure(lab, tmp_path, keepalive=False, connections=4)
    assert found["connections"] > 50
    assert found["connections"] == pytest.approx(found["requests"], rel=0.05)
    assert found["http_errors"] == 0


def test_where_nothing_answers_the_trial_is_void(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair(whole()))
    change = Change(up=False)
    lab.apply("link:x", change)
    with pytest.raises(ProbeError, match="http a -> b: wrk ended with code 1: unable to connect"):
        measure(lab, tmp_path)


def test_all_it_writes_is_in_the_labs_directory(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(pair())
    measure(lab, tmp_path)
    assert {path.name for path in (lab.directory / "http" / "web").iterdir()} >= {
        "nginx.conf", "wrk.lua", "objects", "error.log"
    }  # fmt: skip
    lab.destroy()
    assert not lab.directory.exists()
