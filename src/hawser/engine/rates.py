"""The same experiment at other rates: whether its shape depends on how fast everything is. Pure."""

from __future__ import annotations

from typing import Any, Final

from hawser.engine.errors import InputError
from hawser.spec import metric
from hawser.spec.cloud import Cloud, full_cap
from hawser.spec.model import Model
from hawser.spec.units import Rate
from hawser.spec.workflow import Assertion, Scenario, Variant, Workflow

LEAST, MOST = 0.01, 100.0
"""Factors that make sense."""

_UNIT: Final = "Mbit/s"
"""Of metrics that are as many times as high where everything is that many times as fast."""


def multiplied(workflow: Workflow, factor: float) -> Workflow:
    """Multiply all rates: of ports, links, paths, clouds, policies, traffic, and bounds in Mbit/s.

    Queues, delays, losses, processors and calls of a controller's API stay. Published values are
    left out: they are of other rates.

    Raises:
        InputError: the factor is out of range, or a rate with it.
    """
    if not LEAST <= factor <= MOST:
        raise InputError([f"--rates: found {factor:g}, expected {LEAST:g} to {MOST:g}"])
    if factor == 1:
        return workflow
    return workflow.model_copy(
        update={
            "title": f"{workflow.title}, all rates times {factor:g}",
            "variants": tuple(_variant(variant, factor) for variant in workflow.variants),
            "reference": (),
            "assertions": tuple(_assertion(one, factor) for one in workflow.assertions),
            "rates": workflow.rates * factor,
        }
    )


def _variant(variant: Variant, factor: float) -> Variant:
    scenario: Scenario = _value(variant.scenario, factor)
    if (cloud := variant.scenario.cloud) is not None:
        scenario = scenario.model_copy(update={"cloud": _cloud(cloud, factor)})
    return variant.model_copy(update={"scenario": scenario})


def _value(value: Any, factor: float) -> Any:  # noqa: ANN401 (any field of a scenario)
    """Multiply every rate in a value, however deep it is."""
    match value:
        case Rate():
            return _rate(value, factor)
        case Model():
            old = {name: getattr(value, name) for name in type(value).model_fields}
            new = {name: _value(each, factor) for name, each in old.items()}
            return value.model_copy(update={n: new[n] for n in new if new[n] != old[n]})
        case dict():
            return {key: _value(each, factor) for key, each in value.items()}
        case tuple():
            return tuple(_value(each, factor) for each in value)
        case _:
            return value


def _rate(rate: Rate, factor: float) -> Rate:
    if not 1 <= rate * factor <= Rate.MAXIMUM:
        expected = f"expected 1 bit/s to {Rate(Rate.MAXIMUM)}"
        raise InputError([f"--rates: found {rate} times {factor:g}, {expected}"])
    return Rate(round(rate * factor))


def _cloud(cloud: Cloud, factor: float) -> Cloud:
    """Multiply what elements carry by default, too."""
    elements = {}
    for name, element in cloud.elements.items():
        full = full_cap(cloud, element)
        rate = None if full is None else _rate(full, factor)
        elements[name] = element.model_copy(update={"rate": rate})
    return cloud.model_copy(update={"elements": elements})


def _assertion(one: Assertion, factor: float) -> Assertion:
    """Multiply bounds that are rates; multiples, coefficients and other units stay."""
    relative = bool(one.relative_to) or one.linear_in is not None
    if relative or metric.units(one.metric) != (_UNIT,):
        return one
    bounds = {"at_least": one.at_least, "at_most": one.at_most}
    return one.model_copy(
        update={name: bound * factor for name, bound in bounds.items() if bound is not None}
    )
