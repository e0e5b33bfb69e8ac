"""Bodies of requests and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import Query
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from hawser.controller.access.role import Permission
from hawser.controller.access.user import NAME
from hawser.controller.inventory.gateway import State
from hawser.controller.inventory.token import Approval
from hawser.controller.policy.difference import Change
from hawser.controller.policy.rollout import State as RolloutState
from hawser.controller.policy.sync import Sync
from hawser.controller.policy.version import read
from hawser.overlay.sdwan.moves import ClassMove, PathMove
from hawser.pki.request import LONGEST as LONGEST_REQUEST
from hawser.spec.model import Name
from hawser.spec.network import Network
from hawser.spec.overlay import MAX_BRANCHES

Json = Any
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
Line = Annotated[str, StringConstraints(pattern=_PRINTABLE, max_length=500)]
"""Text without control characters."""
Password = Annotated[str, StringConstraints(max_length=256)]
Code = Annotated[str, StringConstraints(max_length=16)]
UserName = Annotated[str, StringConstraints(pattern=NAME)]
RoleName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Branches = Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_BRANCHES)] | None
Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
NEWEST = 2**31 - 1
"""`Before` that begins with the newest."""
Before = Annotated[int, Query(ge=1, le=NEWEST)]
"""A list begins behind this number."""
Limit = Annotated[int, Query(ge=1, le=200)]
"""Entries of a list at most."""


def _strictly(value: Json, _lax: ValidatorFunctionWrapHandler) -> Network:
    return value if isinstance(value, Network) else read(value)


StrictNetwork = Annotated[Network, WrapValidator(_strictly)]
"""A network, read as strictly as from a file."""


class Body(BaseModel):
    """Body of a request. An unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Answer(BaseModel):
    """Body of an answer."""

    model_config = ConfigDict(frozen=True)


class FieldProblem(Answer):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(Answer):
    """Why a request was refused."""

    error: str
    errors: tuple[FieldProblem, ...] = ()
    """Fields that are wrong."""


class Health(Answer):
    """Whether the controller answers, and its database does."""

    status: Literal["ok"] = "ok"


class LoginBody(Body):
    """A user logs in."""

    user: Annotated[str, StringConstraints(max_length=64)]
    password: Password
    code: Code | None = None
    """Of the second factor, where the user has one."""
    cookie: bool = False
    """Whether a browser logs in: the session's token comes as a cookie that no script can read."""


class LoginAnswer(Answer):
    """A session; its token is sent as `Authorization: Bearer TOKEN`."""

    token: str | None
    """Null where it is in the cookie."""
    csrf: str | None = None
    """With the cookie, to be sent in `X-CSRF-Token` with every request that changes something."""
    expires: datetime
    change_password: bool
    """Whether the password has to be changed before anything else."""


class OidcAnswer(Answer):
    """How users log in at an OpenID provider, without the client secret."""

    issuer: str
    client_id: str
    url: str
    scopes: tuple[str, ...]
    claim: str
    roles: dict[str, str]
    default_role: str | None
    authority: str | None


class PasswordBody(Body):
    """Another password."""

    password: Password
    current: Password | None = None
    """The present password, unless that is a one-time one."""


class FactorBody(Body):
    """A code of the second factor."""

    code: Code


class FactorAnswer(Answer):
    """A secret for an authenticator, shown this once."""

    uri: str
    """`otpauth` URI, to be entered or shown as a QR code."""


class Me(Answer):
    """The caller, and its permissions."""

    name: str
    permissions: tuple[Permission, ...]
    branches: tuple[str, ...] | None
    """Branches to which they are limited; null for all."""
    csrf: str | None
    """CSRF token of the session, where its token is a cookie."""


class UserBody(Body):
    """A new user."""

    name: UserName
    role: RoleName


class RoleBody(Body):
    """Another role."""

    role: RoleName


class OwnRoleBody(Body):
    """A role of one's own."""

    permissions: tuple[Permission, ...]
    branches: Branches = None
    """Branches to which it is limited; null for all. Possible with `read`, `change`, `admit`."""


class OwnRoleAnswer(Answer):
    """A role that an admin made."""

    name: str
    permissions: tuple[Permission, ...]
    branches: tuple[str, ...] | None


class UserAnswer(Answer):
    """A user."""

    name: str
    role: str
    created: datetime


class NewPassword(Answer):
    """A password that is shown once, and has to be changed at the first login."""

    name: str
    password: str


class KeyBody(Body):
    """A new API key."""

    purpose: Line
    permissions: Annotated[tuple[Permission, ...], Field(min_length=1)]
    branches: Branches = None
    """Branches to which it is limited; null for those of its owner."""
    days: Annotated[int, Field(ge=1, le=400)] = 90


class KeyAnswer(Answer):
    """An API key."""

    id: str
    owner: str
    purpose: str
    permissions: tuple[Permission, ...]
    branches: tuple[str, ...] | None
    created: datetime
    expires: datetime


class NewKey(KeyAnswer):
    """An API key that was just made."""

    key: str
    """Shown this once; sent as `Authorization: Bearer KEY`."""


def _milliseconds(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


class AuditAnswer(Answer):
    """An entry of the audit log."""

    number: int
    time: Annotated[datetime, PlainSerializer(_milliseconds, return_type=str)]
    """UTC with three decimals of seconds, as it is hashed."""
    actor: str
    address: str
    action: str
    target: str
    before: Json
    after: Json
    previous: str
    hash: str
    """SHA-256 of the entry's JSON (sorted keys, no white space) without this field."""


class AuditCheck(Answer):
    """Whether the log is as it was written."""

    entries: int
    hash: str
    """Of the newest entry: kept elsewhere, it shows whether entries were removed later."""
    broken: int | None
    """Number of the first entry that is not."""
    altered_version: int | None
    """Number of the first version of the network that is not as it was logged."""


class VersionSummary(Answer):
    """A version of the network."""

    number: int
    time: datetime
    author: str
    reason: str
    restores: int | None
    """The older version that this one repeats."""
    changes: tuple[Change, ...]
    """What differs from the version before."""


class VersionAnswer(VersionSummary):
    """A version with its network."""

    network: Network


class StagedBody(Body):
    """A roll-out in stages: some gateways get the new version first."""

    canary: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_BRANCHES)]
    """Branches whose gateways get it first; then all others do."""
    observe_s: Annotated[float, Field(ge=1, le=86400)] = 10
    """Seconds during which the gateways of a stage have to be well before the next ones get it."""


class NetworkBody(Body):
    """A whole network in the place of the one in force."""

    network: StrictNetwork
    reason: Line
    base: Number | None = None
    """Version that the author has seen: another one in force is a conflict."""
    rollout: StagedBody | None = None
    """How gateways get it; all at once if left out."""


class PatchBody(Body):
    """A change of the network."""

    patch: dict[str, Json]
    """JSON merge patch (RFC 7396): null removes, mappings merge, all else replaces."""
    reason: Line
    base: Number | None = None
    """Version that the author has seen: another one in force is a conflict."""
    rollout: StagedBody | None = None
    """How gateways get it; all at once if left out."""


class RestoreBody(Body):
    """Going back to an older version."""

    reason: Line
    rollout: StagedBody | None = None
    """How gateways get it; all at once if left out."""


class ReasonBody(Body):
    """Why something is done."""

    reason: Line


class RolloutAnswer(Answer):
    """A roll-out."""

    number: int
    version: int
    """The version that gateways get."""
    base: int
    """The version that the others still have."""
    state: RolloutState
    stages: tuple[tuple[str, ...], ...]
    """Branches whose gateways get it together."""
    stage: int
    """Index of the stage that has begun last."""
    observe_s: float
    author: str
    started: datetime
    since: datetime
    """When the stage began."""
    settled: datetime | None
    """Since when all its gateways are well."""
    finished: datetime | None
    detail: str | None
    """Why it was returned from."""
    returned_by: int | None
    """The version that puts `base` in force again."""


class TryBody(Body):
    """A change to look at before it is made: a patch, or a whole network."""

    patch: dict[str, Json] | None = None
    """JSON merge patch of the network in force."""
    network: StrictNetwork | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.patch is None) == (self.network is None):
            raise ValueError("expected one of patch, network")
        return self


class TryAnswer(Answer):
    """What a change would do."""

    base: int
    """Version that it would change."""
    changes: tuple[Change, ...]
    branches: tuple[str, ...]
    """Branches whose gateways would get another configuration."""
    paths: tuple[PathMove, ...]
    """Traffic that would move to other paths, by branches and type."""
    classes: tuple[ClassMove, ...]
    """Classes whose packets would be of another type, or which would match other packets."""


class DifferenceAnswer(Answer):
    """What differs between two versions."""

    older: int
    newer: int
    changes: tuple[Change, ...]


class TokenBody(Body):
    """A new token."""

    branch: Name
    second: bool = False
    """For the second gateway of the branch."""
    approval: Approval = Approval.AUTOMATIC
    hours: Annotated[int, Field(ge=1, le=720)] = 24


class TokenAnswer(Answer):
    """A token."""

    id: str
    branch: str
    """The branch; with `/2` for its second gateway."""
    approval: Approval
    author: str
    created: datetime
    expires: datetime
    used: datetime | None
    withdrawn: datetime | None


class NewToken(TokenAnswer):
    """A token that was just made."""

    token: str
    """Shown this once: `hawser gateway join URL TOKEN`."""


class AuthorityAnswer(Answer):
    """The controller's authority. A token says which one it is."""

    certificate: str


class JoinBody(Body):
    """A gateway asks to join."""

    token: Id
    secret: Annotated[str, StringConstraints(max_length=64)]
    request: Annotated[str, StringConstraints(max_length=LONGEST_REQUEST)]
    """Certificate signing request, PEM."""


class JoinAnswer(Answer):
    """What became of the request; a gateway that waits for approval asks again."""

    state: Literal[State.PENDING, State.APPROVED]
    branch: str
    certificate: str | None
    gateways_port: int
    """TCP port of the controller to which the gateway connects."""


class Configuration(Answer):
    """How a gateway's configuration stands to the one it should have."""

    state: Sync
    desired: str | None
    """Digest of the one it should have."""
    desired_version: int | None
    applied: str | None
    """Digest of the one it has."""
    applied_version: int | None
    outcome: str | None
    """What became of the last one that failed: `refused` or `returned`."""
    detail: str | None
    """Why."""


class SwitchAnswer(Answer):
    """A gateway's OpenFlow switch, as the controller that is asked sees it."""

    connected: bool
    """Whether it is connected to this controller."""
    installed: bool
    """Whether it has exactly the flows that it should have."""
    flows: int
    fault: str | None
    """Why its last connection ended."""


class GatewayAnswer(Answer):
    """A gateway."""

    id: int
    branch: str
    """Its branch; with `/2` where it is the second gateway."""
    state: State
    address: str
    """Where its request to join came from."""
    asked: datetime
    approved: datetime | None
    approver: str | None
    revoked: datetime | None
    reason: str | None
    """Why it was revoked."""
    key: str
    """SHA-256 of the public key with which it joined."""
    certificate_expires: datetime | None
    connected: bool
    seen: datetime | None
    software: str | None
    clock_offset_s: float | None
    """How far its clock was ahead when it connected."""
    capabilities: tuple[str, ...]
    warnings: tuple[str, ...]
    """What may be wrong with its clock, its version, or what its configuration needs."""
    peers: dict[str, bool]
    """Other branches, and whether packets reach them."""
    configuration: Configuration
    switch: SwitchAnswer | None
    """None where it has no OpenFlow switch."""


class RevokeBody(Body):
    """Revokes a gateway."""

    reason: Line


class StatisticsAnswer(Answer):
    """The newest statistics of a gateway."""

    time: datetime
    sequence: int
    lost: int
    """Reports of this run of the agent that were not stored."""
    values: dict[str, float]
    """By the names of series."""
