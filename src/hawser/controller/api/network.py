"""Routes: the network, its versions, and what a change would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import BranchChanger, BranchReader, Shared
from hawser.controller.api.model import (
    NEWEST,
    Before,
    DifferenceAnswer,
    Limit,
    NetworkBody,
    Number,
    PatchBody,
    RestoreBody,
    TryAnswer,
    TryBody,
    VersionAnswer,
    VersionSummary,
)
from hawser.controller.api.rollout import stage
from hawser.controller.context import Context
from hawser.controller.db.tables import Version
from hawser.controller.paths import chosen
from hawser.controller.policy import version
from hawser.controller.policy.difference import changes, patched
from hawser.overlay.sdwan.moves import class_moves, path_moves
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.site import document_of

Json = Any

router = APIRouter(tags=["network"])


@router.get("/network")
def read_network(shared: Shared, _who: BranchReader) -> VersionAnswer:
    """Give the network in force."""
    with shared.database.read() as session:
        return _version(version.newest(session))


@router.put("/network", responses=documented(409))
def replace_network(body: NetworkBody, shared: Shared, who: BranchChanger) -> VersionAnswer:
    """Put another network in force. Where nothing differs, no version is added."""
    wanted = document_of(body.network)
    return _change(shared, who, body, lambda _: wanted)


@router.patch("/network", responses=documented(409))
def patch_network(body: PatchBody, shared: Shared, who: BranchChanger) -> VersionAnswer:
    """Change a part of the network."""
    return _change(shared, who, body, lambda current: patched(current, body.patch))


def _change(
    shared: Context, who: Principal, body: NetworkBody | PatchBody, new: Callable[[Json], Json]
) -> VersionAnswer:
    now = shared.clock()
    with shared.database.write() as session:
        before = version.newest(session)
        made = version.change(session, who, now, body.base, new, body.reason)
        stage(session, who, now, made, before, body.rollout)
    shared.changed()
    return _version(made)


@router.post("/network/try")
def try_change(body: TryBody, shared: Shared, _who: BranchReader) -> TryAnswer:
    """Show what a change would do, without making it."""
    with shared.database.read() as session:
        current, paths = version.newest(session), chosen.choice(session)
    if body.network is not None:
        new = version.network_of(document_of(body.network))
    else:
        new = version.network_of(patched(current.document, body.patch))
    old = fabric_of(version.network_of(current.document), chosen=paths)
    return TryAnswer(
        base=current.number,
        changes=changes(current.document, document_of(new)),
        branches=_changed(shared, new),
        paths=tuple(path_moves(old, fabric_of(new, chosen=paths))),
        classes=tuple(class_moves(old.settings.classes, new.overlay.classes)),
    )


def _changed(shared: Context, new: Any) -> tuple[str, ...]:  # noqa: ANN401 (a Network)
    plan = shared.watch.plan()
    made = shared.watch.tried(new)
    before = {branch: each.digest for branch, each in plan.desired.items()}
    after = {branch: each.digest for branch, each in made.items()}
    branches = (*before, *(branch for branch in after if branch not in before))
    return tuple(each for each in branches if before.get(each) != after.get(each))


@router.get("/versions")
def list_versions(
    shared: Shared,
    _who: BranchReader,
    before: Before = NEWEST,
    limit: Limit = 50,
) -> list[VersionSummary]:
    """List versions, the newest first."""
    with shared.database.read() as session:
        found = version.versions(session, before, limit)
        return [VersionSummary.model_validate(each, from_attributes=True) for each in found]


@router.get("/versions/{number}", responses=documented(404))
def read_version(number: Number, shared: Shared, _who: BranchReader) -> VersionAnswer:
    """Give a version."""
    with shared.database.read() as session:
        return _version(version.version(session, number))


@router.get("/versions/{number}/difference", responses=documented(404))
def difference(
    number: Number, older: Number, shared: Shared, _who: BranchReader
) -> DifferenceAnswer:
    """Show what differs between an older version and this one."""
    with shared.database.read() as session:
        old, new = version.version(session, older), version.version(session, number)
    return DifferenceAnswer(older=older, newer=number, changes=changes(old.document, new.document))


@router.post("/versions/{number}/restore", responses=documented(404, 409))
def restore(number: Number, body: RestoreBody, shared: Shared, who: BranchChanger) -> VersionAnswer:
    """Put an older version in force again, as a new version."""
    now = shared.clock()
    with shared.database.write() as session:
        before = version.newest(session)
        made = version.restore(session, who, now, number, body.reason)
        stage(session, who, now, made, before, body.rollout)
    shared.changed()
    return _version(made)


def _version(found: Version) -> VersionAnswer:
    summary = VersionSummary.model_validate(found, from_attributes=True)
    return VersionAnswer(**dict(summary), network=found.document)
