"""`hawser controller paths`, `names` and `explain`: what was chosen, and the way of a flow."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from hawser.cli import options, output, remote

_SourceArgument = Annotated[
    str, typer.Argument(metavar="SRC", help="An IPv4 address, or a branch for any host of it.")
]
_DestinationArgument = Annotated[str, typer.Argument(metavar="DST", help="The same.")]
_PortArgument = Annotated[
    int | None, typer.Argument(metavar="[PORT]", min=0, max=65535, help="Destination port.")
]
_ProtocolOption = Annotated[
    Literal["tcp", "udp", "icmp"] | None,
    typer.Option("--protocol", help="Protocol; tcp where there is a port."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to those of a controller."""
    app.command("explain")(explain)
    app.command("paths")(paths)
    app.command("names")(names)


def explain(
    source: _SourceArgument,
    destination: _DestinationArgument,
    port: _PortArgument = None,
    protocol: _ProtocolOption = None,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show why a flow goes the way it does: class, group, paths, and what decided each."""
    asked: dict[str, Any] = {"source": source, "destination": destination}
    if port is not None:
        asked |= {"port": port}
    if protocol or port is not None:
        asked |= {"protocol": protocol or "tcp"}
    found = remote.client(url, authority).ask("GET", f"/v1/explain?{urlencode(asked)}")
    if as_json:
        output.document(found)
        return
    for step in found["steps"]:
        output.line(step)


def paths(
    changes: Annotated[
        bool, typer.Option("--changes", help="The last changes with their reasons.")
    ] = False,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show the paths that were chosen automatically."""
    client = remote.client(url, authority)
    found = client.ask("GET", "/v1/paths/changes" if changes else "/v1/paths")
    if as_json:
        output.document(found)
    elif changes:
        for each in found:
            output.line(f"{each['number']}  {each['time']}  {each['reason']}")
    else:
        _show(found)


def names(
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show the DNS names of applications, and the addresses they resolve to."""
    found = remote.client(url, authority).ask("GET", "/v1/names")
    if as_json:
        output.document(found)
        return
    rows = [
        (
            each["name"],
            " ".join(each["applications"]),
            " ".join(_address(address) for address in each["addresses"]) or "-",
            each["error"] or "",
        )
        for each in found
    ]
    output.show(output.table(("name", "applications", "addresses (* has rules)", "error"), rows))


def _address(found: dict[str, Any]) -> str:
    return f"{found['address']}*" if found["used"] else str(found["address"])


def _show(found: dict[str, Any]) -> None:
    if not found["automatic"]:
        output.line("The network has no automatic paths (overlay.paths).")
        return
    titles = ("branches", "demand Mbit/s ", "paths carry ", "best ", "paths")
    rows = [
        (
            "-".join(pair["branches"]),
            *(_mbit(pair[key]) for key in ("demanded", "carries", "best")),
            " ".join(dict.fromkeys(pair["paths"])) or "direct",
        )
        for pair in found["pairs"]
    ]
    output.show(output.table(titles, rows))
    if found["tunnels"]:
        output.line("")
        _show_tunnels(found["tunnels"])
    for text in (found["waiting"], found["error"]):
        if text:
            output.line(text)


def _show_tunnels(found: list[dict[str, Any]]) -> None:
    """Show what trains of packets found on tunnels that nothing uses."""
    rows = [
        (
            ">".join(each["ports"]),
            _mbit(each["available"]),
            f"{_mbit(each['low'])} to {_mbit(each['high'])}",
            each["time"],
        )
        for each in found
    ]
    titles = ("idle tunnel, by trains", "available Mbit/s ", "95 % interval", "measured")
    output.show(output.table(titles, rows))


def _mbit(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e6:.3g}"
