"""References and assertions: the variants, measurements and metrics they speak of exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hawser.spec.check.topology import near
from hawser.spec.document import Header
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.measurement import Iperf3, Measurement, Ping, Protocol
from hawser.spec.metric import IPERF3_TCP, IPERF3_UDP, METRICS, PING, unit
from hawser.spec.validate import Issue
from hawser.spec.variants import Axes, Choice, unknown_label
from hawser.spec.workflow import Assertion, Reference


def labels(header: Header, axes: Axes, choices: Sequence[Choice]) -> Iterator[Issue]:
    """Check that labels name axes and values, and that some variant carries them all."""
    for loc, item in _items(header):
        wrong = [
            Issue((*loc, "variant", axis), problem, key=axis not in axes)
            for axis, label in item.variant.items()
            if (problem := unknown_label(axes, axis, label))
        ]
        yield from wrong
        if (
            not wrong
            and choices
            and not any(item.variant.items() <= c.labels.items() for c in choices)
        ):
            yield Issue((*loc, "variant"), f"found {found(item.variant)}, which no variant carries")


def bounds(header: Header) -> Iterator[Issue]:
    """Check metrics, units and bounds by themselves."""
    for loc, item in _items(header):
        known = unit(item.metric)
        if known is None:
            yield Issue((*loc, "metric"), near(METRICS, item.metric, "metric"))
        elif isinstance(item, Reference) and item.unit != known:
            message = f"found {found(item.unit)}, expected {known!r}, the unit of {item.metric}"
            yield Issue((*loc, "unit"), message)
    for index, item in enumerate(header.assertions):
        if item.at_least is None and item.at_most is None:
            yield Issue(("assert", index), "missing a bound, expected at_least or at_most")


def sources(
    header: Header, scenarios: Sequence[tuple[Mapping[str, str], Mapping[str, Measurement]]]
) -> Iterator[Issue]:
    """Check that the variants in question measure what is spoken of."""
    for loc, item in _items(header):
        if unit(item.metric) is None:
            continue
        meant = [m for labels, m in scenarios if item.variant.items() <= labels.items()]
        if meant:
            yield from _source(loc, item, meant)


def _source(
    loc: Loc, item: Reference | Assertion, meant: Sequence[Mapping[str, Measurement]]
) -> Iterator[Issue]:
    names = {name: None for measurements in meant for name in measurements}
    if item.measurement is not None and item.measurement not in names:
        yield Issue((*loc, "measurement"), near(names, item.measurement, "measurement"))
        return
    if not any(_gives(item, measurements) for measurements in meant):
        what = item.measurement or "any measurement"
        yield Issue((*loc, "metric"), f"found {found(item.metric)}, which {what} does not give")


def _gives(item: Reference | Assertion, measurements: Mapping[str, Measurement]) -> bool:
    if item.metric not in {*PING, *IPERF3_TCP, *IPERF3_UDP}:
        return item.measurement is None
    chosen = [m for name, m in measurements.items() if item.measurement in (None, name)]
    return any(item.metric in _metrics(measurement) for measurement in chosen)


def _metrics(measurement: Ping | Iperf3) -> Mapping[str, str]:
    if isinstance(measurement, Ping):
        return PING
    return IPERF3_UDP if measurement.protocol is Protocol.UDP else IPERF3_TCP


def _items(header: Header) -> Iterator[tuple[Loc, Reference | Assertion]]:
    for index, reference in enumerate(header.reference):
        yield ("reference", index), reference
    for index, assertion in enumerate(header.assertions):
        yield ("assert", index), assertion
