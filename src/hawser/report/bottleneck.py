"""The bottleneck of each variant in words, and in how many of its runs it was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hawser.report.collect import Collected, label_key
from hawser.report.evidence import gather, ways
from hawser.report.model import Bottleneck
from hawser.report.words import join, number
from hawser.spec.measurement import Bandwidth, Iperf3, Measurement, PathMtu, Ping
from hawser.spec.workflow import Labels, Workflow
from hawser.stats.bottleneck import BUFFER_LIMITED, Cause, Diagnosis, find
from hawser.stats.evidence import (
    Connection,
    CpuQuota,
    DropPoint,
    Loss,
    Offered,
    Program,
    Queue,
    share,
)

_WHO = {"generator": "the generator", "receiver": "the receiver", "function": "the function"}
_WAITED = 0.1
"""Share of the time waiting for a core from which the report mentions it."""


def bottlenecks(found: Iterable[Collected], workflow: Workflow) -> tuple[Bottleneck, ...]:
    """Find the bottleneck of every measurement that loads the network."""
    scenarios = {label_key(v.labels): v.scenario for v in workflow.variants}
    made: list[Bottleneck] = []
    for one in found:
        scenario = scenarios.get(label_key(one.variant))
        for name, measurement in scenario.measurements.items() if scenario else ():
            trials = one.evidence.get(name)
            if scenario and trials and not isinstance(measurement, Ping | PathMtu | Bandwidth):
                passed, delivered = ways(scenario, measurement), _delivered(one, name)
                diagnoses = [
                    find(gather(samples, measurement, passed, delivered.get(trial)))
                    for trial, samples in trials.items()
                ]
                made.append(_judged(one.variant, name, measurement, diagnoses))
    return tuple(made)


def _delivered(one: Collected, measurement: str) -> dict[int, float]:
    """Give what arrived in each trial, Mbit/s."""
    return {
        run.trial: run.value
        for key, runs in one.runs.items()
        if key[0] == measurement and key[1] in ("goodput", "received")
        for run in runs
    }


def _judged(
    variant: Labels, name: str, measurement: Measurement, diagnoses: Sequence[Diagnosis]
) -> Bottleneck:
    groups: dict[tuple[str, ...], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        named = sorted(f"{cause.kind} {cause.element}" for cause in diagnosis.limits)
        groups.setdefault(tuple(named), []).append(diagnosis)
    most = max(groups.values(), key=len)
    typical = sorted(most, key=_strength)[len(most) // 2]
    return Bottleneck(
        variant=variant,
        measurement=name,
        kind=typical.limits[0].kind if typical.limits else None,
        elements=tuple(cause.element for cause in typical.limits),
        text=described(typical, measurement),
        runs=len(most),
        of=len(diagnoses),
        next=_next(typical.nearest),
    )


def _strength(diagnosis: Diagnosis) -> float:
    return max((cause.utilisation for cause in diagnosis.limits), default=0.0)


def described(diagnosis: Diagnosis, measurement: Measurement) -> str:
    """Say what limited a measurement, with the evidence."""
    if diagnosis.limits:
        return join([cause_text(cause) for cause in diagnosis.limits])
    if isinstance(measurement, Iperf3) and measurement.rate is not None:
        return f"unknown: nothing was at its limit; the offered load was {measurement.rate}"
    return "unknown: nothing was at its limit"


def cause_text(cause: Cause) -> str:
    """Say what one element did."""
    seen = cause.observation
    who = f"{_WHO.get(cause.kind, '')} {cause.element}".strip()
    match seen:
        case Queue():
            return _queue(cause, seen)
        case CpuQuota():
            return f"{who} used up its CPU quota in {_percent(seen.throttled)} of all periods"
        case Program():
            return f"{who}: {_program(seen)}"
        case DropPoint():
            return _drop_point(cause, who, seen)
        case Connection():
            return _connection(cause, who, seen)
        case Loss():
            return _loss(cause, seen)
        case Offered():
            return f"the offered load of {number(seen.rate)} Mbit/s, which the network carried"


def _loss(cause: Cause, loss: Loss) -> str:
    lost = f"{_percent(share(loss.packets, loss.sent))} of" if loss.sent else f"{loss.packets}"
    return f"{cause.element} lost {lost} packets by its configured loss"


def _queue(cause: Cause, queue: Queue) -> str:
    rate, dropped = f"{number(queue.rate)} Mbit/s", _percent(queue.drop_ratio)
    if cause.kind == "queue":
        load = _percent(queue.load_at_drop)
        return (
            f"the queue of {queue.name} was too short: it dropped {dropped} of the packets"
            f" at {load} of its rate of {rate}"
        )
    full = f"{queue.name} was saturated at {rate}"
    return f"{full} and dropped {dropped} of the packets" if queue.drops else full


def _program(program: Program) -> str:
    waited = program.demand - program.cpu
    text = f"a thread of {program.name} ran {_percent(program.cpu)} of the time"
    return f"{text} and waited for a core {_percent(waited)}" if waited >= _WAITED else text


def _drop_point(cause: Cause, who: str, point: DropPoint) -> str:
    if cause.kind == "filter":
        lost = _percent(share(point.drops, point.packets))
        return f"a filter or policer on {point.node} dropped {lost} of the packets"
    lost = _percent(share(point.drops, point.packets + point.drops))
    return f"{who} was too slow: its socket buffers overflowed and dropped {lost} of the datagrams"


def _connection(cause: Cause, who: str, connection: Connection) -> str:
    if cause.element == connection.sender:
        if connection.buffer_limited >= BUFFER_LIMITED:
            percent = _percent(connection.buffer)
            return f"{who}: its send buffer limited the connection {percent} of the time"
        return f"{who}: its program had nothing to send {_percent(1 - connection.busy)} of the time"
    percent = _percent(connection.window_limited)
    if cause.kind == "window":
        window = f"the receive window of {cause.element}"
        return f"{window} was too small: it limited the connection {percent} of the time"
    return f"{who} read too slowly: its receive window was full {percent} of the time"


def _next(cause: Cause | None) -> str:
    """Say how much of its limit the next element used."""
    if cause is None:
        return ""
    of = {
        Queue: "of its rate",
        CpuQuota: "of its CPU quota",
        Program: "of a core",
        Connection: "of the time limited by a buffer or window",
    }
    limit = of.get(type(cause.observation), "")
    return f"{cause.element} at {_percent(cause.utilisation)} {limit}".strip()


def _percent(part: float) -> str:
    return f"{number(round(100 * part, 3))} %"
