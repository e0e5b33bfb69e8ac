"""`hawser validate` and `hawser plan`: check and show a workflow without running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from hawser.cli import options, output

if TYPE_CHECKING:
    from pydantic.main import IncEx

    from hawser.engine.plan import Plan, Prepared
    from hawser.engine.source import Source


def validate(
    file: options.FileArgument,
    settings: options.SetOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Check a workflow file, and whether this machine can run it.

    Exit code 2: the file has errors; each is listed with its line. 3: the machine lacks something.
    Old names of fields are warned about.
    """
    from hawser.cli import chosen

    source = chosen.source(file, settings)
    planned = _plan(source)
    _check_machine(planned)
    if as_json:
        output.document({"valid": True, **_summary(planned), **_warnings(source)})
    else:
        output.line(f"{file}: valid: {_in_words(planned)}")


def plan(
    file: options.FileArgument,
    settings: options.SetOption = None,
    only: options.OnlyOption = None,
    repeat: options.RepeatOption = None,
    duration: options.DurationOption = None,
    rates: options.RatesOption = 1.0,
    as_json: options.JsonOption = False,
) -> None:
    """Show what would run: variants, order, time, nodes, addresses and shapers."""
    from hawser.cli import chosen

    source = chosen.source(file, settings, only, repeat, duration, rates)
    planned = _plan(source)
    if as_json:
        output.document(_document(planned) | _warnings(source))
    else:
        _show(planned)


def _plan(source: Source) -> Plan:
    from hawser import driver
    from hawser.engine.plan import plan as prepare

    return prepare(source.workflow, driver.choose(source.workflow).facts())


def _warnings(source: Source) -> dict[str, object]:
    return {"warnings": [asdict(warning) for warning in source.warnings]}


def _check_machine(planned: Plan) -> None:
    from hawser import driver
    from hawser.engine.errors import LackingError
    from hawser.engine.plan import check_filters, missing

    check_filters(planned.workflow)
    if lacks := missing(planned, driver.choose(planned.workflow)):
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
    said = f"{variants} {TIMES} {repeat} = {trials}, about {time}"
    until = planned.workflow.until
    return said if until is None else f"{said}; up to {until.limit} repeats for {until.until}"


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


_BLOCKS = 5
"""Repeats whose order is shown; `--json` has all."""


def _show(planned: Plan) -> None:
    workflow = planned.workflow
    output.line(f"{workflow.name}: {workflow.title}")
    output.line(f"{_in_words(planned)}\n")
    output.show(
        output.table(("", "variant", "network", "gateways", "per trial "), _variants(planned))
    )
    if any(variant.scenario.cloud is not None for variant in workflow.variants):
        _show_cloud(planned)
    output.line(f"\nOrder of trials (seed {workflow.seed}): {_order(planned)}")
    for letter, group in _networks(planned).items():
        _show_network(letter, group[0])


def _show_cloud(planned: Plan) -> None:
    from hawser.report.cloud import elements

    found = elements(planned.workflow)
    if found is not None:
        output.line(f"\n{found.caption}", "bold")
        output.show(output.table(found.columns, found.rows))


def _variants(planned: Plan) -> Iterator[tuple[str, ...]]:
    from hawser.overlay.lab.plan import GatewayDaemon
    from hawser.store import label

    letters = {id(p): letter for letter, group in _networks(planned).items() for p in group}
    for number, prepared in enumerate(planned.variants, start=1):
        transport = prepared.variant.scenario.overlay
        own = (d.node for d in prepared.network.daemons if isinstance(d, GatewayDaemon))
        daemons = ", ".join(own)
        gateways = f"{daemons} ({transport.transport})" if daemons and transport else "none"
        name, time = label(prepared.variant.labels), output.duration(prepared.seconds)
        yield f"{number}", name, letters[id(prepared)], gateways, time


def _order(planned: Plan) -> str:
    """The variants' numbers in the order of trials, the first repeats only."""
    numbers = {id(p): number for number, p in enumerate(planned.variants, start=1)}
    trials = [str(numbers[id(planned.of(trial.variant))]) for trial in planned.order]
    size = len(planned.variants)
    blocks = [" ".join(trials[at : at + size]) for at in range(0, len(trials), size)]
    return " | ".join(blocks[:_BLOCKS]) + (" | ..." if len(blocks) > _BLOCKS else "")


_SHOWN: Final[Mapping[str, IncEx | bool]] = {
    "nodes": {"__all__": {"nat"}},
    "links": True,
    "shapers": True,
    "addresses": True,
    "chains": True,
}
"""Parts in which networks differ."""


def _networks(planned: Plan) -> dict[str, list[Prepared]]:
    """Variants grouped by network, so that each network is shown once."""
    groups: dict[str, list[Prepared]] = {}
    for prepared in planned.variants:
        key = prepared.network.model_dump_json(include=dict(_SHOWN))
        groups.setdefault(key, []).append(prepared)
    return {_letter(index): group for index, group in enumerate(groups.values())}


def _letter(index: int) -> str:
    """Give `A`, `B`, ... `Z`, `AA`, `AB`, ..."""
    return (_letter(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def _show_network(letter: str, prepared: Prepared) -> None:
    output.line(f"\nNetwork {letter}", "bold")
    output.show(output.table(("node", "role", "ports"), _nodes(prepared)))
    _show_used(_SHAPER, list(_shapers(prepared)))
    _show_used(_CHAIN, list(_chains(prepared)))


def _show_used(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show a table without its empty columns; nothing if there are no rows."""
    used = [column for column in range(len(columns)) if any(row[column] for row in rows)]
    if rows:
        output.line("")
        shown = ([row[column] for column in used] for row in rows)
        output.show(output.table([columns[column] for column in used], shown))


_SHAPER = ("shaped at", "for", "rate ", "queue ", "delay ", "jitter ", "loss ")


_CHAIN = ("chain", "steering", "path", "hops", "segments", "mtu ")


def _chains(prepared: Prepared) -> Iterator[tuple[str, ...]]:
    for chain in prepared.network.chains:
        for sfp in chain.service_paths:
            hops = " > ".join(_passed(name, sfp.proxies.get(name)) for name in sfp.way)
            segments = " ".join(map(str, sfp.segments))
            mode = f" ({chain.mode})" if chain.mode else ""
            steering = f"{chain.steering}{mode}, fails {chain.fail}"
            yield sfp.name, steering, f"{sfp.number}", hops, segments, f"{chain.mtu}"


def _passed(name: str, proxy: str | None) -> str:
    return f"{name} (proxy: {proxy})" if proxy else name


def _nodes(prepared: Prepared) -> Iterator[tuple[str, str, str]]:
    for node in prepared.network.nodes:
        ports = (
            f"{port.name} {' '.join(str(address) for address in port.addresses)}"
            for port in node.interfaces
        )
        role = f"nat ({node.nat.mapping})" if node.nat else node.role
        yield node.name, role, ", ".join(ports)


def _shapers(prepared: Prepared) -> Iterator[tuple[str, ...]]:
    for shaper in prepared.network.shapers:
        for each in shaper.classes:
            values = (each.rate, each.queue, each.delay, each.jitter, each.loss)
            shown = ("" if value is None else str(value) for value in values)
            yield f"{shaper.node}.{shaper.interface}", each.name, *shown
