"""Routes: paths that were chosen, why, and the way of a flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchReader, Shared
from hawser.controller.api.model import NEWEST, Answer, Before, Limit
from hawser.controller.context import Context
from hawser.controller.db.tables import PathChange
from hawser.controller.errors import Conflict, NotFound
from hawser.controller.paths import chosen
from hawser.controller.paths.explain import Carrier, Flow, Protocol, end_of, trace
from hawser.controller.paths.planner import Answer as Planned
from hawser.overlay.sdwan.automatic import automatic_pairs
from hawser.spec.network import Network
from hawser.spec.overlay import Paths

router = APIRouter(tags=["paths"])

_End = Annotated[str, StringConstraints(pattern=r"^[0-9a-z.-]{1,31}$")]
_Port = Annotated[int, Query(ge=0, le=65535)]


class ChangeAnswer(Answer):
    """A group that was replaced automatically."""

    number: int
    time: datetime
    branches: tuple[str, str]
    before: tuple[str, ...]
    after: tuple[str, ...]
    """Member paths in their places; a place that is not needed repeats a path."""
    reason: str
    figures: dict[str, float]
    """Rates in bit/s, and for how many seconds the gain had held."""


class PairAnswer(Answer):
    """Two branches whose paths are chosen automatically. Rates are bit/s, both directions."""

    branches: tuple[str, str]
    paths: tuple[str, ...]
    """What was chosen; empty while the direct paths are used."""
    demanded: float | None
    carries: float | None
    """What these paths carry at best, by what is measured."""
    best: float | None
    """What the best paths would carry."""


class TunnelAnswer(Answer):
    """A tunnel that nothing uses, as trains of packets found it. Rates are bit/s."""

    ports: tuple[str, str]
    """Where it begins and where it ends, as in member paths: `b1.a`."""
    time: datetime
    available: float
    low: float
    high: float
    """Bounds of the 95 % interval."""


class PathsAnswer(Answer):
    """Automatic paths."""

    automatic: bool
    """Whether the network has them."""
    time: datetime | None
    """When this controller has last compared the groups with the optimum; another one may."""
    waiting: str
    """Why better groups are not installed; empty where there are none."""
    error: str | None
    """Why nothing could be decided since."""
    pairs: tuple[PairAnswer, ...]
    tunnels: tuple[TunnelAnswer, ...]
    """Idle tunnels that gateways of this controller have measured in the last ten minutes."""


class MemberAnswer(Answer):
    """A member path, with what its gateway measures."""

    member: int
    path: str
    values: dict[str, float]
    """By metric, in the units of series."""


class CarrierAnswer(Answer):
    """A group that may carry the flow."""

    group: int
    traffic: Annotated[str, Field(alias="class")]
    origin: str
    """The line of the network's document that it comes from."""
    members: tuple[MemberAnswer, ...]


class ExplainAnswer(Answer):
    """The way of a flow, and what decided it."""

    source: str | None
    """Branch of the source; null for addresses of no branch."""
    destination: str | None
    rule: str | None
    """The rule of the classifier that decided; null where none matched."""
    traffic: Annotated[str, Field(alias="class")]
    groups: tuple[CarrierAnswer, ...]
    change: ChangeAnswer | None
    """The last automatic change of the paths between both branches."""
    plan: PairAnswer | None
    """What the path program says of both branches."""
    waiting: str
    steps: tuple[str, ...]
    """The same in sentences, in the order in which it is decided."""


@router.get("/paths")
def read_paths(shared: Shared, who: BranchReader) -> PathsAnswer:
    """Give the paths that were chosen automatically."""
    found = shared.watch.in_force()
    network = found[0] if found else None
    automatic = network is not None and network.overlay.paths is Paths.AUTOMATIC
    answer, time, error = shared.planned.get()
    pairs = sorted(automatic_pairs(network.overlay)) if network and automatic else ()
    with shared.database.read() as session:
        choice = chosen.choice(session)
    return PathsAnswer(
        automatic=automatic,
        time=time,
        waiting=answer.verdict.waiting if answer and automatic else "",
        error=error if automatic else None,
        pairs=tuple(
            _pair(pair, choice.get(pair, ()), answer)
            for pair in pairs
            if who.has(pair[0]) or who.has(pair[1])
        ),
        tunnels=tuple(_tunnels(shared, who)) if automatic else (),
    )


def _tunnels(shared: Context, who: Principal) -> Iterator[TunnelAnswer]:
    for hop, found in sorted(shared.trains.found(shared.clock().timestamp()).items()):
        if any(who.has(stop.branch) for stop in hop):
            yield TunnelAnswer(
                ports=(f"{hop[0].branch}.{hop[0].port}", f"{hop[1].branch}.{hop[1].port}"),
                time=datetime.fromtimestamp(found.time, UTC),
                available=found.available,
                low=found.low,
                high=found.high,
            )


@router.get("/paths/changes")
def list_changes(
    shared: Shared,
    who: BranchReader,
    before: Before = NEWEST,
    limit: Limit = 50,
) -> list[ChangeAnswer]:
    """List automatic changes of groups, the newest first, each with its reason and figures."""
    with shared.database.read() as session:
        found = chosen.changes(session, before, limit)
        return [_change(row) for row in found if who.has(row.one) or who.has(row.other)]


@router.get("/explain", responses=documented(404, 409))
def explain(
    source: _End,
    destination: _End,
    shared: Shared,
    who: BranchReader,
    protocol: Protocol | None = None,
    port: _Port | None = None,
) -> ExplainAnswer:
    """Follow a flow from the classifier to the hops of its paths.

    `source` and `destination` are IPv4 addresses, or names of branches for any host there.
    """
    found = shared.watch.in_force()
    if found is None:
        raise Conflict("a roll-out is running, so that gateways have two versions")
    network, fabric = found
    flow = Flow(
        end_of(network, source, "source"),
        end_of(network, destination, "destination"),
        protocol,
        port,
    )
    way = trace(network, fabric, tuple(shared.latest.all().values()), flow)
    _allowed(who, way.source, way.destination)
    plan, change, waiting = _decided(shared, network, way.source, way.destination)
    return ExplainAnswer.model_validate(
        {
            "source": way.source,
            "destination": way.destination,
            "rule": way.rule,
            "class": way.traffic.value,
            "groups": [_carrier(each) for each in way.carriers],
            "change": change,
            "plan": plan,
            "waiting": waiting,
            "steps": (*way.steps, *_steps(plan, change, waiting)),
        }
    )


def _decided(
    shared: Context, network: Network, one: str | None, other: str | None
) -> tuple[PairAnswer | None, ChangeAnswer | None, str]:
    """Give what the path program says of two branches, and the last change."""
    if one is None or other is None:
        return None, None, ""
    pair = min(one, other), max(one, other)
    if network.overlay.paths is not Paths.AUTOMATIC or pair not in automatic_pairs(network.overlay):
        return None, None, ""
    answer, _, _ = shared.planned.get()
    with shared.database.read() as session:
        choice = chosen.choice(session)
        rows = chosen.changes(session, NEWEST, 1, pair)
    waiting = answer.verdict.waiting if answer else ""
    plan = _pair(pair, choice.get(pair, ()), answer)
    return plan, _change(rows[0]) if rows else None, waiting if "-".join(pair) in waiting else ""


def _steps(plan: PairAnswer | None, change: ChangeAnswer | None, waiting: str) -> list[str]:
    found = []
    if plan is not None and plan.demanded is not None:
        figures = [
            f"{(each or 0.0) / 1e6:.3g}" for each in (plan.demanded, plan.carries, plan.best)
        ]
        text = "the branches demand {} Mbit/s, these paths carry {}, the best ones {}"
        found.append(text.format(*figures))
    if change is not None:
        found.append(f"last change, {change.time:%Y-%m-%d %H:%M:%S} UTC: {change.reason}")
    if waiting:
        found.append(f"not changed: {waiting}")
    return found


def _allowed(who: Principal, *branches: str | None) -> None:
    if who.branches is not None and not any(each and who.has(each) for each in branches):
        raise NotFound("none of the two ends is in a branch of yours")


def _pair(pair: tuple[str, str], paths: tuple[str, ...], answer: Planned | None) -> PairAnswer:
    def both(rates: Mapping[tuple[str, str], float]) -> float:
        return float(f"{rates.get(pair, 0.0) + rates.get(pair[::-1], 0.0):.7g}")

    return PairAnswer(
        branches=pair,
        paths=paths,
        demanded=both(answer.demand) if answer else None,
        carries=both(answer.verdict.now.rates) if answer else None,
        best=both(answer.verdict.best.rates) if answer else None,
    )


def _change(row: PathChange) -> ChangeAnswer:
    return ChangeAnswer(
        number=row.number,
        time=row.time,
        branches=(row.one, row.other),
        before=tuple(row.before),
        after=tuple(row.after),
        reason=row.reason,
        figures=row.figures,
    )


def _carrier(found: Carrier) -> CarrierAnswer:
    members = tuple(
        MemberAnswer(member=each.number, path=each.path, values=dict(each.values))
        for each in found.members
    )
    return CarrierAnswer.model_validate(
        {
            "group": found.number,
            "class": found.traffic.value,
            "origin": found.origin,
            "members": members,
        }
    )
