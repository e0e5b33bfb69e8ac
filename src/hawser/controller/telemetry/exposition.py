"""The newest values of all gateways in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hawser.control.series import KINDS, described
from hawser.controller.telemetry.latest import Statistics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
STALE_S: Final = 15
"""Age in seconds at which values are not shown any more."""
_OWN: Final = {
    "gateway_report_age_seconds": ("gauge", "Age of the newest report"),
    "gateway_reports_lost_total": ("counter", "Reports that were not stored"),
}


def labels_of(branch: str, name: str) -> tuple[str, Mapping[str, str]] | None:
    """Give name and labels of a series for Prometheus; None for one that is not exported."""
    found = described(name)
    if found is None:
        return None
    metric, labels = found
    return f"hawser_{metric.exported}", {"branch": branch, **labels}


class Exposition:
    """Writes values. Heads of lines are kept, because there are many, and they seldom change."""

    def __init__(self) -> None:
        self._heads: dict[str, tuple[Sequence[str], list[tuple[str, str] | None]]] = {}

    def text(self, found: Iterable[Statistics], now: float) -> str:
        """Write the newest reports."""
        lines: dict[str, list[str]] = {}
        for each in found:
            for metric, line in self._lines(each, now):
                lines.setdefault(metric, []).append(line)
        return "".join(
            f"# HELP {metric} {meaning}\n# TYPE {metric} {kind}\n" + "\n".join(lines[metric]) + "\n"
            for metric, kind, meaning in _metrics()
            if metric in lines
        )

    def _lines(self, found: Statistics, now: float) -> Iterator[tuple[str, str]]:
        branch = f'{{branch="{found.branch}"}}'
        age, lost = (f"hawser_{name}" for name in _OWN)
        yield age, f"{age}{branch} {max(0, now - found.time):.0f}"
        yield lost, f"{lost}{branch} {found.lost}"
        if now - found.time > STALE_S:
            return
        for head, value in zip(self._of(found), found.values, strict=True):
            if head is not None and not math.isnan(value):
                yield head[0], f"{head[1]} {value:.7g}"

    def _of(self, found: Statistics) -> list[tuple[str, str] | None]:
        kept = self._heads.get(found.branch)
        if kept is None or kept[0] != found.names:
            kept = (found.names, [_head(found.branch, name) for name in found.names])
            self._heads[found.branch] = kept
        return kept[1]


def _head(branch: str, name: str) -> tuple[str, str] | None:
    found = labels_of(branch, name)
    if found is None:
        return None
    # Neither branches nor names of series contain what would have to be escaped.
    labels = ",".join(f'{key}="{value}"' for key, value in found[1].items())
    return found[0], f"{found[0]}{{{labels}}}"


def _metrics() -> Iterator[tuple[str, str, str]]:
    for kind in KINDS.values():
        for metric in kind.metrics.values():
            yield f"hawser_{metric.exported}", "gauge", metric.meaning
    for name, (type_, meaning) in _OWN.items():
        yield f"hawser_{name}", type_, meaning
