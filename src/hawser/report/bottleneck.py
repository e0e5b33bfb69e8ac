"""What limited each variant, in words, and how many of its runs agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hawser.report.collect import Collected, label_key
from hawser.report.evidence import gather
from hawser.report.model import Bottleneck
from hawser.report.words import join, number
from hawser.spec.measurement import Iperf3, Measurement, Ping
from hawser.spec.workflow import Labels, Workflow
from hawser.stats.bottleneck import (
    Budget,
    Cause,
    Connection,
    Loss,
    Program,
    Queue,
    Taker,
    Verdict,
    find,
    share,
)
from hawser.store import Sample

_WHO = {"generator": "the generator", "receiver": "the receiver", "function": "the function"}
_WAITED = 0.1
"""Share of the time from which it is said that a program had to wait for a core."""


def bottlenecks(found: Iterable[Collected], workflow: Workflow) -> tuple[Bottleneck, ...]:
    """Judge all measurements that load something."""
    scenarios = {label_key(v.labels): v.scenario for v in workflow.variants}
    made: list[Bottleneck] = []
    for one in found:
        scenario = scenarios.get(label_key(one.variant))
        for name, measurement in scenario.measurements.items() if scenario else ():
            trials = one.evidence.get(name)
            if trials and not isinstance(measurement, Ping):
                made.append(_judged(one.variant, name, measurement, trials))
    return tuple(made)


def _judged(
    variant: Labels, name: str, measurement: Measurement, trials: Mapping[int, Sequence[Sample]]
) -> Bottleneck:
    groups: dict[tuple[str, ...], list[Verdict]] = {}
    for samples in trials.values():
        verdict = find(gather(samples, measurement))
        named = sorted(f"{cause.kind} {cause.element}" for cause in verdict.limits)
        groups.setdefault(tuple(named), []).append(verdict)
    most = max(groups.values(), key=len)
    typical = sorted(most, key=_strength)[len(most) // 2]
    return Bottleneck(
        variant=variant,
        measurement=name,
        kind=typical.limits[0].kind if typical.limits else None,
        elements=tuple(cause.element for cause in typical.limits),
        text=described(typical, measurement),
        runs=len(most),
        of=len(trials),
        next=_next(typical.nearest),
    )


def _strength(verdict: Verdict) -> float:
    return max((cause.pressure for cause in verdict.limits), default=0.0)


def described(verdict: Verdict, measurement: Measurement) -> str:
    """Say what limited, with its evidence."""
    if verdict.limits:
        return join([cause_text(cause) for cause in verdict.limits])
    if isinstance(measurement, Iperf3) and measurement.rate is not None:
        return f"nothing was at its limit: {measurement.rate} was offered"
    return "cannot be told: nothing was seen at its limit"


def cause_text(cause: Cause) -> str:
    """Say of one element what it did."""
    sign = cause.sign
    who = f"{_WHO.get(cause.kind, '')} {cause.element}".strip()
    match sign:
        case Queue():
            return _queue(cause, sign)
        case Budget():
            return f"{who} was out of processor time in {_percent(sign.throttled)} of all periods"
        case Program():
            return f"{who}: {_program(sign)}"
        case Taker():
            return _taker(cause, who, sign)
        case Connection():
            return _connection(cause, who, sign)
        case Loss():
            return f"{cause.element} lost {sign.packets} packets, as asked"


def _queue(cause: Cause, queue: Queue) -> str:
    rate, dropped = f"{number(queue.rate)} Mbit/s", _percent(queue.dropped)
    if cause.kind == "queue":
        load = _percent(queue.load_at_drop)
        return (
            f"the queue of {queue.name} was too short: it dropped {dropped} of all packets"
            f" at {load} of its {rate}"
        )
    return f"{queue.name} was full and dropped {dropped} of all packets at {rate}"


def _program(program: Program) -> str:
    waited = program.demand - program.cpu
    text = f"a thread of {program.name} worked {_percent(program.cpu)} of the time"
    return f"{text} and waited for a core {_percent(waited)}" if waited >= _WAITED else text


def _taker(cause: Cause, who: str, taker: Taker) -> str:
    if cause.kind == "filter":
        lost = _percent(share(taker.drops, taker.packets))
        return f"a filter or policer on {taker.node} dropped {lost} of all packets"
    lost = _percent(share(taker.drops, taker.packets + taker.drops))
    return f"{who} was too slow: its sockets had no room for {lost} of all datagrams"


def _connection(cause: Cause, who: str, connection: Connection) -> str:
    if connection.window >= connection.buffer:
        return f"{who}: its receive window was full {_percent(connection.window)} of the time"
    return f"{who}: its send buffer was too small {_percent(connection.buffer)} of the time"


def _next(cause: Cause | None) -> str:
    """Say how near the next element was to its limit."""
    if cause is None:
        return ""
    of = {
        Queue: "of its rate",
        Budget: "of its processor time",
        Program: "of a core",
        Connection: "of the time waiting for a buffer",
    }
    return f"{cause.element} at {_percent(cause.pressure)} {of.get(type(cause.sign), '')}".strip()


def _percent(part: float) -> str:
    return f"{number(round(100 * part, 3))} %"
