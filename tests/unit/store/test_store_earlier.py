"""Runs that an earlier version wrote, with old names of workflow fields in `resolved.json`.

`earlier/quickstart` was written by the version before names changed; its numbers are invented.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import synthetic
from hawser.report.build import build
from hawser.report.compare import compare
from hawser.report.render import render
from hawser.spec.measurement import Throughput
from hawser.spec.units import Rate
from hawser.store import Bundle
from hawser.store.errors import BundleError
from hawser.store.query import query

EARLIER = Path(__file__).parent / "earlier" / "quickstart"


def test_it_has_old_names() -> None:
    text = (EARLIER / "resolved.json").read_text()
    assert all(f'"{name}":' in text for name in ("lane", "background", "least", "greatest"))


def test_its_workflow_is_read() -> None:
    scenario = Bundle.open(EARLIER).workflow.variants[0].scenario
    search, internet = scenario.measurements["search"], scenario.topology.internet
    assert isinstance(search, Throughput)
    assert (search.min_load, search.max_load) == (Rate(2e6), Rate(80e6))
    assert internet is not None
    bottleneck = internet.bottlenecks["x1"]
    assert bottleneck.cross_traffic is not None
    assert bottleneck.cross_traffic.tcp == 3
    assert bottleneck.reverse.cross_traffic is not None
    assert bottleneck.reverse.cross_traffic.udp == Rate(2e6)
    assert scenario.overlay is not None
    assert set(scenario.overlay.tcp_proxy) == {"II"}


def test_it_has_a_report_and_answers_queries() -> None:
    report = build(Bundle.open(EARLIER))
    assert report.valid
    assert b"ipomp had the highest goodput" in render(report, "md")
    found = query([Bundle.open(EARLIER)], "SELECT count(*) FROM samples WHERE metric = 'goodput'")
    assert found.rows[0][0] > 0


def test_it_is_compared_with_a_run_of_today(tmp_path: Path) -> None:
    today = Bundle.open(synthetic.write(tmp_path, synthetic.quickstart(2)))
    found = compare([Bundle.open(EARLIER), today])
    effects = [line.effects[0] for line in found.lines if line.any.metric == "goodput"]
    assert [effect.value for effect in effects if effect] == pytest.approx([1, 1], rel=0.05)


@pytest.mark.parametrize("text", ["", "[]", '{"variants": 3, "lane": 1}', '{"lane": {}}'])
def test_what_is_no_workflow_is_refused(tmp_path: Path, text: str) -> None:
    shutil.copytree(EARLIER, tmp_path / "run")
    (tmp_path / "run" / "resolved.json").write_text(text)
    with pytest.raises(BundleError, match=r"resolved\.json"):
        _ = Bundle.open(tmp_path / "run").workflow
