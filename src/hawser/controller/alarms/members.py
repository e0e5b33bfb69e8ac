"""What is wrong with gateways as such: connection, certificate, clock, version. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hawser.controller.alarms.condition import Condition, Kind, Level
from hawser.spec.pair import branch_of

_CLOCK_S: Final = 5.0
"""As `telemetry.compatibility` warns of."""
_CLOCK_CRITICAL_S: Final = 1800.0
"""Half of the hour of tolerance that certificates have."""
_LAST_SHARE: Final = 6
"""Certificates are renewed after two thirds of their lifetime; the alarm is for the last sixth."""
_LAST_DAY: Final = timedelta(days=1)
_AUTHORITY: Final = timedelta(days=60)
"""Before the end of the controller's own certificates."""


@dataclass(frozen=True)
class Member:
    """An approved gateway, as it was last known."""

    number: int
    branch: str
    connected: bool
    seen: datetime | None
    software: str | None
    clock_offset_s: float | None
    """By how many seconds its clock was ahead when it connected."""
    certificate: tuple[datetime, datetime] | None
    """When its newest certificate was issued, and when it expires."""


def member_conditions(
    now: datetime, ours: str, members: Iterable[Member], own: Mapping[str, datetime]
) -> Iterator[Condition]:
    """Give what is wrong.

    Args:
        now: the time.
        ours: version of the controller's program.
        members: approved gateways.
        own: when certificates of the controller end, by what they are called.
    """
    for each in members:
        for found in (_silent(each), _ends(each, now), _clock(each), _version(each, ours)):
            if found is not None:
                yield found
    for name, end in own.items():
        if end - now <= _AUTHORITY:
            level = Level.CRITICAL if end - now <= _LAST_DAY else Level.WARNING
            detail = f"the certificate of the controller's {name} {_end(end, now)}"
            yield Condition(Kind.CERTIFICATE_ENDS, name, level, (), "controller", detail)


def _condition(
    member: Member, kind: Kind, level: Level, text: str, figures: Mapping[str, float] | None = None
) -> Condition:
    detail = f"gateway {member.number} of {member.branch}: {text}"
    branch = member.branch
    of = (branch_of(branch),)
    return Condition(kind, branch, level, of, branch, detail, figures or {})


def _silent(member: Member) -> Condition | None:
    if member.connected:
        return None
    text = "it has never connected"
    if member.seen is not None:
        text = f"not connected; last seen {member.seen:%Y-%m-%d %H:%M:%S} UTC"
    return _condition(member, Kind.GATEWAY_SILENT, Level.CRITICAL, text)


def _ends(member: Member, now: datetime) -> Condition | None:
    if member.certificate is None:
        return None
    issued, end = member.certificate
    if end - now > (end - issued) / _LAST_SHARE:
        return None
    level = Level.CRITICAL if end - now <= _LAST_DAY else Level.WARNING
    text = f"its certificate {_end(end, now)} and was not renewed"
    left = {"left_s": (end - now).total_seconds()}
    return _condition(member, Kind.CERTIFICATE_ENDS, level, text, left)


def _end(end: datetime, now: datetime) -> str:
    return f"{'ends' if end > now else 'ended'} {end:%Y-%m-%d %H:%M} UTC"


def _clock(member: Member) -> Condition | None:
    offset = member.clock_offset_s
    if offset is None or abs(offset) < _CLOCK_S:
        return None
    level = Level.CRITICAL if abs(offset) >= _CLOCK_CRITICAL_S else Level.WARNING
    side = "ahead" if offset > 0 else "behind"
    text = f"its clock was {abs(offset):.0f} s {side} when it connected"
    return _condition(member, Kind.CLOCK_OFF, level, text, {"offset_s": offset})


def _version(member: Member, ours: str) -> Condition | None:
    if member.software is None or not is_older(member.software, ours):
        return None
    text = f"it runs version {member.software}, the controller {ours}"
    return _condition(member, Kind.VERSION_OLD, Level.INFO, text)


def is_older(version: str, than: str) -> bool:
    """Tell whether a version such as `0.9.1` is older; one that is no such number is not."""
    try:
        one, other = (tuple(map(int, each.split("."))) for each in (version, than))
    except ValueError:
        return False
    return one < other
