"""`hawser doctor` and `hawser schema`: capabilities of this machine, and the workflow schema."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.driver.capabilities import Capability


def doctor(as_json: options.JsonOption = False) -> None:
    """Show what this machine has, what replaces missing parts, and how to get them.

    Exit code 3 if this machine cannot run labs.
    """
    from hawser.cli.failure import LACKING
    from hawser.driver.capabilities import capabilities

    found = capabilities()
    if as_json:
        output.document([one.model_dump() for one in found])
    else:
        columns = ("", "what", "found", "used instead", "how to get it")
        output.show(output.table(columns, map(_row, found)))
    if any(not one.found and one.instead.startswith("nothing") for one in found):
        raise typer.Exit(LACKING)


def _row(one: Capability) -> tuple[str, ...]:
    if one.found:
        return "yes", one.name, one.detail, "", ""
    return "no", one.name, one.detail, one.instead, one.how


class SchemaOf(StrEnum):
    """Documents that have a JSON Schema."""

    WORKFLOW = "workflow"
    REPORT = "report"


def schema(
    document: Annotated[
        SchemaOf, typer.Argument(metavar="[DOCUMENT]", help="workflow (default) or report.")
    ] = SchemaOf.WORKFLOW,
) -> None:
    """Print a JSON Schema: of workflow files, for editors, or of reports in JSON."""
    if document is SchemaOf.REPORT:
        from hawser.report.document import schema as report_schema

        output.document(report_schema())
        return
    from hawser.spec import schema as workflow_schema

    output.document(workflow_schema())
