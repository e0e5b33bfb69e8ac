"""Arguments and options of several subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RUNS = Path("runs")
"""Default folder of runs."""


def _runs(incomplete: str) -> list[str]:
    found = [path.name for path in RUNS.glob("*/") if not path.name.startswith(".")]
    return [name for name in ("latest", *sorted(found)) if name.startswith(incomplete)]


def several_runs(incomplete: str) -> list[str]:
    """Arguments that name one or several runs."""
    return [name for name in ("all", *_runs("")) if name.startswith(incomplete)]


def _labs(incomplete: str) -> list[str]:
    from hawser import driver

    return [name for name in driver.choose().labs() if name.startswith(incomplete)]


OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Output file. Default: standard output."),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Workflow file.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B.C=VALUE",
        help="Set a field of the workflow to a YAML value, in all variants. May be repeated.",
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="VARIANT",
        help="Only variants with this label: VALUE or AXIS=VALUE, alternatives with commas. "
        "If repeated, all must match.",
    ),
]
RepeatOption = Annotated[
    int | None, typer.Option("--repeat", metavar="N", help="Trials of each variant.")
]
DurationOption = Annotated[
    str | None,
    typer.Option(
        "--duration",
        metavar="S",
        help="Duration of every timed measurement, in seconds or with a unit such as `2 min`.",
    ),
]
RatesOption = Annotated[
    float,
    typer.Option(
        "--rates",
        metavar="FACTOR",
        help="Multiply all rates, and bounds in Mbit/s, such as by 1.2: does the result's shape"
        " depend on them?",
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Folder or id of a run, or `latest`.",
        autocompletion=_runs,
    ),
]
RunsOption = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Folder of all runs.")]
LabArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="Name of a lab.", autocompletion=_labs, show_default=False
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", metavar="", help="Print a single JSON document on standard output."),
]
