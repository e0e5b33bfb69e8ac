"""Routes: statistics over time, traffic matrix, Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field, StringConstraints

from hawser.control.series import NAME, described
from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchReader, CallerToken, Shared
from hawser.controller.api.model import Answer
from hawser.controller.context import Context
from hawser.controller.errors import NotFound
from hawser.controller.telemetry import query
from hawser.controller.telemetry.exposition import CONTENT_TYPE
from hawser.controller.telemetry.others import merged
from hawser.spec.model import Name

router = APIRouter(tags=["statistics"])

SeriesName = Annotated[str, StringConstraints(pattern=NAME, max_length=200)]
_Points = Annotated[int, Query(ge=1, le=query.MOST_POINTS)]
_Seconds = Annotated[int, Query(ge=1, le=3600)]
_Wanted = Annotated[list[SeriesName], Query(min_length=1, max_length=16)]
_Resolution = Literal["1s", "1min", "1h"]
_Here = Annotated[bool, Query(description="Only what this controller has received itself.")]
_HOUR = 3600
_SECONDS: Mapping[_Resolution, int] = {"1s": 1, "1min": 60, "1h": _HOUR}
_NAMES = {seconds: name for name, seconds in _SECONDS.items()}


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
def list_series(
    branch: Name, shared: Shared, who: BranchReader, token: CallerToken, here: _Here = False
) -> list[SeriesAnswer]:
    """List the series of a branch."""
    _allowed(who, branch)
    found = dict.fromkeys(shared.statistics.series(branch))
    if not here:
        for answer in shared.others.ask("/v1/statistics/series", {"branch": branch}, token):
            found |= dict.fromkeys(each["series"] for each in answer)
    return [_series(branch, name) for name in found]


@router.get("/statistics/history", responses=documented(404))
def read_history(
    branch: Name,
    series: _Wanted,
    shared: Shared,
    who: BranchReader,
    token: CallerToken,
    here: _Here = False,
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
    names = tuple(dict.fromkeys(series))
    found = [_rows(shared, branch, name, (begin, end), chosen) for name in names]
    since, until = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(max(end, 0), UTC)
    if not here:
        asked = {"branch": branch, "series": names, "resolution": _NAMES[chosen]}
        asked |= {"since": since.isoformat(), "until": until.isoformat()}
        answers = shared.others.ask("/v1/statistics/history", asked, token)
        found = [_with(own, answers) for own in found] if answers else found
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


def _with(own: Rows, answers: Sequence[Any]) -> Rows:
    """Add what others have of a series."""
    theirs = [
        Rows.model_validate(each)
        for answer in answers
        for each in answer["series"]
        if each["series"] == own.series
    ]
    rows = merged(
        dict(zip(part.times, zip(part.mean, part.low, part.high, strict=True), strict=True))
        for part in (own, *theirs)
    )
    columns = zip(*rows.values(), strict=True) if rows else ((), (), ())
    mean, low, high = map(list, columns)
    return own.model_copy(update={"times": [*rows], "mean": mean, "low": low, "high": high})


@router.get("/statistics/matrix")
def read_matrix(
    shared: Shared,
    who: BranchReader,
    token: CallerToken,
    seconds: _Seconds = 60,
    here: _Here = False,
) -> MatrixAnswer:
    """Give the traffic between branches in the last seconds, by class."""
    found = dict(query.matrix(shared.statistics, seconds))
    if not here:
        for answer in shared.others.ask("/v1/statistics/matrix", {"seconds": seconds}, token):
            for pair in answer["pairs"]:
                key = pair["sender"], pair["receiver"], pair["class"]
                found[key] = max(found.get(key, 0.0), pair["bps"])
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
