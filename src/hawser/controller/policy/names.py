"""DNS names of applications: which are due, and what they resolved to.

A name that does not resolve keeps its last addresses. An address that is in no answer any more is
kept for a while, for connections that began with it and for names whose answers rotate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hawser.controller.db.tables import ResolvedName, Version
from hawser.spec.named import MAX_ADDRESSES

Json = Any

HOLD: Final = timedelta(hours=1)
"""How long an address is kept after the last answer with it."""
LEAST: Final = timedelta(seconds=10)
"""Least time between two queries for a name."""
AGAIN: Final = timedelta(minutes=1)
"""Time to the next query where one has failed, or the controller that asks has ended."""
MOST: Final = timedelta(hours=1)
"""Greatest time between two queries."""
TOGETHER: Final = timedelta(seconds=5)
"""Names that are due within this time are resolved together: gateways get one change for all."""
AT_ONCE: Final = 64
"""Names resolved together."""
_FORGET: Final = timedelta(days=7)
"""How long addresses of a name that no application has are kept, for a rollback."""
_LONGEST_ERROR: Final = 200


@dataclass(frozen=True)
class Answer:
    """What a query gave: addresses, or an error."""

    addresses: tuple[IPv4Address, ...] = ()
    ttl: timedelta = AGAIN
    """For how long the answer may be used."""
    error: str | None = None


def names_in(document: Json) -> frozenset[str]:
    """Give the DNS names of a network's document whose application is of some class."""
    used = {each for policy in document["policy"].values() for each in policy["applications"]}
    return frozenset(
        name
        for application, described in document["applications"].items()
        if application in used
        for name in described["names"]
    )


def names_of_versions(session: Session, numbers: Iterable[int]) -> frozenset[str]:
    """Give the DNS names of some versions of the network."""
    wanted = select(Version.document).where(Version.number.in_(tuple(numbers)))
    return frozenset(name for document in session.scalars(wanted) for name in names_in(document))


def rows(session: Session) -> Sequence[ResolvedName]:
    """Give all names that are known."""
    return session.scalars(select(ResolvedName).order_by(ResolvedName.name)).all()


def resolved(session: Session) -> Mapping[str, tuple[IPv4Address, ...]]:
    """Give the addresses of all names that are known."""
    return {row.name: tuple(map(IPv4Address, row.addresses)) for row in rows(session)}


def newest_number(session: Session) -> int:
    """Give the number of the last change of any name's addresses."""
    return session.scalar(select(func.max(ResolvedName.change))) or 0


def are_due(session: Session, wanted: Collection[str], now: datetime) -> bool:
    """Tell whether some name has to be resolved."""
    known = {row.name: row.next for row in rows(session)}
    return any(known.get(name, now) <= now for name in wanted)


def claim(session: Session, wanted: Collection[str], now: datetime) -> tuple[str, ...]:
    """Give names that have to be resolved, so that no other controller does so at the same time.

    Args:
        session: of `Database.write`.
        wanted: names that applications have.
        now: the time.
    """
    known = {row.name: row for row in rows(session)}
    for row in known.values():
        if row.name not in wanted and row.next < now - _FORGET:
            session.delete(row)
    for name in sorted(wanted - known.keys()):
        known[name] = ResolvedName(name=name, addresses={}, change=0, next=now)
        session.add(known[name])
    due = sorted((row for row in known.values() if row.name in wanted), key=_next)
    found = [row for row in due if row.next <= now + TOGETHER][:AT_ONCE]
    for row in found:
        row.next = now + AGAIN
    session.flush()
    return tuple(row.name for row in found)


def _next(row: ResolvedName) -> tuple[datetime, str]:
    return row.next, row.name


def keep(session: Session, answers: Mapping[str, Answer], now: datetime) -> tuple[str, ...]:
    """Write answers down; give the names whose addresses have changed.

    Args:
        session: of `Database.write`.
        answers: by name.
        now: the time.
    """
    number, changed = newest_number(session) + 1, []
    for row in rows(session):
        answer = answers.get(row.name)
        if answer is None:
            continue
        row.error = answer.error and answer.error[:_LONGEST_ERROR]
        row.next = now + until_next(answer)
        if answer.error is not None:
            continue
        row.resolved, before = now, row.addresses
        row.addresses = _addresses(before, answer.addresses, now)
        if row.addresses.keys() != before.keys():
            row.change = number
            changed.append(row.name)
    return tuple(changed)


def until_next(answer: Answer) -> timedelta:
    """Give the time until the next query for a name."""
    return min(max(answer.ttl, LEAST), MOST)


def _addresses(
    before: Mapping[str, str], answer: Collection[IPv4Address], now: datetime
) -> dict[str, str]:
    """Give the addresses that were seen last."""
    seen = {each: time for each, time in before.items() if _time(time) > now - HOLD}
    answered = {str(each): now.isoformat() for each in answer}
    seen |= answered
    newest = sorted(seen, key=IPv4Address)
    newest.sort(key=lambda each: (_time(seen[each]), each in answered), reverse=True)  # stable
    return {each: seen[each] for each in newest[:MAX_ADDRESSES]}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
