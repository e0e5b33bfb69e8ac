"""Judging a stage of a roll-out: go on, wait, or return to the version before. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from hawser.controller.policy.sync import Sync

GRACE = timedelta(seconds=5)
"""How long a gateway may be without controller or peers: a daemon that starts anew needs some 2 s,
and a connection is made again within 5 s."""
PATIENCE = timedelta(seconds=45)
"""How long the gateways of a stage may take to keep their configurations. A gateway gives one up
after 15 s."""


@dataclass(frozen=True)
class Member:
    """A gateway that has moved to the new version."""

    branch: str
    connected: bool
    """Whether it is connected to a controller."""
    sync: Sync
    reaches: frozenset[str] | None
    """Branches that packets reach from it; None where that is not known."""
    detail: str | None = None
    """What became of its configuration, if that failed."""


@dataclass(frozen=True)
class Stage:
    """What is known of a roll-out since its stage began."""

    since: datetime
    """When it began."""
    observe: timedelta
    """How long all gateways have to be well."""
    reached: Mapping[str, frozenset[str]]
    """Branches that each gateway reached when the roll-out began; those that were connected."""
    settled: datetime | None = None
    ailing: Mapping[str, datetime] | None = None
    """When each gateway that is not well was first seen so."""


class Verdict(Enum):
    """What to do."""

    WAIT = auto()
    NEXT = auto()
    RETURN = auto()


@dataclass(frozen=True)
class Judgement:
    """A verdict, and what has to be remembered for the next one."""

    verdict: Verdict
    reason: str = ""
    settled: datetime | None = None
    ailing: Mapping[str, datetime] | None = None


def judge(stage: Stage, members: Sequence[Member], now: datetime) -> Judgement:
    """Judge a stage.

    Gateways that were not connected when the roll-out began are judged only by what they report:
    they may be away for reasons of their own.
    """
    for each in members:
        if each.sync in (Sync.FAILED, Sync.WAITING):
            return _give_up(each, each.detail or "did not keep its configuration")
    lacks = {each.branch: lack for each in members if (lack := _lack(stage, each, members))}
    ailing = {branch: (stage.ailing or {}).get(branch, now) for branch in lacks}
    for each in members:
        if each.branch in ailing and now - ailing[each.branch] >= GRACE:
            return _give_up(each, lacks[each.branch])
    late = [each for each in members if each.sync is Sync.APPLYING]
    if late or ailing:
        if late and now - stage.since >= PATIENCE:
            reason = f"did not keep its configuration within {PATIENCE.total_seconds():g} s"
            return _give_up(late[0], reason)
        return Judgement(Verdict.WAIT, ailing=ailing)
    settled = stage.settled or now
    verdict = Verdict.NEXT if now - settled >= stage.observe else Verdict.WAIT
    return Judgement(verdict, settled=settled, ailing={})


def _give_up(member: Member, reason: str) -> Judgement:
    return Judgement(Verdict.RETURN, reason=f"{member.branch}: {reason}")


def _lack(stage: Stage, member: Member, members: Sequence[Member]) -> str:
    """Say what a gateway has lost since the roll-out began; empty if nothing."""
    before = stage.reached.get(member.branch)
    if before is None:
        return ""
    if not member.connected:
        return "lost the controller"
    expected = before - {each.branch for each in members if not each.connected}
    if expected and member.reaches is not None and not expected & member.reaches:
        return f"reaches none of {', '.join(sorted(expected))} any more"
    return ""
