"""`hawser import`: workflow files of others."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hawser.cli import options, output


class Format(StrEnum):
    """Whose files."""

    SFCPERF = "sfcperf"
    TOSCA = "tosca"


def import_(
    kind: Annotated[
        Format, typer.Argument(metavar="FORMAT", help="Whose files: sfcperf or tosca.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The file; of tosca all descriptors and graphs."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to; standard output if not given."
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Make a workflow file of others', and say what could not be carried over.

    sfcperf: a workflow of SFCPerf. tosca: descriptors of network functions (VNFD) and of forwarding
    graphs (VNFFG), as Tacker reads them. No user, password or address of a connection is carried. A
    file that names a Python module of its own is refused.
    """
    from hawser.engine.source import imported

    found = imported(kind.value, files)
    if out is not None:
        with out.open("x", encoding="utf-8") as stream:
            stream.write(found.text)
    if as_json:
        output.document({"format": kind.value, "workflow": found.text, "left": list(found.left)})
        return
    if out is None:
        output.raw(found.text)
    output.say("Not carried over, or otherwise than it was:")
    for each in found.left:
        output.say(f"  {each}")
