"""`hawser controller demo`: a controller over an emulated network, for a first look."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.driver.base import ControllerAccess, Lab
    from hawser.spec.workflow import Workflow

_WORKFLOW = Path(__file__).resolve().parents[3] / "workflows" / "controller-demo.yaml"
_LAB = "controller-demo"
_PAUSE_S = 2.0


def demo(
    settings: options.SetOption = None,
    port: Annotated[
        int,
        typer.Option(
            "--api-port", min=0, max=65535, help="Port of the loopback for the API; 0 for any."
        ),
    ] = 8443,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="End after so many days of five minutes.")
    ] = None,
) -> None:
    """Start a controller over five emulated branches with traffic and a scripted day of faults."""
    from hawser import driver as drivers
    from hawser.cli import chosen, extras
    from hawser.engine import labs
    from hawser.engine.errors import Interrupted
    from hawser.engine.signals import ProcessSignals
    from hawser.node.relay import relay

    for each in ("controller", "agent"):
        extras.need(each)
    workflow = chosen.source(_WORKFLOW, settings).workflow
    _check_port(port)
    signals = ProcessSignals()
    output.say("Making five branches, a controller and an internet between them ...")
    lab = labs.deploy(drivers.choose(workflow), workflow, _LAB, signals)
    with contextlib.suppress(Interrupted), signals.handled():
        try:
            access = lab.access
            assert access is not None  # noqa: S101 (the workflow has a controller)
            with relay(port, lab.nodes[access.node].dial, access.address) as there:
                _introduce(lab, access, there)
                _days(lab, workflow, days)
        finally:
            with signals.shielded():
                lab.destroy()


def _check_port(port: int) -> None:
    """Refuse a port that is taken before a minute of work is done for it."""
    from hawser.engine.errors import InputError

    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InputError([f"--api-port {port}: {error.strerror}"]) from error


def _introduce(lab: Lab, access: ControllerAccess, port: int) -> None:
    from hawser.control.https import ApiClient, trusting

    url = f"https://127.0.0.1:{port}"
    client = ApiClient(url, trusting(access.authority.read_bytes()))
    login = {"user": access.user, "password": access.password}
    session = client.ask("POST", "/v1/login", login)["token"]
    took = "" if lab.onboarding is None else f" {lab.onboarding:.1f} s after the first token"
    output.say(f"Five gateways have joined, and packets pass between all of them{took}.")
    output.say(f"The API is at {url}/v1 (user {access.user}, password {access.password}).")
    output.say("In another terminal:")
    output.say(f"  export HAWSER_CONTROLLER={url} HAWSER_CA={access.authority}")
    output.say(f"  export HAWSER_KEY={session}")
    output.say("  hawser controller gateways          hawser controller versions")
    output.say(f"  hawser exec {lab.name}/h1 -- ping 10.2.0.2")
    output.say("Ctrl-C ends it and removes everything.")


def _days(lab: Lab, workflow: Workflow, days: int | None) -> None:
    from hawser.engine import demo as engine
    from hawser.probe.base import ProbeError

    scenario = workflow.variants[0].scenario
    number = 0
    while days is None or number < days:
        number += 1
        output.say(f"Day {number}")
        try:
            with tempfile.TemporaryDirectory(prefix="hawser-demo-") as raw:
                samples = engine.day(lab, scenario, Path(raw), output.say)
        except ProbeError as error:
            output.say(f"The day is over early: {error}")
            time.sleep(_PAUSE_S)
            continue
        for line in engine.results(samples):
            output.say(f"  {line}")
