"""Questions about statistics over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hawser.controller.errors import Invalid
from hawser.spec.validate import Issue
from hawser.store.statistics.store import RESOLUTIONS, StatisticsStore

MOST_POINTS: Final = 20_000
"""Rows of one series in an answer."""
REACH: Final = {1: 3600, 60: 31 * 86400, 3600: 731 * 86400}
"""Seconds for which rows of each resolution are kept."""


def resolution_for(begin: int, end: int, now: int, points: int) -> int:
    """Choose the finest resolution that reaches back and gives no more than so many rows.

    Args:
        begin: seconds since 1970.
        end: seconds since 1970.
        now: seconds since 1970.
        points: rows wanted at most; if the coarsest gives more, that is taken all the same.
    """
    for resolution in RESOLUTIONS[:-1]:
        if end - begin <= points * resolution and now - begin <= REACH[resolution]:
            return resolution
    return RESOLUTIONS[-1]


def checked(begin: int, end: int, now: int, resolution: int) -> tuple[int, int]:
    """Give the part of a range for which there are rows.

    Raises:
        Invalid: the range is none, or has too many rows.
    """
    if end <= begin:
        raise Invalid([Issue(("query", "until"), "found a time before `since`")])
    begin, end = max(begin, now - REACH[resolution]), min(end, now + 60)
    if end - begin > MOST_POINTS * resolution:
        message = f"found {(end - begin) // resolution} rows, expected at most {MOST_POINTS}"
        raise Invalid([Issue(("query", "resolution"), message)])
    return begin, max(begin, end)


def matrix(store: StatisticsStore, seconds: int) -> Mapping[tuple[str, str, str], float]:
    """Give mean rates in bit/s between branches, by sender, receiver and class.

    Args:
        store: the statistics.
        seconds: how many of the last ones count.
    """
    end = store.now() - 1
    found = store.means(end - seconds, end, _is_sent)
    rates = {}
    for (branch, name), rate in found.items():
        _, peer, kind, _ = name.split("/")
        rates[branch, peer, kind] = rate
    return rates


def _is_sent(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == "class" and parts[-1] == "sent" and len(parts) == 4
