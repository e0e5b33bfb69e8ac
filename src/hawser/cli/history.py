"""`hawser controller`: versions and the way back, staged roll-outs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawser.cli import options, output
from hawser.cli.remote import URL, AuthorityOption, UrlOption, client

if TYPE_CHECKING:
    from hawser.control.https import ApiClient

CanaryOption = Annotated[
    str | None,
    typer.Option(
        "--canary",
        metavar="BRANCH,...",
        help="Branches whose gateways get it first. If one of them loses the controller or its "
        "peers, the version before is put in force again.",
    ),
]
ObserveOption = Annotated[
    float,
    typer.Option("--observe", metavar="S", help="How long they have to be well before the rest."),
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait for the end of the roll-out; exit code 1 if returned.")
]
_ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the history.")]
_POLL_S = 0.5
_MOST_MOVES = 50


def stages(canary: str | None, observe: float) -> dict[str, Any]:
    """Give the part of a request that asks for stages; nothing without a canary."""
    if canary is None:
        return {}
    names = [name.strip() for name in canary.split(",")]
    return {"rollout": {"canary": names, "observe_s": observe}}


def tell(asked: ApiClient, made: Any, *, staged: bool, wait: bool) -> None:  # noqa: ANN401 (JSON)
    """Say what became of a version, and wait for the end of its roll-out if wanted."""
    found = asked.ask("GET", "/v1/rollouts?limit=1") if staged else []
    if not found or found[0]["version"] != made["number"]:
        output.say(f"Version {made['number']} is in force.")
        return
    rollout = found[0]
    output.say(f"Roll-out {rollout['number']} of version {made['number']} has begun.")
    while wait and rollout["state"] == "running":
        time.sleep(_POLL_S)
        rollout = asked.ask("GET", f"/v1/rollouts/{rollout['number']}")
    if rollout["state"] == "done":
        output.say(f"All gateways have version {made['number']}.")
    elif rollout["state"] == "returned":
        why = f"Returned by version {rollout['returned_by']}: {rollout['detail']}"
        output.say(why)
        raise typer.Exit(1)


def versions(
    url: UrlOption = URL, authority: AuthorityOption = None, as_json: options.JsonOption = False
) -> None:
    """List versions of the network, the newest first."""
    found = client(url, authority).ask("GET", "/v1/versions")
    if as_json:
        output.document(found)
        return
    rows = [
        (str(each["number"]), each["time"][:19], each["author"], each["reason"], _count(each))
        for each in found
    ]
    output.show(output.table(("version ", "time", "author", "reason", "changes "), rows))


def difference(
    number: Annotated[int, typer.Argument(metavar="N", help="A version.")],
    older: Annotated[
        int | None, typer.Argument(metavar="M", help="Another. Default: the one before.")
    ] = None,
    url: UrlOption = URL,
    authority: AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what a version changed."""
    before = max(number - 1, 1) if older is None else older
    path = f"/v1/versions/{number}/difference?older={before}"
    answer = client(url, authority).ask("GET", path)
    if as_json:
        output.document(answer)
    else:
        show_changes(answer["changes"])


def rollback(
    number: Annotated[int, typer.Argument(metavar="N", help="An older version.")],
    url: UrlOption = URL,
    authority: AuthorityOption = None,
    reason: _ReasonOption = "hawser controller rollback",
    canary: CanaryOption = None,
    observe: ObserveOption = 10.0,
    wait: WaitOption = False,
) -> None:
    """Put an older version in force again, as a new version."""
    asked = client(url, authority)
    body = {"reason": reason, **stages(canary, observe)}
    made = asked.ask("POST", f"/v1/versions/{number}/restore", body)
    tell(asked, made, staged=canary is not None, wait=wait)


def rollouts(
    url: UrlOption = URL, authority: AuthorityOption = None, as_json: options.JsonOption = False
) -> None:
    """List staged roll-outs, the newest first."""
    found = client(url, authority).ask("GET", "/v1/rollouts")
    if as_json:
        output.document(found)
        return
    rows = [
        (
            str(each["number"]),
            str(each["version"]),
            each["state"],
            f"{each['stage'] + 1} of {len(each['stages'])}",
            each["started"][:19],
            each["detail"] or "",
        )
        for each in found
    ]
    columns = ("number ", "version ", "state", "stage", "started", "detail")
    output.show(output.table(columns, rows))


def finish(
    number: Annotated[int, typer.Argument(metavar="N", help="A roll-out that is running.")],
    url: UrlOption = URL,
    authority: AuthorityOption = None,
) -> None:
    """Let all gateways have the new version of a roll-out now."""
    found = client(url, authority).ask("POST", f"/v1/rollouts/{number}/finish")
    output.say(f"Version {found['version']} is in force.")


def give_back(
    number: Annotated[int, typer.Argument(metavar="N", help="A roll-out that is running.")],
    url: UrlOption = URL,
    authority: AuthorityOption = None,
    reason: _ReasonOption = "hawser controller return",
) -> None:
    """Put the version before a roll-out in force again."""
    body = {"reason": reason}
    found = client(url, authority).ask("POST", f"/v1/rollouts/{number}/return", body)
    output.say(f"Returned by version {found['returned_by']}.")


def show_changes(changes: list[Any]) -> None:
    """Show what differs between two networks."""
    rows = [(each["path"], _short(each["before"]), _short(each["after"])) for each in changes]
    output.show(output.table(("what", "before", "after"), rows))


def show_moves(answer: Any) -> None:  # noqa: ANN401 (JSON)
    """Show what a change would do: where configurations change, and what traffic moves."""
    paths = [
        (
            " - ".join(each["branches"]),
            f"type {each['traffic']}",
            "\n".join(each["before"]) or "no path",
            "\n".join(each["after"]) or "no path",
        )
        for each in answer["paths"][:_MOST_MOVES]
    ]
    classes = [
        (f"class {each['name']}", "", each["before"] or "no class", each["after"] or "no class")
        for each in answer["classes"]
    ]
    if paths or classes:
        output.show(output.table(("traffic", "", "before", "after"), [*classes, *paths]))
    if (more := len(answer["paths"]) - len(paths)) > 0:
        output.say(f"and {more} more (--json lists all)")
    output.say(f"Configurations that change: {', '.join(answer['branches']) or 'none'}")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `hawser controller`."""
    commands: dict[str, Callable[..., None]] = {
        "versions": versions,
        "difference": difference,
        "rollback": rollback,
        "rollouts": rollouts,
        "finish": finish,
        "return": give_back,
    }
    for name, command in commands.items():
        app.command(name)(command)


def _count(version: Any) -> str:  # noqa: ANN401 (JSON)
    return str(len(version["changes"]))


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
