"""`hawser controller audit`: the audit log exported, and its hash chain checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawser.cli import files, options, output, remote

if TYPE_CHECKING:
    from hawser.control.https import ApiClient

app = typer.Typer(
    name="audit",
    help="Export the audit log, and check that nothing in it was changed.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_PAGE = 20
"""Entries of a request. A change of a large network has hundreds of kilobytes."""


@app.command("export")
def export(
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    file: options.OutputOption = None,
) -> None:
    """Write the whole audit log, one JSON document a line, as `verify` takes it."""
    entries = _entries(remote.client(url, authority))
    if file is None:
        sys.stdout.writelines(map(_line, entries))
        return
    with files.writing(file) as opened:
        opened.writelines(map(_line, entries))


@app.command("verify")
def verify(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="An exported log; else that of the controller."),
    ] = None,
    url: remote.UrlOption = remote.URL,
    authority: remote.AuthorityOption = None,
    anchor: Annotated[
        str | None,
        typer.Option(
            "--hash",
            metavar="HASH",
            help="A hash that was noted earlier. Its entry has to be there still.",
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compute all hashes anew, here. Exit code 1: an entry was changed, removed or inserted."""
    from hawser.controller.access.chain import check

    if file is None:
        client = remote.client(url, authority)
        found = check(_entries(client), anchor)
        versions = client.ask("GET", "/v1/audit/check")["altered_version"]
    else:
        found, versions = check(_read(file), anchor), None
    if as_json:
        output.document(vars(found) | {"altered_version": versions})
    elif found.broken is not None:
        output.line(f"Entry {found.broken} is not as it was written.")
    elif not found.anchored:
        output.line(f"No entry has the hash {anchor}: the end of the log was removed or replaced.")
    elif versions is not None:
        output.line(f"Version {versions} of the network is not as it was logged.")
    else:
        output.line(f"{found.entries} entries, all as they were written. Newest: {found.hash}")
    if found.broken is not None or not found.anchored or versions is not None:
        raise typer.Exit(1)


def _entries(client: ApiClient) -> Iterator[dict[str, Any]]:
    after = 0
    while found := client.ask("GET", f"/v1/audit?after={after}&limit={_PAGE}"):
        yield from found
        after = found[-1]["number"]


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def _read(file: Path) -> Iterator[dict[str, Any]]:
    from hawser.engine.errors import InputError

    for number, line in enumerate(files.lines(file), 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError([f"{file}:{number}: expected a line of JSON: {error}"]) from error
        if not isinstance(entry, dict):
            raise InputError([f"{file}:{number}: expected an entry of the audit log"])
        yield entry
