"""What was chosen, and the history of it with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import system
from hawser.controller.db.tables import PathChange, PathGroupRow, Planner
from hawser.optimise.members import route
from hawser.optimise.switching import Change
from hawser.overlay.sdwan.automatic import Choice, placed

_TERM = timedelta(seconds=15)
_HOUR = timedelta(hours=1)


def choice(session: Session) -> Choice:
    """Give the member paths that were chosen, by pair of branches."""
    return {(row.one, row.other): tuple(row.paths) for row in session.scalars(select(PathGroupRow))}


def newest_number(session: Session) -> int:
    """Give the number of the last change."""
    return session.scalar(select(func.max(PathChange.number))) or 0


def changes(
    session: Session, before: int, limit: int, pair: tuple[str, str] | None = None
) -> Sequence[PathChange]:
    """Give changes with lower numbers than one, the newest first."""
    wanted = select(PathChange).where(PathChange.number < before)
    if pair is not None:
        wanted = wanted.where(PathChange.one == min(pair), PathChange.other == max(pair))
    return session.scalars(wanted.order_by(PathChange.number.desc()).limit(limit)).all()


def of_last_hour(session: Session, now: datetime) -> Mapping[tuple[str, str], list[datetime]]:
    """Give when groups were replaced in the last hour, by pair of branches."""
    found: dict[tuple[str, str], list[datetime]] = {}
    wanted = select(PathChange).where(PathChange.time > now - _HOUR).order_by(PathChange.number)
    for row in session.scalars(wanted):
        found.setdefault((row.one, row.other), []).append(row.time)
    return found


def install(
    session: Session, now: datetime, found: Iterable[Change], places: Choice
) -> tuple[PathChange, ...]:
    """Replace groups.

    Args:
        session: of `Database.write`.
        now: the time.
        found: the changes.
        places: member paths of the groups in force, in their places.
    """
    first, who = newest_number(session) + 1, system("paths")
    made = []
    for number, each in enumerate(found, first):
        one, other = each.pair
        before = places.get(each.pair, ())
        paths = list(placed(before, [route(way) for way in each.after]))
        session.merge(PathGroupRow(one=one, other=other, paths=paths))
        row = PathChange(
            number=number,
            time=now,
            one=one,
            other=other,
            before=list(before),
            after=paths,
            reason=each.reason,
            figures=figures(each),
        )
        session.add(row)
        made.append(row)
        after = {"paths": paths, "reason": each.reason}
        audit.record(
            session,
            who,
            now,
            "paths.change",
            f"{one}-{other}",
            before={"paths": list(before)},
            after=after,
        )
    session.flush()
    return tuple(made)


def figures(change: Change) -> dict[str, float]:
    """Give the figures behind a change: bit/s, and seconds."""
    return {
        "demanded_bps": change.demanded,
        "carries_bps": change.carries,
        "will_carry_bps": change.will_carry,
        "all_carry_bps": change.all_carry,
        "all_will_carry_bps": change.all_will_carry,
        "held_s": change.held_s,
    }


def is_planner(session: Session, instance: str, now: datetime) -> bool | None:
    """Tell whether this controller chooses paths; None where its term ends, or that of nobody."""
    row = session.get(Planner, 1)
    if row is None or (row.instance == instance and row.until < now + _TERM / 2):
        return None
    return row.instance == instance if row.until > now else None


def may_plan(session: Session, instance: str, now: datetime) -> bool:
    """Become, or stay, the controller that chooses paths; False where another one does.

    Args:
        session: of `Database.write`.
        instance: this controller.
        now: the time.
    """
    row = session.get(Planner, 1)
    if row is None:
        session.add(Planner(id=1, instance=instance, until=now + _TERM))
        return True
    if row.instance != instance and row.until > now:
        return False
    row.instance, row.until = instance, now + _TERM
    return True
