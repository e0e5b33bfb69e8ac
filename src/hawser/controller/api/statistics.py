"""Routes: statistics over time, traffic matrix, Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field, StringConstraints

from hawser.control.series import NAME, described
from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchReader, Shared
from hawser.controller.api.model import Answer
from hawser.controller.context import Context
from hawser.controller.errors import NotFound
from hawser.controller.telemetry import query
from hawser.controller.telemetry.exposition import CONTENT_TYPE
from hawser.spec.model import Name

router = APIRouter(tags=["statistics"])

SeriesName = Annotated[str, StringConstraints(pattern=NAME, max_length=200)]
_Points = Annotated[int, Query(ge=1, le=query.MOST_POINTS)]
_Seconds = Annotated[int, Query(ge=1, le=3600)]
_Wanted = Annotated[list[SeriesName], Query(min_length=1, max_length=16)]
_Resolution = Literal["1s", "1min", "1h"]
_HOUR = 3600
_SECONDS: Mapping[_Resolution, int] = {"1s": 1, "1min": 60, "1h": _HOUR}


class SeriesAnswer(Answer):
    """A series that a branch reports or has reported in the last hour."""

    branch: str
    series: str
    unit: str
    """Empty for a ratio."""
    meaning: str
    labels: dict[str, str]


class Rows(Answer):
    """A series over time: four lists of the same length."""

    series: str
    unit: str
    times: list[int]
    """When each row begins, seconds since 1970. Rows without values are left out."""
    mean: list[float]
    low: list[float]
    high: list[float]


class HistoryAnswer(Answer):
    """Series of a branch over time."""

    branch: str
    resolution: int
    """Seconds of a row."""
    since: datetime
    until: datetime
    series: list[Rows]


class PairRate(Answer):
    """Traffic from one branch to another."""

    sender: str
    receiver: str
    traffic: Annotated[str, Field(alias="class")]
    bps: float
    """Mean rate of inner packets, bit/s."""


class MatrixAnswer(Answer):
    """Traffic between all pairs of branches that have any."""

    seconds: int
    pairs: list[PairRate]


@router.get("/statistics/series", responses=documented(404))
def list_series(branch: Name, shared: Shared, who: BranchReader) -> list[SeriesAnswer]:
    """List the series of a branch."""
    _allowed(who, branch)
    return [_series(branch, name) for name in shared.statistics.series(branch)]


@router.get("/statistics/history", responses=documented(404))
def read_history(
    branch: Name,
    series: _Wanted,
    shared: Shared,
    who: BranchReader,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    points: _Points = 500,
    resolution: _Resolution | None = None,
) -> HistoryAnswer:
    """Give series of a branch over time: by default the last hour, in at most 500 rows."""
    _allowed(who, branch)
    store = shared.statistics
    now = store.now()
    end = int(until.timestamp()) if until else now + 1  # this second counts
    begin = int(since.timestamp()) if since else end - _HOUR
    chosen = _SECONDS[resolution] if resolution else query.resolution_for(begin, end, now, points)
    begin, end = query.checked(begin, end, now, chosen)
    found = [_rows(shared, branch, name, (begin, end), chosen) for name in dict.fromkeys(series)]
    since, until = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(max(end, 0), UTC)
    return HistoryAnswer(branch=branch, resolution=chosen, since=since, until=until, series=found)


def _rows(shared: Context, branch: str, name: str, span: tuple[int, int], resolution: int) -> Rows:
    found = shared.statistics.history(branch, name, *span, resolution)
    known = described(name)
    mean, low, high = (
        [float(f"{value:.7g}") for value in each.tolist()]
        for each in (found.mean, found.low, found.high)
    )
    unit = known[0].unit if known else ""
    return Rows(series=name, unit=unit, times=found.times.tolist(), mean=mean, low=low, high=high)


@router.get("/statistics/matrix")
def read_matrix(shared: Shared, who: BranchReader, seconds: _Seconds = 60) -> MatrixAnswer:
    """Give the traffic between branches in the last seconds, by class."""
    found = query.matrix(shared.statistics, seconds)
    pairs = [
        PairRate.model_validate(
            {"sender": sender, "receiver": receiver, "class": kind, "bps": float(f"{rate:.7g}")}
        )
        for (sender, receiver, kind), rate in sorted(found.items())
        if rate > 0 and who.has(sender)
    ]
    return MatrixAnswer(seconds=seconds, pairs=pairs)


_TEXT = {"text/plain": {"schema": {"type": "string"}}}


@router.get("/metrics", response_class=Response, responses={200: {"content": _TEXT}})
def metrics(shared: Shared, who: BranchReader) -> Response:
    """Give the newest values in the text format of Prometheus."""
    found = [each for each in shared.latest.all().values() if who.has(each.branch)]
    text = shared.exposition.text(found, shared.clock().timestamp())
    return Response(text, media_type=CONTENT_TYPE)


def _allowed(who: Principal, branch: str) -> None:
    """Refuse branches of others. Those that are no more have a history still."""
    if not who.has(branch):
        raise NotFound(f"there are no statistics of branch {branch}")


def _series(branch: str, name: str) -> SeriesAnswer:
    found = described(name)
    if found is None:  # of a newer gateway
        return SeriesAnswer(branch=branch, series=name, unit="", meaning="", labels={})
    metric, labels = found
    return SeriesAnswer(
        branch=branch, series=name, unit=metric.unit, meaning=metric.meaning, labels=dict(labels)
    )
