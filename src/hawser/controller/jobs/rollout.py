"""Roll-outs that go on by themselves: what is observed of gateways is judged once a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from hawser.controller.access.principal import system
from hawser.controller.db.database import Database
from hawser.controller.db.tables import Observation
from hawser.controller.jobs.watch import Plan
from hawser.controller.policy import rollout
from hawser.controller.policy.judgement import Judgement, Member, Verdict, judge
from hawser.controller.policy.sync import sync
from hawser.controller.telemetry.observation import is_connected, observations, observed
from hawser.spec.pair import branch_of


def reached(session: Session, approved: Mapping[int, str], now: datetime) -> dict[str, list[str]]:
    """Give the branches that each connected gateway reaches, by its branch."""
    return {
        approved[row.gateway]: sorted(_reaches(row) or ())
        for row in observations(session)
        if row.gateway in approved and is_connected(row, now)
    }


RECONNECT = timedelta(seconds=15)
"""How long gateways take to connect to a controller that has started."""


def advance(database: Database, plan: Plan, began: datetime, now: datetime) -> bool:
    """Judge the roll-out that is running, if any; tell whether that changed anything.

    Several controllers may do so at once: what one has changed meanwhile, another leaves alone.

    Args:
        database: of the controller.
        plan: what gateways should have, and what they have.
        began: when this controller started; who is not connected right after that is not lost.
        now: the time.
    """
    if plan.rollout is None:
        return False
    with database.read() as session:
        found = rollout.running(session)
        if found is None or (found.number, found.stage) != plan.rollout[:2]:
            return False
        stage, names = rollout.stage_of(found), rollout.moved(found)
        lately = replace(stage, since=max(stage.since, began))
        judgement = judge(lately, _members(session, plan, names, began, now), now)
    if not _is_news(judgement, stage.settled, stage.ailing):
        return False
    with database.write() as session:
        again = rollout.running(session)
        if again is None or (again.number, again.stage) != plan.rollout[:2]:
            return False
        who = system(f"roll-out {again.number}")
        rollout.follow(session, who, now, again, judgement)
    return judgement.verdict is not Verdict.WAIT


def _is_news(
    found: Judgement, settled: datetime | None, ailing: Mapping[str, datetime] | None
) -> bool:
    remembered = (settled, dict(ailing or {}))
    return found.verdict is not Verdict.WAIT or (found.settled, found.ailing or {}) != remembered


def _members(
    session: Session, plan: Plan, moved: frozenset[str], began: datetime, now: datetime
) -> list[Member]:
    early = now - began < RECONNECT
    rows = {row.gateway: row for row in observations(session)}
    return [
        Member(
            branch=branch,
            connected=early or is_connected(rows[number], now),
            sync=sync(plan.desired.get(branch), observed(rows[number], now), now),
            reaches=_reaches(rows[number]),
            detail=rows[number].detail,
        )
        for number, branch in plan.approved.items()
        if branch_of(branch) in moved
    ]


def _reaches(row: Observation) -> frozenset[str] | None:
    """Give whom a gateway reaches; None where it has not said so since it connected."""
    if row.peers is None:
        return None
    return frozenset(name for name, up in row.peers.items() if up)
