"""Routes: staged roll-outs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import Changer, Reader, Shared
from hawser.controller.api.model import Number, ReasonBody, RolloutAnswer, StagedBody
from hawser.controller.db.tables import Rollout, Version
from hawser.controller.errors import Forbidden
from hawser.controller.inventory.gateway import State, gateways, state_of
from hawser.controller.jobs.rollout import reached
from hawser.controller.policy import rollout

router = APIRouter(tags=["network"])


def stage(
    session: Session,
    who: Principal,
    now: datetime,
    made: Version,
    before: Version,
    body: StagedBody | None,
) -> None:
    """Roll a new version out in stages, if that is wanted; in the transaction that adds it.

    Raises:
        Forbidden: the author is limited to some branches: nobody else could change the network
            meanwhile.
        Invalid: it cannot be.
    """
    if body is None:
        return
    if who.branches is not None:
        raise Forbidden("your permission to change is for some branches, which get it at once")
    found = gateways(session)
    approved = {each.id: each.branch for each in found if state_of(each) is State.APPROVED}
    wanted = rollout.Wanted(body.canary, timedelta(seconds=body.observe_s))
    rollout.begin(session, who, now, made, before, wanted, reached(session, approved, now))


@router.get("/rollouts")
def list_rollouts(
    shared: Shared, _who: Reader, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[RolloutAnswer]:
    """List roll-outs, the newest first."""
    with shared.database.read() as session:
        return [_rollout(each) for each in rollout.rollouts(session, limit)]


@router.get("/rollouts/{number}", responses=documented(404))
def read_rollout(number: Number, shared: Shared, _who: Reader) -> RolloutAnswer:
    """Give a roll-out."""
    with shared.database.read() as session:
        return _rollout(rollout.by_number(session, number))


@router.post("/rollouts/{number}/return", responses=documented(404, 409))
def return_rollout(number: Number, body: ReasonBody, shared: Shared, who: Changer) -> RolloutAnswer:
    """Put the version before a running roll-out in force again."""
    with shared.database.write() as session:
        found = rollout.by_number(session, number)
        rollout.give_back(session, who, shared.clock(), found, body.reason)
    shared.changed()
    return _rollout(found)


@router.post("/rollouts/{number}/finish", responses=documented(404, 409))
def finish_rollout(number: Number, shared: Shared, who: Changer) -> RolloutAnswer:
    """Let all gateways have the new version at once; it is not returned from by itself any more."""
    with shared.database.write() as session:
        found = rollout.by_number(session, number)
        rollout.finish(session, who, shared.clock(), found)
    shared.changed()
    return _rollout(found)


def _rollout(found: Rollout) -> RolloutAnswer:
    return RolloutAnswer.model_validate(found, from_attributes=True)
