"""`hawser import`: conversion of other tools' files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hawser.cli import options, output


class Format(StrEnum):
    """Format of the files."""

    SFCPERF = "sfcperf"
    TOSCA = "tosca"


def import_(
    kind: Annotated[
        Format, typer.Argument(metavar="FORMAT", help="Format of the files: sfcperf or tosca.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="The file; for tosca all descriptors and forwarding graphs."
        ),
    ],
    out: options.OutputOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Convert another tool's files into a workflow, and list what could not be converted.

    sfcperf: a workflow of SFCPerf. tosca: descriptors of network functions (VNFD) and forwarding
    graphs (VNFFG), as Tacker reads them. Users, passwords and addresses of connections are left
    out. A file that names a Python module of its own is refused.
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
    output.say("Not converted, or converted differently:")
    for each in found.left:
        output.say(f"  {each}")
