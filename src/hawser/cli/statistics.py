"""`hawser controller statistics`: series of gateways as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from hawser.cli import options, output, remote

app = typer.Typer(
    name="statistics",
    help="Show what gateways measure: paths, traffic between branches, and their history.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_BranchArgument = Annotated[str, typer.Argument(metavar="BRANCH", help="A branch of the network.")]
_ROWS = 20
"""Rows of a table of history, unless told otherwise."""


@app.command("paths")
def paths(
    branch: Annotated[
        str | None, typer.Argument(metavar="[BRANCH]", help="Else all branches.")
    ] = None,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show the member paths of gateways as they are now."""
    client = remote.client(url, authority)
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for gateway in client.ask("GET", "/v1/gateways"):
        if not gateway["connected"] or branch not in (None, gateway["branch"]):
            continue
        latest = client.ask("GET", f"/v1/gateways/{gateway['id']}/statistics")
        for name, value in latest["values"].items():
            kind, *about, metric = name.split("/")
            if kind == "path":
                found.setdefault((gateway["branch"], *about), {})[metric] = value
    if as_json:
        keys = ("branch", "peer", "group", "member")
        output.document([dict(zip(keys, at, strict=True)) | found[at] for at in sorted(found)])
        return
    rows = [(*at, *(_cell(found[at], *column) for column in _PATH)) for at in sorted(found)]
    titles = [f"{title} " for title, *_ in _PATH]
    output.show(output.table(("from", "to", "group ", "member ", *titles), rows))


_PATH: Sequence[tuple[str, str, float, int]] = (
    ("Mbit/s", "rate", 1e-6, 2),
    ("capacity", "capacity", 1e-6, 1),
    ("RTT ms", "rtt", 1, 1),
    ("jitter ms", "jitter", 1, 1),
    ("loss %", "loss", 100, 2),
    ("queue kB", "queue", 1e-3, 1),
    ("share %", "share", 100, 0),
    ("up", "up", 1, 0),
)
"""Title, metric, factor and digits of each column."""


@app.command("matrix")
def matrix(
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    seconds: Annotated[int, typer.Option("--seconds", help="How many of the last ones.")] = 60,
    as_json: options.JsonOption = False,
) -> None:
    """Show the traffic between branches, by class."""
    answer = remote.client(url, authority).ask("GET", f"/v1/statistics/matrix?seconds={seconds}")
    if as_json:
        output.document(answer)
        return
    rows = [
        (each["sender"], each["receiver"], each["class"], f"{each['bps'] / 1e6:.3f}")
        for each in answer["pairs"]
    ]
    output.show(output.table(("from", "to", "class", "Mbit/s "), rows))
    output.say(f"Means of the last {seconds} s.")


@app.command("series")
def series(
    branch: _BranchArgument,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the series of a branch."""
    query = urlencode({"branch": branch})
    found = remote.client(url, authority).ask("GET", f"/v1/statistics/series?{query}")
    if as_json:
        output.document(found)
        return
    rows = [(each["series"], each["unit"], each["meaning"]) for each in found]
    output.show(output.table(("series", "unit", "meaning"), rows))


@app.command("history")
def history(
    branch: _BranchArgument,
    name: Annotated[str, typer.Argument(metavar="SERIES", help="As `series` lists it.")],
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    last: Annotated[
        str, typer.Option("--last", metavar="TIME", help="How long ago it begins, such as 30 min.")
    ] = "1 h",
    rows: Annotated[int, typer.Option("--rows", help="Rows at most, if any file has so few.")] = (
        _ROWS
    ),
    as_json: options.JsonOption = False,
) -> None:
    """Show a series over time: mean, least and greatest value of each row."""
    asked = {"branch": branch, "series": name, "since": _ago(last).isoformat(), "points": rows}
    path = f"/v1/statistics/history?{urlencode(asked)}"
    answer = remote.client(url, authority).ask("GET", path)
    if as_json:
        output.document(answer)
        return
    (found,) = answer["series"]
    columns = (found["times"], found["mean"], found["low"], found["high"])
    lines = [
        (f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}", *(f"{v:.6g}" for v in values))
        for time, *values in zip(*columns, strict=True)
    ]
    unit = f", {found['unit']}" if found["unit"] else ""
    titles = ("time (UTC)", f"mean{unit} ", "least ", "greatest ")
    output.show(output.table(titles, lines))
    output.say(f"Rows of {answer['resolution']} s; rows without values are left out.")


def _ago(last: str) -> datetime:
    from hawser.engine.errors import InputError
    from hawser.spec.units import Duration

    days = last.rstrip().removesuffix("d")
    try:
        if days != last.rstrip():
            seconds = 24 * float(Duration.parse(f"{days.rstrip()} h"))
        else:
            seconds = float(Duration.parse(last))
        return datetime.now(UTC) - timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        raise InputError([f"--last: {error}"]) from error


def _cell(values: Mapping[str, Any], _title: str, metric: str, factor: float, digits: int) -> str:
    return f"{values[metric] * factor:.{digits}f}" if metric in values else ""
