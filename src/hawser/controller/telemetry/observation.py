"""Writing down what is observed of gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from hawser.control.link import Hello, Outcome
from hawser.controller.db.tables import Observation
from hawser.controller.policy.sync import Observed

SEEN_EVERY = timedelta(seconds=5)
"""How often the time of a connected gateway is written."""
_GONE_AFTER = timedelta(seconds=30)
"""A gateway not seen for so long is not connected, whatever a controller that died has written."""
_FIRST_RETRY = timedelta(seconds=10)
_MOST_FAILURES = 4
"""After so many returns from the same configuration an operator has to look at it."""


def observations(session: Session) -> Sequence[Observation]:
    """Give the observations of all gateways."""
    return session.scalars(select(Observation).order_by(Observation.gateway)).all()


def is_connected(observation: Observation, now: datetime) -> bool:
    """Tell whether a gateway is connected to some controller."""
    return _is_connected(observation.connected, observation.seen, now)


def _is_connected(connected: datetime | None, seen: datetime | None, now: datetime) -> bool:
    return connected is not None and seen is not None and now - seen < _GONE_AFTER


def all_observed(session: Session, now: datetime) -> dict[int, Observed]:
    """Give what is known of the configurations of all gateways, by their numbers."""
    row = Observation
    columns = (row.gateway, row.connected, row.seen, row.applied, row.failed, row.retry)
    return {
        gateway: Observed(_is_connected(connected, seen, now), applied, failed, retry)
        for gateway, connected, seen, applied, failed, retry in session.execute(select(*columns))
    }


def observed(observation: Observation, now: datetime) -> Observed:
    """Give what an observation says of a gateway's configuration."""
    return Observed(
        connected=is_connected(observation, now),
        applied=observation.applied,
        failed=observation.failed,
        retry=observation.retry,
    )


def connected(session: Session, gateway: int, controller: str, hello: Hello, now: datetime) -> None:
    """Note that a gateway has connected."""
    row = session.get_one(Observation, gateway)
    row.connected = row.seen = now
    row.controller, row.software = controller, hello.software
    row.clock_offset_s = round(hello.time - now.timestamp(), 3)
    row.capabilities = list(hello.capabilities)
    row.applied, row.applied_version = hello.applied, hello.applied_version


def disconnected(session: Session, gateway: int, controller: str, now: datetime) -> None:
    """Note that a connection has ended, unless there is another one since."""
    row = session.get_one(Observation, gateway)
    if row.controller == controller:
        row.connected, row.controller, row.peers, row.seen = None, None, None, now


def reaches(
    session: Session, gateway: int, controller: str, peers: Mapping[str, bool], now: datetime
) -> None:
    """Note whom a connected gateway reaches."""
    row = session.get_one(Observation, gateway)
    if row.controller == controller:
        row.seen, row.peers = now, dict(peers)


def seen(session: Session, instance: str, now: datetime) -> None:
    """Note that all gateways that are connected to a controller's process still are."""
    mine = Observation.controller.startswith(f"{instance}/", autoescape=True)
    session.execute(update(Observation).where(mine).values(seen=now))


def outcome(session: Session, gateway: int, found: Outcome, now: datetime) -> None:
    """Note what became of a configuration."""
    row = session.get_one(Observation, gateway)
    row.seen = now
    if found.result == "kept":
        row.applied, row.applied_version = found.digest, found.version
        row.failed, row.failures, row.outcome, row.detail, row.retry = None, 0, None, None, None
        return
    row.failures = row.failures + 1 if row.failed == found.digest else 1
    row.failed, row.outcome, row.detail = found.digest, found.result, found.detail
    again = found.result == "returned" and row.failures < _MOST_FAILURES
    row.retry = now + _FIRST_RETRY * 2 ** (row.failures - 1) if again else None


def retry(session: Session, gateway: int, now: datetime) -> None:
    """Have a configuration tried again that failed."""
    row = session.get_one(Observation, gateway)
    row.retry, row.failures = now, 0
