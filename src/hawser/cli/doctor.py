"""`hawser doctor` and `hawser schema`: capabilities of this machine, and the workflow schema."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.driver.capabilities import Capability
    from hawser.probe.wakeup import Lateness, SelfTest


_SelfTestOption = Annotated[
    float,
    typer.Option(
        "--self-test", metavar="S", min=0, max=600, help="Seconds of the self-test; 0 for none."
    ),
]


def doctor(self_test: _SelfTestOption = 5.0, as_json: options.JsonOption = False) -> None:
    """Show what this machine has, what replaces missing parts, and how to get them.

    Then wakes up every millisecond for five seconds, and says what may be measured here now. Exit
    code 3 if this machine cannot run labs.
    """
    from hawser.cli.failure import LACKING
    from hawser.driver.capabilities import capabilities

    found = (*capabilities(), *_tested(self_test))
    if as_json:
        output.document([one.model_dump() for one in found])
    else:
        columns = ("", "what", "found", "used instead", "how to get it")
        output.show(output.table(columns, map(_row, found)))
    if any(not one.found and one.instead.startswith("nothing") for one in found):
        raise typer.Exit(LACKING)


def _tested(seconds: float) -> tuple[Capability, ...]:
    if not seconds:
        return ()
    from hawser.probe import wakeup

    output.say(f"Measuring for {seconds:g} s how late programs wake up here ...")
    return verdicts(wakeup.self_test(seconds))


def verdicts(test: SelfTest) -> tuple[Capability, ...]:
    """What may be measured here now, by a self-test."""
    from hawser.driver.capabilities import Capability
    from hawser.probe.emulator import LATE_US

    late, usual = test.realtime, test.ordinary
    refused = late.scheduling == "ordinary"
    return (
        Capability(
            name="measure-emulated-paths",
            found=late.p99 <= LATE_US,
            detail=f"real-time programs wake up {_lateness(late)}"
            + (" (real-time priority was refused)" if refused else ""),
            instead="trials whose delays are emulated in user space are void",
            how="root, a cgroup with a real-time share, fewer programs beside it",
        ),
        Capability(
            name="measure-percentiles",
            found=usual.p99 <= LATE_US,
            detail=f"ordinary programs wake up {_lateness(usual)}",
            instead=f"99th percentiles include {usual.p99 / 1000:.1f} ms of waiting to run",
            how="fewer programs beside it, or a kernel with preemption",
        ),
        Capability(
            name="measure-throughput",
            found=not test.load.disturbs,
            detail=str(test.load),
            instead="runs wait up to 60 s before a trial, which then is void",
            how="end other programs, or measure at another time",
        ),
    )


def _lateness(late: Lateness) -> str:
    p50, p99, most = (value / 1000 for value in (late.p50, late.p99, late.max))
    return f"{p50:.2f} ms late (median), {p99:.2f} ms (99 %), {most:.1f} ms (at most)"


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
