"""Runs side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synthetic
from hawser.report.compare import FORMS, Comparison, Line, compare
from hawser.report.comparison import render_comparison
from hawser.report.words import TIMES
from hawser.store import Bundle


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Bundle]:
    paths = [
        synthetic.write(
            tmp_path_factory.mktemp("runs"), synthetic.quickstart(5), seed=seed, scale=scale
        )
        for seed, scale in ((7, 1.0), (8, 1.5), (9, 1.0))
    ]
    return [Bundle.open(path) for path in paths]


@pytest.fixture(scope="module")
def comparison(bundles: list[Bundle]) -> Comparison:
    return compare(bundles)


def goodput(comparison: Comparison, transport: str) -> Line:
    return next(x for x in comparison.headline if x.variant == {"transport": transport})


def test_ratios_are_to_the_first_run(comparison: Comparison) -> None:
    faster, same = goodput(comparison, "ipomp").effects
    assert faster is not None
    assert same is not None
    assert faster.value == pytest.approx(1.5, rel=0.05)
    assert faster.clear
    assert same.value == pytest.approx(1.0, rel=0.05)
    assert faster.interval is not None
    assert faster.interval.low < faster.value < faster.interval.high


def test_a_run_without_a_variant_leaves_a_gap(bundles: list[Bundle], tmp_path: Path) -> None:
    workflow = synthetic.quickstart(3)
    fewer = workflow.model_copy(update={"variants": workflow.variants[:1]})
    other = Bundle.open(synthetic.write(tmp_path, fewer))
    line = goodput(compare([bundles[0], other]), "ipip-best")
    assert line.rows[1] is None
    assert line.effects == (None,)
    turned = goodput(compare([other, bundles[0]]), "ipip-best")
    assert turned.rows[0] is None
    assert "ipip-best" in render_comparison(compare([other, bundles[0]]), "text").decode()


def test_other_differences_are_named(bundles: list[Bundle], tmp_path: Path) -> None:
    path = synthetic.write(tmp_path, synthetic.quickstart(5))
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["machine"]["cores"] = 64
    manifest["kernel"]["net.mptcp.scheduler"] = "other"
    (path / "manifest.json").write_text(json.dumps(manifest))
    found = compare([bundles[0], Bundle.open(path)])
    assert found.differences == ("The runs also differ in machine and kernel settings.",)
    assert compare(bundles).differences == ()


def test_one_run_is_no_comparison(bundles: list[Bundle]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        compare(bundles[:1])


def test_every_form_says_it(comparison: Comparison) -> None:
    for form in FORMS:
        text = render_comparison(comparison, form).decode()
        assert "ipomp" in text
        assert text == render_comparison(comparison, form).decode()
    document = json.loads(render_comparison(comparison, "json"))
    row = next(r for r in document["rows"] if r["metric"] == "goodput")
    assert row["n"] == [5, 5, 5]
    assert row["told_apart"] == [True, False]
    text = render_comparison(comparison, "text").decode()
    ratio = goodput(comparison, "ipomp").effects[0]
    assert ratio is not None
    assert f"{ratio.value:.2f}{TIMES}" in text
    assert "higher" in text
