"""`hawser validate` and `hawser plan`: what a file says, before anything is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.engine.plan import Plan, Prepared


def validate(
    file: options.FileArgument,
    settings: options.SetOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Check a workflow file, and whether this machine can run it.

    Exit code 2: the file is wrong; every mistake is listed with its place. 3: the machine lacks
    something.
    """
    planned = _plan(file, settings, None, None, None)
    _check_machine(planned)
    if as_json:
        output.document({"valid": True, **_summary(planned)})
    else:
        output.line(f"{file}: valid: {_in_words(planned)}")


def plan(
    file: options.FileArgument,
    settings: options.SetOption = None,
    only: options.OnlyOption = None,
    repeat: options.RepeatOption = None,
    duration: options.DurationOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what would be run: variants, order, time, nodes, addresses and shapers."""
    planned = _plan(file, settings, only, repeat, duration)
    if as_json:
        output.document(_document(planned))
    else:
        _show(planned)


def _plan(
    file: options.FileArgument,
    settings: list[str] | None,
    only: list[str] | None,
    repeat: int | None,
    duration: str | None,
) -> Plan:
    from hawser.cli import chosen
    from hawser.engine.plan import plan as prepare

    return prepare(chosen.source(file, settings, only, repeat, duration).workflow)


def _check_machine(planned: Plan) -> None:
    from hawser.driver.local import LocalDriver
    from hawser.engine.errors import LackingError
    from hawser.engine.plan import missing

    if lacks := missing(planned, LocalDriver()):
        raise LackingError(lacks)


def _summary(planned: Plan) -> dict[str, object]:
    return {
        "workflow": planned.workflow.name,
        "title": planned.workflow.title,
        "variants": len(planned.variants),
        "repeat": planned.workflow.repeat,
        "trials": len(planned.order),
        "seconds": round(planned.seconds, 1),
    }


def _in_words(planned: Plan) -> str:
    from hawser.report.words import TIMES, count

    variants, trials = count(len(planned.variants), "variant"), count(len(planned.order), "trial")
    repeat, time = planned.workflow.repeat, output.duration(planned.seconds)
    return f"{variants} {TIMES} {repeat} = {trials}, about {time}"


def _document(planned: Plan) -> dict[str, object]:
    return _summary(planned) | {
        "order": [trial.model_dump() for trial in planned.order],
        "plans": [
            {
                "variant": prepared.variant.labels,
                "seconds": round(prepared.seconds, 1),
                "network": prepared.network.model_dump(mode="json"),
            }
            for prepared in planned.variants
        ],
    }


_ORDER = 30
"""Trials of which the order is shown; `--json` has all."""


def _show(planned: Plan) -> None:
    from hawser.store import label

    workflow = planned.workflow
    output.line(f"{workflow.name}: {workflow.title}")
    output.line(f"{_in_words(planned)}; seed {workflow.seed}")
    order = [f"{trial.trial} {label(trial.variant)}" for trial in planned.order[:_ORDER]]
    more = len(planned.order) - len(order)
    order += [f"and {more} more"] if more else []
    output.line(f"Order of trials: {', '.join(order)}")
    for group in _same_networks(planned):
        _show_network(group)


def _same_networks(planned: Plan) -> Iterable[list[Prepared]]:
    """Variants grouped by what their network is made of, so that each network is shown once."""
    groups: dict[object, list[Prepared]] = {}
    for prepared in planned.variants:
        network = prepared.network
        key = (network.links, network.shapers, tuple(network.addresses.items()))
        groups.setdefault(key, []).append(prepared)
    return groups.values()


def _show_network(group: list[Prepared]) -> None:
    from hawser.store import label

    names = ", ".join(label(prepared.variant.labels) for prepared in group)
    output.line(f"\nNetwork of {names}", style="bold")
    output.show(output.table(("node", "role", "ports"), _nodes(group[0])))
    if shapers := list(_shapers(group[0])):
        columns = ("shaped at", "for", "rate ", "queue ", "delay ", "jitter ", "loss ")
        output.show(output.table(columns, shapers))
    for prepared in group:
        daemons = ", ".join(f"{d.role} on {d.node}" for d in prepared.network.daemons)
        text = f"{label(prepared.variant.labels)}: {daemons or 'no gateways'}"
        output.line(f"{text}; {output.duration(prepared.seconds)} a trial")


def _nodes(prepared: Prepared) -> Iterator[tuple[str, str, str]]:
    for node in prepared.network.nodes:
        ports = (
            f"{port.name} {' '.join(str(address) for address in port.addresses)}"
            for port in node.interfaces
        )
        yield node.name, node.role, ", ".join(ports)


def _shapers(prepared: Prepared) -> Iterator[tuple[str, ...]]:
    for shaper in prepared.network.shapers:
        for each in shaper.classes:
            values = (each.rate, each.queue, each.delay, each.jitter, each.loss)
            shown = ("" if value is None else str(value) for value in values)
            yield f"{shaper.node}.{shaper.interface}", each.name, *shown
