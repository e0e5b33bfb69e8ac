"""`hawser controller alarms`: what is wrong, who takes care of it, and where it is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from hawser.cli import files, options, output, remote

app = typer.Typer(
    name="alarms",
    help="List alarms, acknowledge and silence them, and say where they are sent.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)

_NumberArgument = Annotated[int, typer.Argument(metavar="N", min=1, help="Number of the alarm.")]
_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the receiver.")]


@app.callback()
def alarms(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Cleared ones too.")] = False,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List alarms, the newest first."""
    if context.invoked_subcommand is not None:
        return
    path = f"/v1/alarms?limit=200&state={'all' if every else 'open'}"
    found = remote.client(url, authority).ask("GET", path)
    if as_json:
        output.document(found)
    elif not found:
        output.line("No alarms.")
    else:
        columns = ("number ", "level", "kind", "group", "raised", "state", "detail")
        output.show(output.table(columns, map(_row, found)))


def _row(alarm: dict[str, Any]) -> tuple[str, ...]:
    state = "silenced" if alarm["notified"] is None else "open"
    if alarm["acknowledged"]:
        state = f"{alarm['acknowledged_by']}: {alarm['note']}".removesuffix(": ")
    if alarm["cleared"]:
        state = f"cleared {alarm['cleared'][:19]}"
    raised = alarm["raised"][:19]
    named = (alarm["level"], alarm["kind"], alarm["group"])
    return (str(alarm["number"]), *named, raised, state, alarm["detail"])


@app.command("acknowledge")
def acknowledge(
    number: _NumberArgument,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What is done.")] = "",
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
) -> None:
    """Say that you take care of an alarm."""
    client = remote.client(url, authority)
    client.ask("POST", f"/v1/alarms/{number}/acknowledge", {"note": note})


@app.command("silence")
def silence(
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why, for the list.")],
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=744, help="How long.")] = 1.0,
    branches: Annotated[
        str | None, typer.Option("--branches", metavar="B1,B2", help="Whose alarms; else all.")
    ] = None,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
) -> None:
    """Begin maintenance: alarms are listed, but sent only if they are still there at its end."""
    end = datetime.now(UTC) + timedelta(hours=hours)
    body: dict[str, Any] = {"end": end.isoformat(), "reason": reason}
    if branches is not None:
        body["branches"] = branches.split(",")
    made = remote.client(url, authority).ask("POST", "/v1/maintenance", body)
    output.line(f"Maintenance {made['number']} ends {made['end'][:19]} UTC.")


@app.command("resume")
def resume(
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Number of the maintenance.")],
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
) -> None:
    """End maintenance now."""
    remote.client(url, authority).ask("DELETE", f"/v1/maintenance/{number}")


@app.command("receivers")
def receivers(
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List where alarms are sent, and whether they arrive."""
    found = remote.client(url, authority).ask("GET", "/v1/receivers")
    if as_json:
        output.document(found)
        return
    columns = ("name", "least", "to", "waiting ", "given up ", "delivered", "error")
    output.show(output.table(columns, map(_receiver, found)))


def _receiver(found: dict[str, Any]) -> tuple[str, ...]:
    settings = found["settings"]
    to = settings.get("url") or ", ".join(settings["recipients"])
    counts = (str(found["waiting"]), str(found["abandoned"]))
    last = (found["delivered"] or "never")[:19]
    return (found["name"], settings["least"], to, *counts, last, found["error"] or "")


@app.command("send")
def send(
    name: _NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its settings, in JSON.")],
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
) -> None:
    """Add a receiver or replace it. Prints the secret of a webhook if the controller made it."""
    from hawser.engine.errors import InputError

    try:
        body = json.loads(files.content(file))
    except (ValueError, RecursionError) as error:
        raise InputError([f"{file}: expected JSON: {error}"]) from error
    made = remote.client(url, authority).ask("PUT", f"/v1/receivers/{name}", body)
    if made["secret"]:
        output.raw(f"{made['secret']}\n")


@app.command("test")
def send_test(
    name: _NameArgument,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
) -> None:
    """Send a message that is no alarm; `receivers` shows what became of it."""
    remote.client(url, authority).ask("POST", f"/v1/receivers/{name}/test")


@app.command("remove")
def remove(
    name: _NameArgument,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
) -> None:
    """Send nothing to a receiver any more."""
    remote.client(url, authority).ask("DELETE", f"/v1/receivers/{name}")
