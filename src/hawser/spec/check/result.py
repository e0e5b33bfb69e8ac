"""References and assertions: the variants, measurements and metrics they speak of exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hawser.spec.check.topology import near
from hawser.spec.check.window import windows
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.measurement import (
    Bandwidth,
    Http,
    Iperf3,
    Load,
    Measurement,
    PathMtu,
    Ping,
    Protocol,
    Throughput,
    rivals,
    rounds,
)
from hawser.spec.metric import (
    BACK_TO_BACK,
    BANDWIDTH,
    CONDITIONAL_PDR,
    CONDITIONAL_THROUGHPUT,
    CONVERGENCE,
    FAIRNESS,
    HTTP,
    HTTP_CONNECTIONS,
    IPERF3_MPTCP,
    IPERF3_TCP,
    IPERF3_UDP,
    LOAD,
    LOSS_CURVE,
    MEASURED,
    METRICS,
    OPTIMUM,
    PART_LOAD,
    PATH_MTU,
    PDR,
    PING,
    RFC2544_TRIAL,
    THROUGHPUT,
    names,
    units,
)
from hawser.spec.validate import Issue
from hawser.spec.variants import Variants, unknown_label
from hawser.spec.workflow import LINE_FROM, Assertion, Labels, Reference, Scenario, Until

Result = Reference | Assertion
"""What is held against results: both name variants, a metric and perhaps a measurement."""


def results(
    items: Mapping[Loc, Result],
    variants: Variants,
    resolved: Sequence[tuple[Labels, Scenario | None]],
) -> Iterator[Issue]:
    """Check references and assertions, by the place where they are written."""
    for loc, item in items.items():
        yield from carried_labels((*loc, "variant"), item.variant, variants)
        if isinstance(item, Assertion):
            yield from _counterparts((*loc, "relative_to"), item, variants)
            yield from _across((*loc, "across"), item, variants)
            yield from _line((*loc, "linear_in"), item, variants)
        yield from _metric(loc, item)
        meant = [s for labels, s in resolved if item.variant.items() <= labels.items()]
        if units(item.metric) and None not in meant:
            scenarios = [s for s in meant if s is not None]
            yield from _source(loc, item, scenarios)
            if isinstance(item, Assertion) and not item.relative_to:
                yield from windows(loc, item, scenarios)


def baseline(labels: Labels, variants: Variants) -> Iterator[Issue]:
    """Check that a variant carries the labels of the baseline."""
    yield from carried_labels(("baseline",), labels, variants)


def until(wanted: Until, resolved: Sequence[tuple[Labels, Scenario | None]]) -> Iterator[Issue]:
    """Check that a precision is one of something measured, and can be looked at."""
    loc: Loc = ("repeat",)
    if not units(wanted.metric):
        yield Issue((*loc, "metric"), near(METRICS, wanted.metric, "metric"))
    else:
        scenarios = [scenario for _, scenario in resolved if scenario is not None]
        yield from _source(loc, wanted, scenarios if len(scenarios) == len(resolved) else [])
    if not 0 < wanted.until < 1:
        message = f"found {str(wanted.until)!r}, expected more than 0 % and less than 100 %"
        yield Issue((*loc, "until"), message)
    if wanted.limit < wanted.least:
        message = f"found {wanted.limit}, expected at least the {wanted.least} of least"
        yield Issue((*loc, "limit"), message)


def carried_labels(loc: Loc, wanted: Labels, variants: Variants) -> Iterator[Issue]:
    """Check that labels name axes and values, and that some variant carries them all."""
    wrong = [
        Issue((*loc, axis), problem, key=axis not in variants.axes)
        for axis, label in wanted.items()
        if (problem := unknown_label(variants.axes, axis, label))
    ]
    yield from wrong
    carried = any(wanted.items() <= c.labels.items() for c in variants.choices)
    if not wrong and not carried and variants.choices:
        yield Issue(loc, f"found {found(wanted)}, which no variant carries")


def _counterparts(loc: Loc, item: Assertion, variants: Variants) -> Iterator[Issue]:
    """Check that each variant asserted has one to compare with."""
    wrong = list(carried_labels(loc, item.relative_to, variants))
    yield from wrong
    every = {frozenset(choice.labels.items()) for choice in variants.choices}
    concerned = (c.labels for c in variants.choices if item.variant.items() <= c.labels.items())
    alone = [one for one in concerned if frozenset((one | item.relative_to).items()) not in every]
    if alone and not wrong:
        who = " / ".join(alone[0].values())
        who += f" and {len(alone) - 1} more have" if len(alone) > 1 else " has"
        yield Issue(loc, f"found {found(item.relative_to)}: {who} no variant to compare with")


def _across(loc: Loc, item: Assertion, variants: Variants) -> Iterator[Issue]:
    """Check that what is taken together are multiples, over an axis."""
    if item.across is None:
        return
    if item.across not in variants.axes:
        yield Issue(loc, near(variants.axes, item.across, "axis"))
    elif not item.relative_to:
        yield Issue(loc, f"found {found(item.across)} without relative_to: only multiples compare")


def _line(loc: Loc, item: Assertion, variants: Variants) -> Iterator[Issue]:
    """Check that a line goes through values of numbers, and enough of them."""
    if item.linear_in is None:
        return
    if item.linear_in not in variants.axes:
        yield Issue(loc, near(variants.axes, item.linear_in, "axis"))
        return
    values = [each.label for each in variants.axes[item.linear_in]]
    wrong = [each for each in values if not _NUMBER.fullmatch(each)]
    if item.relative_to or item.across:
        yield Issue(loc, f"found {found(item.linear_in)} beside relative_to or across")
    elif wrong:
        message = f"found {found(item.linear_in)}, whose value {found(wrong[0])} is no number"
        yield Issue(loc, message)
    elif len(values) < LINE_FROM:
        message = f"found {found(item.linear_in)} with {len(values)} values"
        yield Issue(loc, f"{message}, expected at least {LINE_FROM} for a line")


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _metric(loc: Loc, item: Result) -> Iterator[Issue]:
    """Check that the metric is known, in this unit, and bounded where it is asserted."""
    known = units(item.metric)
    if not known:
        yield Issue((*loc, "metric"), near(METRICS, item.metric, "metric"))
    elif isinstance(item, Reference) and item.unit not in known:
        wanted = " or ".join(map(repr, known))
        message = f"found {found(item.unit)}, expected {wanted}, the unit of {item.metric}"
        yield Issue((*loc, "unit"), message)
    if isinstance(item, Assertion):
        yield from _bounds(loc, item)


def _bounds(loc: Loc, item: Assertion) -> Iterator[Issue]:
    """Check that there is a bound, and that both can be met."""
    if item.at_least is None and item.at_most is None:
        yield Issue(loc, "missing a bound, expected at_least or at_most")
    elif item.at_least is not None and item.at_most is not None and item.at_least > item.at_most:
        message = f"found {item.at_most:g}, expected at least the {item.at_least:g} of at_least"
        yield Issue((*loc, "at_most"), message)


def _source(loc: Loc, item: Result | Until, meant: Sequence[Scenario]) -> Iterator[Issue]:
    """Check that the variants in question measure what is spoken of."""
    if not meant:
        return
    measured = {name: None for scenario in meant for name in scenario.measurements}
    if item.measurement is not None and item.measurement not in measured:
        yield Issue((*loc, "measurement"), near(measured, item.measurement, "measurement"))
        return
    if not any(_gives(item, scenario) for scenario in meant):
        nobody = f"{item.measurement} does not give" if item.measurement else "no measurement gives"
        yield Issue((*loc, "metric"), f"found {found(item.metric)}, which {nobody}")


def _gives(item: Result | Until, scenario: Scenario) -> bool:
    if item.metric not in MEASURED:
        return item.measurement is None
    chosen = [m for name, m in scenario.measurements.items() if item.measurement in (None, name)]
    if item.metric in FAIRNESS:
        return _compares(item.measurement, scenario)
    if item.metric in OPTIMUM:
        known = scenario.overlay is not None and scenario.controller is not None
        return known and any(isinstance(each, Iperf3) for each in chosen)
    if item.metric in CONVERGENCE:
        return scenario.disrupted and any(isinstance(each, Iperf3) for each in chosen)
    return any(name in _metrics(each) for each in chosen for name in names(item.metric))


def _compares(name: str | None, scenario: Scenario) -> bool:
    """Whether there are several streams, or transfers side by side, of which the first is named."""
    measurements = scenario.measurements
    found = [
        several[0] for names in rounds(measurements) for several in rivals(measurements, names)
    ]
    for each, measurement in measurements.items():
        if isinstance(measurement, Iperf3) and measurement.streams > 1:
            found.append(each)
    return bool(found) if name is None else name in found


def _metrics(measurement: Measurement) -> Mapping[str, str]:
    match measurement:
        case Ping():
            return PING
        case PathMtu():
            return PATH_MTU
        case Bandwidth():
            return BANDWIDTH
        case Iperf3():
            return _IPERF3[measurement.protocol]
        case Http(keepalive=True):
            return HTTP
        case Http():
            return {**HTTP, **HTTP_CONNECTIONS}
        case Load():
            return LOAD
        case Throughput():
            return _throughput(measurement)


def _throughput(measurement: Throughput) -> Mapping[str, str]:
    short = measurement.trial < RFC2544_TRIAL
    return {
        **(CONDITIONAL_THROUGHPUT if short else THROUGHPUT),
        **(_pdr(short) if measurement.partial_drop is not None else {}),
        **(PART_LOAD if measurement.part_load else {}),
        **(LOSS_CURVE if measurement.loss_curve else {}),
        **(BACK_TO_BACK if measurement.back_to_back else {}),
    }


def _pdr(short: bool) -> Mapping[str, str]:
    return CONDITIONAL_PDR if short else PDR


_IPERF3 = {
    Protocol.TCP: IPERF3_TCP,
    Protocol.UDP: IPERF3_UDP,
    Protocol.MPTCP: IPERF3_MPTCP,
}
