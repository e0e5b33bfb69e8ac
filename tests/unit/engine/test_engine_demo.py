"""A day of a demonstration, in a lab in which nothing runs."""

from __future__ import annotations

from hawser.engine import demo
from hawser.spec.workflow import Change
from hawser.store.sample import Sample


def test_what_is_told() -> None:
    assert demo.describe(Change(up=False)) == "goes down"
    assert demo.describe(Change(up=True)) == "is back"
    assert demo.describe(Change.model_validate({"rate": "3 Mbit/s"})) == "rate 3 Mbit/s"
    sample = Sample(measurement="m", metric="goodput", unit="Mbit/s", value=7.96)
    assert demo.results([sample]) == ["m: goodput 7.96 Mbit/s"]
