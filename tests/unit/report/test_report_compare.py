"""Runs side by side."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import synthetic
from hawser.report.compare import FORMS, Comparison, Line, compare
from hawser.report.comparison import render_comparison
from hawser.report.words import TIMES
from hawser.stats import unpaired
from hawser.store import Bundle, run_id


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
    assert same.value == pytest.approx(1.0, rel=0.05)


def test_two_runs_give_no_verdict(comparison: Comparison) -> None:
    """What runs vary by is not known from the trials of one."""
    for line in comparison.lines:
        for effect in line.effects:
            assert effect is not None
            assert effect.interval is None
            assert effect.verdict is None
    assert "without verdicts" in render_comparison(comparison, "text").decode()


def test_the_variation_between_three_runs_is_shown(comparison: Comparison) -> None:
    spread = goodput(comparison, "ipomp").spread
    assert spread == (pytest.approx(0.247, rel=0.1),)  # of 1, 1.5 and 1


def sides(folder: Path, seeds: range, scales: list[float]) -> list[Bundle]:
    return [
        Bundle.open(
            synthetic.write(folder / str(seed), synthetic.quickstart(3), seed=seed, scale=scale)
        )
        for seed, scale in zip(seeds, scales, strict=True)
    ]


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run has an id of its own."""
    numbers = itertools.count(1)

    def numbered(workflow: str, started: datetime, _token: int) -> str:
        return run_id(workflow, started, next(numbers))

    monkeypatch.setattr(synthetic, "run_id", numbered)


@pytest.mark.usefixtures("ids")
def test_three_runs_a_side_tell_what_exceeds_their_variation(tmp_path: Path) -> None:
    new = sides(tmp_path, range(10, 13), [1.5, 1.53, 1.47])
    old = sides(tmp_path, range(20, 23), [1.0, 1.02, 0.98])
    made = compare(new, old)
    assert made.judged
    (effect,) = goodput(made, "ipomp").effects
    assert effect is not None
    assert effect.value == pytest.approx(1.5, rel=0.05)
    assert effect.n == 3
    assert effect.clear
    assert effect.adjusted is not None
    assert effect.p is not None
    assert effect.adjusted > effect.p  # corrected for all values
    row = json.loads(render_comparison(made, "json"))["rows"][0]
    assert len(row["between_runs"]) == 2
    assert "higher" in render_comparison(made, "text").decode()


@pytest.mark.usefixtures("ids")
def test_runs_that_differ_anyway_are_not_told_apart(tmp_path: Path) -> None:
    """Each trial is precise (1 %), but runs differ by 10 %: trials alone would claim anything."""
    new = sides(tmp_path, range(10, 13), [1.1, 0.9, 1.0])
    old = sides(tmp_path, range(20, 23), [0.93, 1.07, 1.12])
    made = compare(new, old)
    assert not any(effect and effect.clear for line in made.headline for effect in line.effects)


@pytest.mark.usefixtures("ids")
def test_two_runs_a_side_are_too_few(tmp_path: Path) -> None:
    new, old = (
        sides(tmp_path, range(10, 12), [1.5, 1.5]),
        sides(tmp_path, range(20, 22), [1.0, 1.0]),
    )
    made = compare(new, old)
    assert not made.judged
    assert all(e is None or e.verdict is None for line in made.lines for e in line.effects)
    assert "three a side are needed" in render_comparison(made, "md").decode()


def test_a_run_cannot_be_on_both_sides(bundles: list[Bundle]) -> None:
    with pytest.raises(ValueError, match="both sides"):
        compare(bundles[:1], bundles[:1])


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.1])
def test_equal_systems_are_told_apart_in_at_most_one_comparison_of_twenty(spread: float) -> None:
    """Simulated: medians of three runs a side that vary by `spread`, nothing else."""
    random, found = np.random.default_rng(1), 0
    for _ in range(2000):
        one, other = np.exp(random.normal(0, spread, (2, 3)))
        effect = unpaired(one, other)
        found += effect is not None and effect.clear
    assert found <= 0.06 * 2000


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
    assert row["told_apart"] == [None, None]
    assert row["ci95"] == [None, None]
    text = render_comparison(comparison, "text").decode()
    ratio = goodput(comparison, "ipomp").effects[0]
    assert ratio is not None
    assert f"{ratio.value:.2f}{TIMES}" in text
    assert "between runs" in text
