"""Routes: what would be if."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchReader, Shared
from hawser.controller.api.model import Answer, Body, Json
from hawser.controller.errors import Conflict, Invalid
from hawser.controller.paths import chosen
from hawser.controller.paths.question import bounds, declared, places, question
from hawser.controller.paths.whatif import Supposed, both, known, supposed
from hawser.controller.policy import version
from hawser.controller.policy.difference import patched
from hawser.optimise.members import described
from hawser.optimise.solver import ProgramError
from hawser.overlay.sdwan.automatic import automatic_pairs
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.model import Name
from hawser.spec.overlay import MAX_BRANCHES, Paths
from hawser.spec.validate import Issue

router = APIRouter(tags=["paths"])


class WhatIfBody(Body):
    """What is supposed. Without anything: the optimum of today."""

    patch: dict[str, Json] = {}
    """Merge patch (RFC 7396) of the network in force, such as a new port."""
    lost: Annotated[tuple[Name, ...], Field(max_length=MAX_BRANCHES)] = ()
    """Branches whose gateways are gone."""
    traffic: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Demand of all branches, as a multiple of today's."""


class SupposedPair(Answer):
    """Two branches. Rates are bit/s, both directions."""

    branches: tuple[str, str]
    demanded: float
    """Today's, times `traffic`."""
    kept: float
    """What the paths in force would carry."""
    best: float
    """What the best paths would."""
    paths: tuple[str, ...]
    """The best ones; empty where there is none."""
    changed: bool
    """Whether these are others than those in force."""


class WhatIfAnswer(Answer):
    """The plan that would result. Nothing of it is installed."""

    automatic: bool
    """Whether the network that is supposed has automatic paths; else the plan shows what they
    would be."""
    demanded: float
    kept: float
    best: float
    """The same for all pairs together, also those of branches that the caller does not see."""
    pairs: tuple[SupposedPair, ...]


@router.post("/paths/whatif", responses=documented(409))
def what_if(body: WhatIfBody, shared: Shared, who: BranchReader) -> WhatIfAnswer:
    """Compute the plan that would result from another network, lost branches or more traffic."""
    found = shared.watch.in_force()
    if found is None:
        raise Conflict("a roll-out is running, so that gateways have two versions")
    old, fabric = found
    with shared.database.read() as session:
        document, choice = version.newest(session).document, chosen.choice(session)
    new = version.network_of(patched(document, body.patch)) if body.patch else old
    _check(body.lost, new.overlay.branches)
    now = question(shared.clock().timestamp(), old, fabric, shared.latest.all().values())
    planned, _, _ = shared.planned.get()
    pairs = tuple(sorted(automatic_pairs(new.overlay)))
    asked = supposed(
        known(now, planned if old.overlay.paths is Paths.AUTOMATIC else None),
        declared(old),
        declared(new),
        places(fabric_of(new, chosen=choice), set(pairs)),
        pairs,
        bounds(new),
        frozenset(body.lost),
        body.traffic,
    )
    try:
        outcome = shared.whatif.ask(asked)
    except ProgramError as error:
        raise Conflict(f"no plan was found: {error}") from error
    seen = [pair for pair in pairs if who.has(pair[0]) or who.has(pair[1])]
    shown = [pair for pair in seen if pair in asked.kept]
    plan = described(outcome.plan)
    return WhatIfAnswer(
        automatic=new.overlay.paths is Paths.AUTOMATIC,
        demanded=_short(sum(asked.demand.values())),
        kept=_short(outcome.kept.total),
        best=_short(outcome.best.total),
        pairs=tuple(
            SupposedPair(
                branches=pair,
                demanded=_short(both(asked.demand, pair)),
                kept=_short(both(outcome.kept.rates, pair)),
                best=_short(both(outcome.best.rates, pair)),
                paths=plan.get(pair, ()),
                changed=_differs(asked, pair, plan.get(pair, ())),
            )
            for pair in shown
        ),
    )


def _check(lost: tuple[str, ...], branches: Collection[str]) -> None:
    for index, name in enumerate(lost):
        if name not in branches:
            message = f"found {name}, which is no branch of the network"
            raise Invalid([Issue(("lost", index), message)])


def _differs(asked: Supposed, pair: tuple[str, str], paths: tuple[str, ...]) -> bool:
    return set(paths) != set(described({pair: asked.kept[pair]})[pair])


def _short(rate: float) -> float:
    return float(f"{rate:.7g}")
