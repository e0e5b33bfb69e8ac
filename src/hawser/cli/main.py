"""The command `hawser` and its subcommands.

Exit codes: 0 success; 1 the run or an assertion failed, or it was interrupted; 2 bad input; 3 the
machine lacks something; 70 an internal error, with the traceback in a file.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from hawser import __version__
from hawser.cli import (
    alarms,
    audit,
    controller,
    doctor,
    examples,
    gateway,
    ids,
    ids_streams,
    importing,
    labs,
    planning,
    reproductions,
    results,
    run,
    runs,
    statistics,
)

app = typer.Typer(
    name="hawser",
    help="Connect branches over several paths, chain service functions, and measure the result.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

EXAMPLES = {
    "run": (
        "hawser run workflows/quickstart.yaml",
        "hawser run FILE --only transport=ipomp --repeat 10 --set settle='2 s'",
        "hawser run --resume runs/quickstart-20260101T120000-1a2b",
        "hawser run workflows/quickstart.yaml --against quickstart-20260101T120000-1a2b",
    ),
    "validate": ("hawser validate workflows/quickstart.yaml", "hawser validate FILE --json"),
    "plan": ("hawser plan workflows/quickstart.yaml", "hawser plan FILE --only ipomp --json"),
    "deploy": (
        "hawser deploy workflows/quickstart.yaml --variant ipomp",
        "hawser deploy FILE --variant environment=baseline --variant scheme=tcp-over-quic",
        "hawser deploy FILE --name lab1 --supervise",
    ),
    "inspect": ("hawser inspect", "hawser inspect quickstart --json"),
    "exec": (
        "hawser exec h1 -- ping -c 3 10.2.0.2",
        "hawser exec quickstart/gw1 -- ip route",
        "hawser exec --trace client -- ping -c 1 10.255.0.10",
    ),
    "destroy": ("hawser destroy quickstart", "hawser destroy --all"),
    "report": (
        "hawser report latest",
        "hawser report latest --format html -o report.html",
        "hawser report runs/quickstart-20260101T120000-1a2b --format json",
        "hawser report latest --export paper",
    ),
    "compare": (
        "hawser compare RUN RUN",
        "hawser compare RUN latest --json",
        "hawser compare tag:new --against tag:old",
    ),
    "query": (
        'hawser query latest "SELECT metric, avg(value) FROM samples GROUP BY metric"',
        'hawser query latest "SELECT * FROM trials WHERE NOT valid" --json',
        'hawser query all "SELECT run, median(value) FROM samples GROUP BY run"',
    ),
    "reproductions": (
        "hawser reproductions docs/runs -o docs/reproductions.md",
        "hawser reproductions mms-table1-20260101T120000-1a2b tag:paper",
    ),
    "runs": (
        "hawser runs",
        "hawser runs --tag baseline --json",
        "hawser runs tag latest baseline",
        "hawser runs note latest 'after the new scheduler'",
        "hawser runs prune --help",
        "hawser runs archive latest",
        "hawser runs archive latest --results -o results/",
    ),
    "import": ("hawser import sfcperf FILE -o workflow.hawser.yaml",),
    "schema": (
        "hawser schema > workflow.schema.json",
        "hawser schema report > report.schema.json",
    ),
    "doctor": ("hawser doctor", "hawser doctor --json"),
}
"""Shown at the end of each subcommand's help."""


def _verb(name: str, function: Callable[..., None], **settings: Any) -> None:  # noqa: ANN401 (click's)
    app.command(name, epilog=_examples(name), **settings)(function)


def _examples(name: str) -> str:
    return examples.epilog(EXAMPLES[name])


_verb("run", run.run)
_verb("validate", planning.validate)
_verb("plan", planning.plan)
_verb("deploy", labs.deploy)
_verb("inspect", labs.inspect)
_verb(
    "exec",
    labs.exec_,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
_verb("destroy", labs.destroy)
_verb("report", results.report)
_verb("compare", results.compare)
_verb("query", results.query)
_verb("reproductions", reproductions.reproductions)
_verb("import", importing.import_)
_verb("schema", doctor.schema)
_verb("doctor", doctor.doctor)
app.add_typer(runs.app, epilog=_examples("runs"))
for _group, _lines in (
    (controller.app, examples.CONTROLLER),
    (audit.app, examples.AUDIT),
    (statistics.app, examples.STATISTICS),
    (alarms.app, examples.ALARMS),
    (gateway.app, examples.GATEWAY),
    (ids.app, examples.IDS),
    (ids_streams.cluster, examples.CLUSTER),
):
    examples.add_to(_group, _lines)
app.add_typer(controller.app)
app.add_typer(gateway.app)
app.add_typer(ids.app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hawser {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Connect branches over several paths, chain service functions, and measure the result."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal's encoding may lack characters
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(given))


def _run(arguments: Sequence[str]) -> int:
    try:
        code = app(arguments, prog_name="hawser", standalone_mode=False)
    except SystemExit as ended:  # the output was closed, or a completion was printed
        return ended.code if isinstance(ended.code, int) else 0
    except BaseException as error:
        _ignore_signals()
        from hawser.cli import failure

        found = failure.explain(error)
        failure.tell(found, as_json=_wants_json(arguments))
        return found.code
    return code if isinstance(code, int) else 0


def _ignore_signals() -> None:
    """A second Ctrl-C must not cut off the message about the first; the process ends anyway."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _wants_json(arguments: Sequence[str]) -> bool:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own
