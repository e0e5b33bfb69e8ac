"""Routes: alarms, and maintenance windows in which they are not sent."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AwareDatetime, Field

from hawser.controller.alarms import alarm, maintenance
from hawser.controller.alarms.condition import Kind, Level
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchChanger, BranchReader, Shared
from hawser.controller.api.model import (
    NEWEST,
    Answer,
    Before,
    Body,
    Branches,
    Limit,
    Line,
    Number,
)
from hawser.controller.db.tables import Alarm, Maintenance

router = APIRouter(tags=["alarms"])


class AlarmAnswer(Answer):
    """An alarm."""

    number: int
    kind: Kind
    level: Level
    group: str
    """Alarms of one group have one cause, and go into one message."""
    branches: tuple[str, ...]
    detail: str
    figures: dict[str, float]
    raised: datetime
    cleared: datetime | None
    """Null while it is raised."""
    flaps: int
    """How often the same alarm was cleared in the hour before it was raised."""
    notified: datetime | None
    """When messages were queued; null while maintenance silences it."""
    acknowledged: datetime | None
    acknowledged_by: str | None
    note: str | None


class AcknowledgeBody(Body):
    """Somebody takes care of an alarm."""

    note: Line = ""


class MaintenanceBody(Body):
    """Maintenance: alarms are listed, but not sent."""

    begin: AwareDatetime | None = None
    """Now if left out."""
    end: AwareDatetime
    branches: Branches = None
    """Whose alarms; all if left out."""
    reason: Line


class MaintenanceAnswer(Answer):
    """A maintenance window."""

    number: int
    begin: datetime
    end: datetime
    branches: tuple[str, ...] | None
    author: str
    reason: str


_State = Annotated[
    Literal["open", "all"], Field(description="Whether cleared ones are listed too.")
]


@router.get("/alarms")
def list_alarms(
    shared: Shared,
    who: BranchReader,
    state: _State = "open",
    before: Before = NEWEST,
    limit: Limit = 50,
) -> list[AlarmAnswer]:
    """List alarms, the newest first."""
    with shared.database.read() as session:
        found = alarm.alarms(session, before, limit, cleared=state == "all")
        return [_alarm(row) for row in found if alarm.is_visible(who, row)]


@router.post("/alarms/{number}/acknowledge", responses=documented(404, 409))
def acknowledge(
    number: Number, body: AcknowledgeBody, shared: Shared, who: BranchChanger
) -> AlarmAnswer:
    """Say that one takes care of an alarm. A higher level withdraws that."""
    with shared.database.write() as session:
        return _alarm(alarm.acknowledge(session, who, shared.clock(), number, body.note))


@router.get("/maintenance")
def list_windows(
    shared: Shared, _who: BranchReader, before: Before = NEWEST, limit: Limit = 50
) -> list[MaintenanceAnswer]:
    """List maintenance windows, the newest first."""
    with shared.database.read() as session:
        return [_window(row) for row in maintenance.windows(session, before, limit)]


@router.post("/maintenance", responses=documented(409))
def add_window(body: MaintenanceBody, shared: Shared, who: BranchChanger) -> MaintenanceAnswer:
    """Announce maintenance. Alarms that are still there when it ends are sent then."""
    now = shared.clock()
    span = body.begin or now, body.end
    with shared.database.write() as session:
        return _window(maintenance.add(session, who, now, span, body.branches, body.reason))


@router.delete("/maintenance/{number}", status_code=204, responses=documented(404, 409))
def end_window(number: Number, shared: Shared, who: BranchChanger) -> None:
    """End maintenance now."""
    with shared.database.write() as session:
        maintenance.end(session, who, shared.clock(), number)


def _alarm(row: Alarm) -> AlarmAnswer:
    return AlarmAnswer.model_validate(row, from_attributes=True)


def _window(row: Maintenance) -> MaintenanceAnswer:
    return MaintenanceAnswer.model_validate(row, from_attributes=True)
