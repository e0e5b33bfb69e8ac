from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench import Bench, Metric, Peer
from harness.machine import Machine
from harness.result import Check, Figure, Result, Row, at_least, at_most, rows
from harness.samples import Samples

MACHINE = Machine(
    cpu="c",
    cores=2,
    memory_gib=8,
    kernel="6.1",
    system="Debian",
    date="2030-01-01 00:00 UTC",
    revision="abc",
    seed=1,
    software={},
)


def bench(*peers: Peer) -> Bench:
    metrics = (Metric("goodput", "Gbit/s", "goodput"), Metric("memory", "MiB", "memory"))
    return Bench("x", "X", "", metrics, peers, checks=lambda _samples: [])


def sampled(values: list[float], rounds: int | None = None) -> Samples:
    samples = Samples(rounds or len(values))
    for round_, value in enumerate(values):
        samples.add("p", round_, {"goodput": value})
    return samples


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9))
def test_a_row_sums_up_its_values(values: list[float]) -> None:
    found = rows(bench(Peer("p", cases={})), sampled(values))
    assert found == [
        Row(
            name="p",
            metric="goodput",
            unit="Gbit/s",
            median=median(values),
            min=min(values),
            max=max(values),
            n=len(values),
            values=dict(enumerate(values)),
        )
    ]


def test_a_missing_peer_is_shown_without_values() -> None:
    found = rows(bench(Peer("p", missing="not installed")), Samples(5))
    assert [(row.metric, row.median, row.n) for row in found] == [
        ("goodput", None, 0),
        ("memory", None, 0),
    ]


def test_a_peer_whose_every_sample_failed_is_shown_too() -> None:
    found = rows(bench(Peer("p", cases={"idle": dict})), Samples(5))
    assert [row.n for row in found] == [0, 0]


def test_nothing_is_measured_twice_in_a_round() -> None:
    with pytest.raises(ValueError, match="p: goodput was measured twice in round 1"):
        sampled([1.0]).add("p", 0, {"goodput": 2.0})


def test_figures_of_incomplete_rounds_are_none() -> None:
    incomplete = sampled([1.0, 2.0], rounds=3)
    assert incomplete.median("p", "goodput") is None
    assert incomplete.largest("p", "goodput") is None
    assert incomplete.ratio("goodput", "p", "p") is None


def test_ratio_is_of_medians() -> None:
    samples = sampled([4.0, 6.0, 50.0])
    for round_, value in enumerate([1.0, 2.0, 3.0]):
        samples.add("other", round_, {"goodput": value})
    assert samples.ratio("goodput", "p", "other") == 3.0
    assert samples.largest("p", "goodput") == 50.0


@pytest.mark.parametrize(
    ("check", "ok"),
    [
        (at_least("x", 3.0, 3.0), True),
        (at_least("x", 2.99, 3.0), False),
        (at_least("x", None, 3.0), False),
        (at_most("x", 150.0, 150.0), True),
        (at_most("x", 150.1, 150.0), False),
        (at_most("x", None, 150.0), False),
    ],
)
def test_checks(check: Check, ok: bool) -> None:
    assert check.ok is ok


def test_the_file_has_exactly_the_agreed_form(tmp_path: Path) -> None:
    file = tmp_path / "bench" / "x.json"
    checks = [at_least("fast", 2.0, 1.0)]
    figures = [Figure(name="much", value=None, aim=2)]
    found = rows(bench(Peer("p", cases={})), sampled([1.0]))
    Result(bench="x", machine=MACHINE, rows=found, checks=checks, figures=figures).write(file)

    written = json.loads(file.read_text())
    assert list(written) == ["bench", "machine", "rows", "checks", "figures"]
    row = ["name", "metric", "unit", "median", "min", "max", "n", "values"]
    assert list(written["rows"][0]) == row
    assert written["rows"][0]["values"] == {"0": 1.0}
    assert written["figures"] == [{"name": "much", "value": None, "aim": 2.0}]
    assert written["checks"] == [{"name": "fast", "value": 2.0, "limit": 1.0, "ok": True}]
    assert [path.name for path in file.parent.iterdir()] == ["x.json"]
