"""The same experiment at other rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import synthetic
from hawser.engine import plan
from hawser.engine.errors import InputError
from hawser.engine.rates import multiplied
from hawser.engine.source import read
from hawser.overlay.lab.facts import Facts
from hawser.spec.cloud import cap
from hawser.spec.model import Model
from hawser.spec.units import Rate
from hawser.spec.workflow import Assertion

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted(path.stem for path in (ROOT / "workflows").glob("*.yaml"))


def rates(value: Any) -> list[Rate]:  # noqa: ANN401 (any field of a scenario)
    """All rates in a value, in order."""
    match value:
        case Rate():
            return [value]
        case Model():
            return [r for name in type(value).model_fields for r in rates(getattr(value, name))]
        case dict():
            return [r for each in value.values() for r in rates(each)]
        case tuple():
            return [r for each in value for r in rates(each)]
        case _:
            return []


def test_all_rates_change_and_nothing_else() -> None:
    whole = synthetic.quickstart()
    changed = multiplied(whole, 1.2)
    for old, new in zip(whole.variants, changed.variants, strict=True):
        assert new.labels == old.labels
        assert rates(new) == [Rate(round(rate * 1.2)) for rate in rates(old)]
        back = multiplied(multiplied(whole, 2), 0.5)
        assert back.variants == whole.variants
    assert (changed.rates, changed.reference) == (1.2, ())
    assert changed.title == f"{whole.title}, all rates times 1.2"


def test_bounds_that_are_rates_change() -> None:
    relative = {"variant": {"transport": "ipomp"}, "relative_to": {"transport": "ipip-best"}}
    given = (
        Assertion(metric="goodput", at_least=16, at_most=40),
        Assertion(metric="goodput", at_least=1.05, **relative),  # type: ignore[arg-type]
        Assertion(metric="goodput", linear_in="length", at_least=0.98),
        Assertion(metric="rtt", at_most=50),
        Assertion(metric="throughput_frames", at_least=1000),
    )
    made = multiplied(synthetic.quickstart().model_copy(update={"assertions": given}), 0.5)
    assert made.assertions[0] == given[0].model_copy(update={"at_least": 8.0, "at_most": 20.0})
    assert made.assertions[1:] == given[1:]


def test_caps_of_a_cloud_change_where_they_are_defaults_too() -> None:
    whole = read(ROOT / "workflows" / "cloud-tunnels.yaml", []).workflow
    old = whole.variants[0].scenario.cloud
    new = multiplied(whole, 0.8).variants[0].scenario.cloud
    assert old
    assert new
    for name in old.elements:
        had, has = (cap(cloud, cloud.elements[name]) for cloud in (old, new))
        assert has == (had and pytest.approx(0.8 * had, abs=1))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_can_be_planned_at_other_rates(name: str) -> None:
    whole = read(ROOT / "workflows" / f"{name}.yaml", []).workflow
    made = multiplied(whole, 1.2)
    before, after = (one.variants[0].scenario.topology for one in (whole, made))
    assert len(rates(before)) == len(rates(after))
    first = whole.model_copy(update={"variants": made.variants[:1]})
    assert plan.plan(first, Facts())


def test_as_it_is() -> None:
    whole = synthetic.quickstart()
    assert multiplied(whole, 1) is whole


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (0.0, "--rates: found 0, expected 0.01 to 100"),
        (float("nan"), "--rates: found nan"),
        (1e9, "expected 0.01 to 100"),
    ],
)
def test_factors_out_of_range_are_refused(factor: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        multiplied(synthetic.quickstart(), factor)


def test_rates_that_nothing_has_are_refused() -> None:
    whole = synthetic.quickstart()
    fast = multiplied(multiplied(whole, 100), 100)
    with pytest.raises(InputError, match=r"--rates: found .* times 100, expected 1 bit/s to 1"):
        multiplied(multiplied(fast, 100), 100)
