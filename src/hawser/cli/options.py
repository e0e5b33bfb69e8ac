"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RUNS = Path("runs")
"""Where runs go, and are looked for, unless told otherwise."""


def _runs(incomplete: str) -> list[str]:
    found = [path.name for path in RUNS.glob("*/") if not path.name.startswith(".")]
    return [name for name in ("latest", *sorted(found)) if name.startswith(incomplete)]


def _labs(incomplete: str) -> list[str]:
    from hawser import driver

    return [name for name in driver.choose().labs() if name.startswith(incomplete)]


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Workflow file.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B.C=VALUE",
        help="Give a field another value, as YAML; may be repeated. Wins over every variant.",
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="VARIANT",
        help="Only variants with this label: VALUE or AXIS=VALUE, alternatives with commas. "
        "Repeated, all must hold.",
    ),
]
RepeatOption = Annotated[
    int | None, typer.Option("--repeat", metavar="N", help="Trials of each variant.")
]
DurationOption = Annotated[
    str | None,
    typer.Option(
        "--duration", metavar="S", help="Duration of every timed measurement, seconds or `2 min`."
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's folder, its id, or `latest`.",
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
    typer.Option(
        "--json", metavar="", help="Print one JSON document on standard output, nothing else."
    ),
]
