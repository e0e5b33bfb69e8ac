"""`hawser gateway`: the agent beside a gateway's daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hawser.cli import output

app = typer.Typer(
    name="gateway",
    help="Join a network as the gateway of a branch, and carry its traffic.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_DirectoryOption = Annotated[
    Path,
    typer.Option(
        "--directory", metavar="DIR", envvar="HAWSER_GATEWAY", help="Where the gateway keeps state."
    ),
]
_DIRECTORY = Path("/var/lib/hawser/gateway")


@app.command("join")
def join(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The controller's, such as https://192.0.2.1:8443.")
    ],
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="From the controller.")],
    directory: _DirectoryOption = _DIRECTORY,
    only: Annotated[
        bool, typer.Option("--only", help="Join, and leave the work to `hawser gateway run`.")
    ] = False,
) -> None:
    """Join a network with a token, then work as its gateway until told to stop."""
    from hawser.cli import extras
    from hawser.engine.errors import InputError

    extras.need("agent")
    from hawser.agent.join import join as ask
    from hawser.agent.state import StateDirectory
    from hawser.pki.token import JoinToken

    try:
        parsed = JoinToken.parse(token)
        joined = ask(StateDirectory(directory.absolute()), url, parsed, _waits)
    except ValueError as error:
        raise InputError([str(error)]) from error
    output.say(f"This is the gateway of branch {joined.branch}.")
    if not only:
        run(directory)


def _waits(branch: str) -> None:
    output.say(f"Waiting until an operator approves this gateway of branch {branch}.")


@app.command("run")
def run(directory: _DirectoryOption = _DIRECTORY) -> None:
    """Work as a gateway that has joined. Its daemon goes on when this ends."""
    from hawser.cli import extras

    extras.need("agent")
    from hawser.agent.service import run as work

    work(directory)


@app.command("check")
def check(directory: _DirectoryOption = _DIRECTORY) -> None:
    """Tell whether this gateway reaches another branch; exit code 1 if not. For VRRP."""
    from hawser.agent.state import CONTROL
    from hawser.control.client import ControlError, DaemonClient
    from hawser.control.model import GatewayStatus

    try:
        found = DaemonClient(directory.absolute() / CONTROL).status()
    except ControlError as error:
        output.say(str(error))
        raise typer.Exit(1) from error
    peers = found.peers if isinstance(found, GatewayStatus) else ()
    reached = [peer.branch for peer in peers if peer.answers]
    output.line(f"Reaches {len(reached)} of {len(peers)} branches.")
    if peers and not reached:
        raise typer.Exit(1)
