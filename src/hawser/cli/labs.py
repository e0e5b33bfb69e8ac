"""`hawser deploy`, `inspect`, `exec` and `destroy`: labs that outlive their command."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.driver.base import Lab, LabInfo
    from hawser.engine.labs import DaemonInfo
    from hawser.engine.trace import Step

_INTERRUPTED = 130
"""Exit code of a command ended by Ctrl-C, as in shells (128 + SIGINT)."""
_SHOWN = 200
"""Most steps of packets that are shown."""
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6"}


def deploy(
    file: options.FileArgument,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="VARIANT",
            help="Variant to deploy, as VALUE or AXIS=VALUE; may be repeated. Required if the "
            "workflow has several.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the lab. Default: that of the workflow."
        ),
    ] = None,
    settings: options.SetOption = None,
    supervise: Annotated[
        bool,
        typer.Option(
            "--supervise",
            help="Keep running and restart daemons that die, until Ctrl-C or `hawser destroy` "
            "removes the lab. Without this option nothing restarts them.",
        ),
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Create a workflow's network and keep it after the command ends."""
    from hawser import driver as drivers
    from hawser.cli import chosen, extras
    from hawser.engine import labs
    from hawser.engine.signals import ProcessSignals

    workflow = chosen.source(file, settings, variant).workflow
    extras.need_for(workflow)
    driver = drivers.choose(workflow)
    lab = labs.deploy(driver, workflow, name or workflow.name, ProcessSignals())
    found = replace(lab.describe(), state="supervised" if supervise else "unsupervised")
    if as_json:
        output.document(_described(found, lab))
    else:
        _show(found, lab)
    sys.stdout.flush()
    if supervise:
        labs.supervise(lab, ProcessSignals())
    elif lab.daemons and not as_json:
        output.say("Its daemons are not restarted if they die (deploy --supervise does that).")


def inspect(name: options.LabArgument = None, as_json: options.JsonOption = False) -> None:
    """List the labs on this machine, or show one lab's nodes, addresses and daemons."""
    from hawser import driver as drivers
    from hawser.engine import labs

    driver = drivers.choose()
    if name is None:
        found = labs.overview(driver)
        if as_json:
            output.document([asdict(one) for one in found])
        else:
            _list(found)
        return
    lab = driver.attach(labs.find_lab(driver, name))
    if as_json:
        output.document(_described(lab.describe(), lab))
    else:
        _show(lab.describe(), lab)


def exec_(
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="LAB/NODE, or NODE if there is only one lab.")
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="Command to run.")],
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Show afterwards which path the node's packets took through chains, and where "
            "each was forwarded, served or dropped.",
        ),
    ] = False,
) -> None:
    """Run a command on a node in this terminal, and exit with its exit code."""
    from hawser import driver as drivers
    from hawser.engine import labs

    wanted = command[1:] if command[0] == "--" else command
    lab, found = labs.find_node(drivers.choose(), node)
    there = found.attached(wanted)
    if trace:
        raise typer.Exit(_traced(lab, found.name, there))
    os.execvp(there[0], there)  # noqa: S606 (the process becomes that command)


def _traced(lab: Lab, node: str, command: list[str]) -> int:
    """Run a command, and show what happened to the node's packets while it ran."""
    from hawser.engine import trace

    trace.begin(lab)
    code = _INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        code = subprocess.run(command, check=False).returncode
    found = trace.steps(lab, node)
    if not found:
        output.say(f"No packet from or to {node} reached a forwarder or function.")
        return code
    start = found[0].event.time_ns
    columns = ("ms ", "at", "step", "path", "index ", "from", "to", "packet")
    output.show(output.table(columns, (_step(start, step) for step in found[:_SHOWN])))
    if len(found) > _SHOWN:
        output.say(f"The first {_SHOWN} of {len(found)} steps.")
    return code


def _step(start: int, step: Step) -> tuple[str, ...]:
    event = step.event
    ports = [f":{port}" if port else "" for port in (event.source_port, event.destination_port)]
    packet = f"{event.source}{ports[0]} > {event.destination}{ports[1]}"
    return (
        f"{(event.time_ns - start) / 1e6:.3f}",
        step.daemon,
        f"{event.step}: {event.cause}" if event.cause else event.step,
        step.sfp,
        str(event.si) if event.spi else "",
        event.incoming,
        event.to or "",
        f"{_PROTOCOLS.get(event.protocol, event.protocol)} {packet}",
    )


def destroy(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names of labs.", show_default=False),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All labs on this machine, whoever created them.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Remove labs and the remains of crashed ones."""
    from hawser import driver as drivers
    from hawser.engine import labs

    driver = drivers.choose()
    if bool(names) == every:
        known = ", ".join(driver.labs()) or "none"
        raise typer.BadParameter(
            f"give names or --all; labs on this machine: {known}", param_hint="NAME"
        )
    chosen = driver.labs() if every else [labs.find_lab(driver, name) for name in names or ()]
    for name in chosen:
        driver.destroy(name)
    if as_json:
        output.document({"destroyed": list(chosen)})
    else:
        output.say(f"removed: {', '.join(chosen) or 'nothing, there was no lab'}")


def _list(found: tuple[LabInfo, ...]) -> None:
    if not found:
        output.say("No labs on this machine; `hawser deploy FILE` creates one.")
        return
    rows = (
        (
            one.name,
            one.state,
            "" if one.age is None else output.duration(one.age),
            ", ".join(one.nodes),
        )
        for one in found
    )
    output.show(output.table(("lab", "state", "age ", "nodes"), rows, whole=("lab",)))


def _show(found: LabInfo, lab: Lab) -> None:
    from hawser.engine import labs

    age = "" if found.age is None else f", {output.duration(found.age)} old"
    output.line(f"lab {found.name}: {found.state}{age}")
    rows = (
        (node.name, node.role, port.name, " ".join(map(str, port.addresses)))
        for node in lab.plan.nodes
        for port in node.interfaces
    )
    output.show(output.table(("node", "role", "port", "addresses"), rows))
    if found.daemons:
        output.line("")
        columns = ("daemon", "node", "process ", "restarts ", "state")
        output.show(output.table(columns, map(_daemon, labs.daemons(lab))))


def _daemon(daemon: DaemonInfo) -> tuple[str, ...]:
    pid = "" if daemon.pid is None else str(daemon.pid)
    return daemon.name, daemon.node, pid, str(daemon.restarts), describe(daemon)


def describe(daemon: DaemonInfo) -> str:
    """The state of a daemon's connections, or why it does not answer."""
    if daemon.status is None:
        return f"does not answer: {daemon.fault}"
    others = daemon.status.others
    up = [name for name, connected in others if connected]
    down = [name for name, connected in others if not connected]
    connected = f"connected to {', '.join(up)}" if up else "ready"
    return connected + (f"; not to {', '.join(down)}" if down else "")


def _described(found: LabInfo, lab: Lab) -> dict[str, object]:
    from hawser.engine import labs

    return asdict(found) | {
        "addresses": {port: str(address) for port, address in lab.plan.addresses.items()},
        "daemons": [
            asdict(daemon)
            | {"status": None if daemon.status is None else daemon.status.model_dump(mode="json")}
            for daemon in labs.daemons(lab)
        ],
    }
