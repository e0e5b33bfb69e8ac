"""Removes runs that nobody wants to keep."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from hawser.store import files
from hawser.store.errors import BundleError
from hawser.store.lock import Lock
from hawser.store.runs import RunInfo

KEPT_STATES = ("running", "damaged")
"""A running one is in use; a damaged one may have data that somebody can rescue."""


def prunable(
    listed: Sequence[RunInfo],
    now: datetime,
    *,
    days: float | None = None,
    keep: int | None = None,
    states: Sequence[str] = (),
) -> tuple[RunInfo, ...]:
    """Choose the runs to remove: those that meet every criterion given.

    Runs with tags or notes are kept, and running and damaged ones.

    Args:
        listed: all runs, newest first.
        now: the time.
        days: older than this.
        keep: not among so many newest ones of their workflow, kept ones included.
        states: in one of these states, such as `incomplete`.
    """
    newer: Counter[str] = Counter()
    found = []
    for run in listed:
        rank = newer[run.workflow]
        newer[run.workflow] += 1
        old = run.started is not None and now - run.started > timedelta(days=days or 0)
        if (
            not run.tags
            and not run.notes
            and run.state not in KEPT_STATES
            and (days is None or old)
            and (keep is None or rank >= keep)
            and (not states or run.state in states)
        ):
            found.append(run)
    return tuple(found)


def remove(run: Path) -> None:
    """Remove a run's folder. A crash leaves it whole, or a hidden remainder that is no run.

    Raises:
        BundleError: it is being written, or cannot be removed.
    """
    lock = Lock(run)  # fails while somebody writes it
    try:
        hidden = run.with_name(files.TEMPORARY + run.name)
        shutil.rmtree(hidden, ignore_errors=True)
        run.rename(hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        raise BundleError(run, error.strerror or str(error)) from error
    finally:
        lock.release()
