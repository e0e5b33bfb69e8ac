"""Routes: tokens, requests to join, and gateways."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

import hawser
from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchAdmitter, BranchReader, CallerToken, Shared
from hawser.controller.api.guard import address_of
from hawser.controller.api.model import (
    AuthorityAnswer,
    Configuration,
    GatewayAnswer,
    Health,
    Id,
    JoinAnswer,
    JoinBody,
    NewToken,
    Number,
    RevokeBody,
    StatisticsAnswer,
    SwitchAnswer,
    TokenAnswer,
    TokenBody,
)
from hawser.controller.db.tables import Gateway, Observation, Token
from hawser.controller.errors import NotFound
from hawser.controller.inventory import gateway, token
from hawser.controller.inventory.gateway import State, state_of
from hawser.controller.jobs.watch import Plan
from hawser.controller.policy import version
from hawser.controller.policy.sync import sync
from hawser.controller.telemetry import observation
from hawser.controller.telemetry.compatibility import warnings
from hawser.controller.telemetry.latest import Statistics
from hawser.controller.telemetry.observation import is_connected, observed
from hawser.overlay.config.base import Need
from hawser.pki.token import JoinToken, pin
from hawser.spec.pair import branch_of, second_of

open_router = APIRouter(tags=["gateways"])
router = APIRouter(tags=["gateways"])


@open_router.get("/health", responses=documented(503))
def health(shared: Shared) -> Health:
    """Tell whether the controller and its database answer."""
    with shared.database.read() as session:
        version.newest_number(session)
    return Health()


@open_router.get("/join")
def authority(shared: Shared) -> AuthorityAnswer:
    """Give the certificate of the authority, to be compared with the token."""
    return AuthorityAnswer(certificate=shared.signer.authority.pem.decode())


@open_router.post("/join", responses=documented(403, 409))
def join(body: JoinBody, request: Request, shared: Shared) -> JoinAnswer:
    """Take a gateway's request to join, which it repeats until it is approved."""
    address = address_of(request.scope)
    with shared.database.read() as session:  # invalid tokens must not take the write lock
        token.find(session, body.token, body.secret)
    with shared.database.write() as session:
        found = gateway.join(
            session,
            shared.signer,
            body.token,
            body.secret,
            body.request,
            address,
            shared.clock(),
        )
        certificates = gateway.certificates(session, found.id)
    shared.changed()
    return JoinAnswer(
        state=State.APPROVED if found.approved else State.PENDING,
        branch=branch_of(found.branch),
        certificate=certificates[0].pem if certificates else None,
        gateways_port=shared.gateways_port,
    )


@router.get("/tokens")
def list_tokens(shared: Shared, who: BranchReader) -> list[TokenAnswer]:
    """List tokens, without their secrets."""
    with shared.database.read() as session:
        return [_token(each) for each in token.tokens(session) if who.has(each.branch)]


@router.post("/tokens", status_code=201)
def add_token(body: TokenBody, shared: Shared, who: BranchAdmitter) -> NewToken:
    """Make a token for the gateway of a branch."""
    lifetime, now = timedelta(hours=body.hours), shared.clock()
    with shared.database.write() as session:
        name = second_of(body.branch) if body.second else body.branch
        made, secret = token.add_token(session, who, now, name, body.approval, lifetime)
    text = str(JoinToken(made.id, secret, pin(shared.signer.authority.pem)))
    return NewToken(token=text, **dict(_token(made)))


@router.delete("/tokens/{name}", status_code=204, responses=documented(404, 409))
def withdraw_token(name: Id, shared: Shared, who: BranchAdmitter) -> None:
    """Withdraw a token that has not been used."""
    with shared.database.write() as session:
        token.withdraw(session, who, shared.clock(), name)


def _token(found: Token) -> TokenAnswer:
    return TokenAnswer.model_validate(found, from_attributes=True)


_LIST = TypeAdapter(list[GatewayAnswer])


@router.get("/gateways", response_model=list[GatewayAnswer])
def list_gateways(shared: Shared, who: BranchReader) -> Response:
    """List gateways: desired state, observed state, and how they differ."""
    plan = shared.watch.plan()
    with shared.database.read() as session:
        found = [each for each in gateway.gateways(session) if who.has(each.branch)]
        rows = {row.gateway: row for row in observation.observations(session)}
        ends, now = gateway.ends(session), shared.clock()
    switches = shared.switches.state()
    answers = [
        _gateway(plan, each, rows[each.id], ends.get(each.id), now, switches) for each in found
    ]
    # Written here: FastAPI would validate a thousand answers once more.
    return Response(_LIST.dump_json(answers), media_type="application/json")


@router.get("/gateways/{number}", responses=documented(404))
def read_gateway(number: Number, shared: Shared, who: BranchReader) -> GatewayAnswer:
    """Give a gateway."""
    plan = shared.watch.plan()
    with shared.database.read() as session:
        found = _own(session, who, number)
        row = session.get_one(Observation, number)
        certificates = gateway.certificates(session, number)
    end = certificates[0].expires if certificates else None
    return _gateway(plan, found, row, end, shared.clock(), shared.switches.state())


@router.post("/gateways/{number}/approve", status_code=204, responses=documented(404, 409))
def approve(number: Number, shared: Shared, who: BranchAdmitter) -> None:
    """Approve a gateway that asked to join."""
    with shared.database.write() as session:
        found = _own(session, who, number)
        gateway.approve(session, shared.signer, who, shared.clock(), found)
    shared.changed()


@router.post("/gateways/{number}/revoke", status_code=204, responses=documented(404, 409))
def revoke(number: Number, body: RevokeBody, shared: Shared, who: BranchAdmitter) -> None:
    """Revoke a gateway, or reject its request to join. Its branch can get another one."""
    with shared.database.write() as session:
        _own(session, who, number)
        gateway.revoke(session, who, shared.clock(), number, body.reason)
    shared.latest.drop(number)
    shared.changed()


@router.post("/gateways/{number}/retry", status_code=204, responses=documented(404))
def retry(number: Number, shared: Shared, who: BranchAdmitter) -> None:
    """Let a gateway retry a configuration that it refused or returned from."""
    with shared.database.write() as session:
        now = shared.clock()
        observation.retry(session, _own(session, who, number).id, now)
        audit.record(session, who, now, "gateway.retry", str(number))
    shared.changed()


@router.get("/gateways/{number}/configuration", responses=documented(404))
def configuration(number: Number, shared: Shared, who: BranchReader) -> dict[str, Any]:
    """Give the configuration that a gateway should have."""
    with shared.database.read() as session:
        branch = _own(session, who, number).branch
    wanted = shared.watch.plan().desired.get(branch)
    if wanted is None:
        raise NotFound(f"the network has no branch {branch}")
    document: dict[str, Any] = json.loads(wanted.document)
    return document


@router.get("/gateways/{number}/statistics", responses=documented(404))
def statistics(
    number: Number,
    shared: Shared,
    who: BranchReader,
    secret: CallerToken,
    here: Annotated[bool, Query(description="Only what this controller has received.")] = False,
) -> StatisticsAnswer:
    """Give the newest statistics that a gateway has sent."""
    with shared.database.read() as session:
        _own(session, who, number)
    found = shared.latest.get(number)
    path = f"/v1/gateways/{number}/statistics"
    answers = [] if here else shared.others.ask(path, {}, secret)
    known = [StatisticsAnswer.model_validate(each) for each in answers]
    known += [_newest(found)] if found else []
    if not known:
        raise NotFound(f"there are no statistics of gateway {number}")
    return max(known, key=lambda each: each.time)


def _newest(found: Statistics) -> StatisticsAnswer:
    return StatisticsAnswer(
        time=datetime.fromtimestamp(found.time, UTC),
        sequence=found.sequence,
        lost=found.lost,
        values={
            name: value
            for name, value in zip(found.names, found.values, strict=True)
            if not math.isnan(value)
        },
    )


def _own(session: Session, who: Principal, number: int) -> Gateway:
    """Give a gateway of one of the caller's branches; to others it does not exist."""
    found = gateway.by_id(session, number)
    if not who.has(found.branch):
        raise NotFound(f"there is no gateway {number}")
    return found


def _gateway(
    plan: Plan,
    found: Gateway,
    row: Observation,
    end: datetime | None,
    now: datetime,
    switches: Mapping[str, Mapping[str, Any]],
) -> GatewayAnswer:
    return GatewayAnswer(
        state=state_of(found),
        certificate_expires=end,
        connected=is_connected(row, now),
        seen=row.seen,
        software=row.software,
        clock_offset_s=row.clock_offset_s,
        capabilities=tuple(row.capabilities or ()),
        warnings=_warnings(plan, found, row),
        peers=row.peers or {},
        configuration=_configuration(plan, found, row, now),
        switch=_switch(plan, found, switches),
        **_columns(found),
    )


def _warnings(plan: Plan, found: Gateway, row: Observation) -> tuple[str, ...]:
    wanted = plan.desired.get(found.branch)
    needs = wanted.needs if wanted else frozenset[Need]()
    ours, clock = hawser.__version__, row.clock_offset_s
    return tuple(warnings(ours, row.software, clock, row.capabilities, needs))


def _switch(
    plan: Plan, found: Gateway, switches: Mapping[str, Mapping[str, Any]]
) -> SwitchAnswer | None:
    wanted = plan.desired.get(found.branch) if state_of(found) is State.APPROVED else None
    if wanted is None or wanted.bridge is None:
        return None
    away = {"connected": False, "installed": False, "flows": 0, "fault": None}
    state = switches.get(found.branch, away)
    return SwitchAnswer(**{name: state[name] for name in away})


def _columns(found: Gateway) -> Mapping[str, Any]:
    names = "id branch address asked approved approver revoked reason key"
    return {name: getattr(found, name) for name in names.split()}


def _configuration(plan: Plan, found: Gateway, row: Observation, now: datetime) -> Configuration:
    wanted = plan.desired.get(found.branch) if state_of(found) is State.APPROVED else None
    return Configuration(
        state=sync(wanted, observed(row, now), now),
        desired=wanted.digest if wanted else None,
        desired_version=wanted.version if wanted else None,
        applied=row.applied,
        applied_version=row.applied_version,
        outcome=row.outcome,
        detail=row.detail,
    )
