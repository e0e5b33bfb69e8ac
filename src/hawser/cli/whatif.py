"""`hawser controller whatif`: the plan that another network or more traffic would bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hawser.cli import files, options, output, remote


def whatif(
    patch: Annotated[
        Path | None,
        typer.Option("--patch", metavar="FILE", help="A merge patch of the network, in JSON."),
    ] = None,
    lost: Annotated[
        str | None, typer.Option("--lost", metavar="B1,B2", help="Branches that are gone.")
    ] = None,
    traffic: Annotated[
        float, typer.Option("--traffic", min=0.001, max=1000, help="Today's demand times this.")
    ] = 1.0,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show the plan that a new port, a lost branch or more traffic would bring. Changes nothing."""
    body: dict[str, Any] = {"traffic": traffic}
    if patch is not None:
        body["patch"] = _document(patch)
    if lost is not None:
        body["lost"] = lost.split(",")
    found = remote.client(url, authority).ask("POST", "/v1/paths/whatif", body)
    if as_json:
        output.document(found)
        return
    titles = ("branches", "demand Mbit/s ", "paths of now ", "best ", "changed", "best paths")
    output.show(output.table(titles, map(_row, found["pairs"])))
    text = "All pairs: demand {}, paths of now {}, best {} Mbit/s.".format(*_rates(found))
    output.line(text if found["automatic"] else f"{text} The network has manual paths.")


def _row(pair: dict[str, Any]) -> tuple[str, ...]:
    changed = "yes" if pair["changed"] else "no"
    paths = " ".join(dict.fromkeys(pair["paths"]))
    return ("-".join(pair["branches"]), *_rates(pair), changed, paths)


def _rates(found: dict[str, Any]) -> list[str]:
    return [f"{found[key] / 1e6:.3g}" for key in ("demanded", "kept", "best")]


def _document(file: Path) -> Any:  # noqa: ANN401 (JSON)
    from hawser.engine.errors import InputError

    try:
        return json.loads(files.content(file))
    except (ValueError, RecursionError) as error:
        raise InputError([f"{file}: expected JSON: {error}"]) from error
