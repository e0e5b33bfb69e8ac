"""The command line that all benches share."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType

from rich.console import Console

from harness.bench import Bench, Peer
from harness.docs import DocsError, check_page, renew, section
from harness.lab import sweep
from harness.machine import ROOT, describe
from harness.obtain import UnavailableError
from harness.result import Result, rows
from harness.run import Outcome, Patience, run
from harness.table import show
from hawser.node.turn import TurnError, Turns

_PAGE = ROOT / "docs" / "benchmarks.md"

DONE, CHECK_FAILED, BAD_INPUT, MACHINE_LACKS, INTERRUPTED = 0, 1, 2, 3, 130


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    rounds: int
    seconds: int
    echoes: int
    partial: bool


_FULL = Effort(rounds=5, seconds=5, echoes=200, partial=False)
_QUICK = Effort(rounds=2, seconds=1, echoes=50, partial=True)


def main(
    description: str,
    tools: Sequence[tuple[str, str]],
    peers: Mapping[str, Callable[[Effort], Peer]],
    make: Callable[[Effort, Sequence[Peer]], Bench],
    arguments: Sequence[str] | None = None,
    *,
    seconds: int = 5,
    rounds: int = _FULL.rounds,
    documented: bool = True,
) -> int:
    """Run a bench. Exit code: 0 done, 1 a check failed, 2 bad input, 3 something is missing.

    Args:
        description: what `--help` says first.
        tools: required commands, each with its Debian package.
        peers: name of each peer, and the function that obtains it.
        make: builds the bench from the peers, whether obtained or missing.
        arguments: command line to use instead of the process's own.
        seconds: default length of a transfer.
        rounds: default number of samples per figure.
        documented: whether a full run updates the documentation.
    """
    chosen = _parser(description, list(peers), seconds, rounds).parse_args(arguments)
    console = Console(stderr=True)
    if lacking := _lacking(tools):
        console.print(lacking, markup=False)
        return MACHINE_LACKS
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        sweep()
        effort = _effort(chosen, seconds, rounds)
        effort = replace(effort, partial=effort.partial or not documented)
        wanted = chosen.only or list(peers)
        return _bench(
            chosen,
            effort,
            make(effort, [_obtained(name, peers[name], effort, console) for name in wanted]),
            console,
        )
    except DocsError as error:
        console.print(str(error), markup=False)
        return BAD_INPUT
    except TurnError as error:
        console.print(f"{error}; nothing written", markup=False)
        return MACHINE_LACKS
    except KeyboardInterrupt:
        console.print("interrupted: nothing written, everything removed")
        return INTERRUPTED


def _obtained(
    name: str, obtain: Callable[[Effort], Peer], effort: Effort, console: Console
) -> Peer:
    """The peer, or a placeholder with the reason if it is unavailable."""
    with console.status(f"obtaining {name}"):
        try:
            return obtain(effort)
        except UnavailableError as reason:
            return Peer(name, missing=str(reason))


def _bench(chosen: argparse.Namespace, effort: Effort, bench: Bench, console: Console) -> int:
    if not effort.partial:
        check_page(_PAGE, bench.name)
    outcome = run(
        bench,
        console,
        rounds=effort.rounds,
        seed=chosen.seed,
        patience=Patience(chosen.patience),
        turns=Turns(f"bench {bench.name}"),
    )
    result = _result(bench, outcome, chosen.seed, only=bool(chosen.only))
    show(Console(width=None if sys.stdout.isatty() else 120), bench, result, outcome)
    _write(bench, result, outcome, partial=effort.partial)
    return DONE if all(check.ok for check in result.checks) else CHECK_FAILED


def _result(bench: Bench, outcome: Outcome, seed: int, *, only: bool) -> Result:
    """Rows and checks. With `--only`, checks that need the other peers are left out."""
    checks = bench.checks(outcome.samples)
    software = {peer.name: peer.version for peer in bench.peers if peer.version}
    return Result(
        bench=bench.name,
        machine=describe(software, seed),
        rows=rows(bench, outcome.samples),
        checks=[check for check in checks if check.value is not None or not only],
        figures=list(bench.figures(outcome.samples)),
    )


def _write(bench: Bench, result: Result, outcome: Outcome, *, partial: bool) -> None:
    """Save the result. A partial run does not update the documentation."""
    name = f"{bench.name}-partial" if partial else bench.name
    result.write(ROOT / "target" / "bench" / f"{name}.json")
    if not partial:
        renew(_PAGE, bench.name, section(bench, result, outcome))


def _effort(chosen: argparse.Namespace, seconds: int, rounds: int) -> Effort:
    effort = _QUICK if chosen.quick else replace(_FULL, seconds=seconds, rounds=rounds)
    return replace(
        effort,
        rounds=chosen.rounds or effort.rounds,
        seconds=chosen.seconds or effort.seconds,
        partial=effort.partial or bool(chosen.only) or 0 < (chosen.rounds or 0) < rounds,
    )


def _parser(
    description: str, peers: Sequence[str], seconds: int, rounds: int
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--quick", action="store_true", help="two rounds of one second, for development")
    add("--only", action="append", choices=peers, metavar="PEER", help=f"one of {', '.join(peers)}")
    add("--rounds", type=_positive, metavar="N", help=f"samples of each figure (default {rounds})")
    add("--seconds", type=_positive, metavar="S", help=f"length of a transfer (default {seconds})")
    add("--seed", type=int, default=1, metavar="N", help="of the order of samples (default 1)")
    add(
        "--patience",
        type=float,
        default=120,
        metavar="S",
        help="time in all to wait for a quiet machine and repeat disturbed samples (default 120)",
    )
    parser.epilog = (
        f"With --quick, --only or fewer than {rounds} rounds the result goes to "
        "target/bench/NAME-partial.json and the documentation is left alone."
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _lacking(tools: Sequence[tuple[str, str]]) -> str:
    if os.geteuid() != 0:
        return "a bench needs root: it makes network namespaces"
    missing = [package for command, package in tools if shutil.which(command) is None]
    return f"missing: apt-get install {' '.join(missing)}" if missing else ""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
