"""Tables. What is desired is in `version`, what was observed in `observation`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, ForeignKey, Index, LargeBinary, MetaData, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

Json = Any
"""What JSON can hold."""


class Utc(TypeDecorator[datetime]):
    """A time with its zone, which SQLite does not store."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Store UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Give UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Table(DeclarativeBase):
    """A row of a table."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Utc, Json: JSON(none_as_null=True), bytes: LargeBinary}


class Secret(Table):
    """A secret, sealed with a key that is not in the database."""

    __tablename__ = "secret"

    name: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[bytes]


class Version(Table):
    """The whole network as somebody wanted it at a time. The newest is in force."""

    __tablename__ = "version"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime]
    author: Mapped[str]
    reason: Mapped[str]
    restores: Mapped[int | None]
    """The older version that this one repeats."""
    document: Mapped[Json]
    changes: Mapped[Json]
    """What differs from the version before."""


class Rollout(Table):
    """A version that gateways get in stages."""

    __tablename__ = "rollout"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    version: Mapped[int]
    base: Mapped[int]
    """The version that gateways have until their stage begins."""
    stages: Mapped[Json]
    """Lists of branches."""
    stage: Mapped[int]
    """Index of the stage that has begun last."""
    observe_s: Mapped[float]
    """How long all gateways of a stage have to be well."""
    author: Mapped[str]
    started: Mapped[datetime]
    since: Mapped[datetime]
    """When the stage began."""
    settled: Mapped[datetime | None]
    """Since when all its gateways are well, and have their configurations."""
    reached: Mapped[Json]
    """Branches that each connected gateway reached at the start, by branch."""
    ailing: Mapped[Json]
    """When a gateway that has moved was first seen without controller or peers, by branch."""
    state: Mapped[str]
    """`running`, `done` or `returned`."""
    detail: Mapped[str | None]
    """Why it was returned from."""
    finished: Mapped[datetime | None]
    returned_by: Mapped[int | None]
    """The version that puts `base` in force again."""


class PathGroupRow(Table):
    """Member paths of two branches, as they were chosen automatically."""

    __tablename__ = "path_group"

    one: Mapped[str] = mapped_column(primary_key=True)
    """The branch that comes first in the alphabet."""
    other: Mapped[str] = mapped_column(primary_key=True)
    paths: Mapped[Json]


class PathChange(Table):
    """A group that was replaced automatically."""

    __tablename__ = "path_change"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime]
    one: Mapped[str]
    other: Mapped[str]
    before: Mapped[Json]
    after: Mapped[Json]
    reason: Mapped[str]
    figures: Mapped[Json]
    """Rates in bit/s, and how long the gain has held."""


class Planner(Table):
    """Which controller chooses paths. There is one row."""

    __tablename__ = "planner"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    instance: Mapped[str]
    until: Mapped[datetime]
    """When another one may take over."""


class ResolvedName(Table):
    """A DNS name of an application, and what it resolved to."""

    __tablename__ = "resolved_name"

    name: Mapped[str] = mapped_column(primary_key=True)
    addresses: Mapped[Json]
    """When each address was last in an answer (ISO 8601), by address."""
    change: Mapped[int]
    """Number of the change that its addresses come from, counted over all names; 0 for none."""
    resolved: Mapped[datetime | None]
    """Time of the last answer."""
    next: Mapped[datetime]
    """Time of the next query."""
    error: Mapped[str | None]
    """Why the last query gave no address."""


class Alarm(Table):
    """Something that is or was wrong."""

    __tablename__ = "alarm"
    __table_args__ = (
        # The same thing is raised once at a time, by whichever controller.
        Index(
            "ux_alarm_key",
            "key",
            unique=True,
            sqlite_where=text("cleared IS NULL"),
            postgresql_where=text("cleared IS NULL"),
        ),
    )

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    key: Mapped[str]
    """Kind and subject."""
    kind: Mapped[str]
    level: Mapped[str]
    group: Mapped[str]
    branches: Mapped[Json]
    detail: Mapped[str]
    figures: Mapped[Json]
    affected: Mapped[int]
    """How many paths have it."""
    raised: Mapped[datetime]
    cleared: Mapped[datetime | None]
    flaps: Mapped[int]
    """How often the same alarm was cleared in the hour before."""
    notified: Mapped[datetime | None]
    """When messages were queued; None while it is silenced."""
    notified_level: Mapped[str | None]
    acknowledged: Mapped[datetime | None]
    acknowledged_by: Mapped[str | None]
    note: Mapped[str | None]


class LowestRtt(Table):
    """The lowest round-trip times of the last day, of a branch's paths."""

    __tablename__ = "lowest_rtt"

    branch: Mapped[str] = mapped_column(primary_key=True)
    """Whose gateway has measured them."""
    time: Mapped[datetime]
    """When this was written."""
    lows: Mapped[Json]
    """Hour since 1970 and ms, by class and route."""


class Maintenance(Table):
    """A time in which alarms of some branches are not sent."""

    __tablename__ = "maintenance"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    begin: Mapped[datetime]
    end: Mapped[datetime]
    branches: Mapped[Json | None]
    """None for all alarms."""
    author: Mapped[str]
    reason: Mapped[str]


class Receiver(Table):
    """Where alarms are sent."""

    __tablename__ = "receiver"

    name: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[bytes]
    """Its settings, with its secret."""
    least: Mapped[str]
    """Level from which on alarms are sent to it."""
    created: Mapped[datetime]
    abandoned: Mapped[int] = mapped_column(default=0)
    """Messages that were given up."""


class Delivery(Table):
    """A message to one receiver."""

    __tablename__ = "delivery"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    id: Mapped[str]
    """By which the receiver recognises a message that comes again."""
    receiver: Mapped[str] = mapped_column(
        ForeignKey("receiver.name", ondelete="CASCADE"), index=True
    )
    group: Mapped[str]
    events: Mapped[Json]
    omitted: Mapped[int]
    """Events that there was no room for."""
    created: Mapped[datetime]
    due: Mapped[datetime]
    """When it may be sent, or sent again."""
    attempts: Mapped[int]
    delivered: Mapped[datetime | None]
    abandoned: Mapped[datetime | None]
    error: Mapped[str | None]
    """Why the last attempt failed."""


class Token(Table):
    """A token for one gateway to join."""

    __tablename__ = "token"

    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    branch: Mapped[str]
    """The gateway's name (`spec.pair`)."""
    approval: Mapped[str]
    """`automatic` or `manual`."""
    author: Mapped[str]
    created: Mapped[datetime]
    expires: Mapped[datetime]
    used: Mapped[datetime | None]
    key: Mapped[str | None]
    """The public key that used it."""
    withdrawn: Mapped[datetime | None]


class Gateway(Table):
    """A machine that joined, or asked to."""

    __tablename__ = "gateway"
    __table_args__ = (
        # A branch has one first and one second gateway at a time that are not revoked.
        Index(
            "ux_gateway_branch",
            "branch",
            unique=True,
            sqlite_where=text("revoked IS NULL"),
            postgresql_where=text("revoked IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    branch: Mapped[str]
    """Its name (`spec.pair`): the branch, or the second gateway of it."""
    token: Mapped[str] = mapped_column(ForeignKey("token.id"))
    key: Mapped[str]
    """SHA-256 of the public key with which it joined."""
    request: Mapped[str]
    """Its certificate signing request."""
    address: Mapped[str]
    """Where the request came from."""
    asked: Mapped[datetime]
    approved: Mapped[datetime | None]
    approver: Mapped[str | None]
    revoked: Mapped[datetime | None]
    reason: Mapped[str | None]
    """Why it was revoked."""


class Certificate(Table):
    """A certificate of a gateway."""

    __tablename__ = "certificate"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    gateway: Mapped[int] = mapped_column(ForeignKey("gateway.id"), index=True)
    key: Mapped[str]
    pem: Mapped[str]
    issued: Mapped[datetime]
    expires: Mapped[datetime]


class Observation(Table):
    """What was last known of a gateway."""

    __tablename__ = "observation"

    gateway: Mapped[int] = mapped_column(ForeignKey("gateway.id"), primary_key=True)
    connected: Mapped[datetime | None]
    """Since when; None while it is not connected."""
    controller: Mapped[str | None]
    """Which process of which controller it is connected to."""
    seen: Mapped[datetime | None]
    software: Mapped[str | None]
    clock_offset_s: Mapped[float | None]
    capabilities: Mapped[Json | None]
    applied: Mapped[str | None]
    """Digest of the configuration in force at the gateway."""
    applied_version: Mapped[int | None]
    failed: Mapped[str | None]
    """Digest of the configuration that it last refused or returned from."""
    failures: Mapped[int] = mapped_column(default=0)
    """How often in a row."""
    outcome: Mapped[str | None]
    """`refused` or `returned`."""
    detail: Mapped[str | None]
    retry: Mapped[datetime | None]
    """When that configuration is tried again; None: not before it changes."""
    peers: Mapped[Json | None]
    """Other branches, and whether packets reach them."""


class User(Table):
    """A person, or a program with a password."""

    __tablename__ = "user_account"
    __table_args__ = (Index("ux_user_account_subject", "subject", unique=True),)

    name: Mapped[str] = mapped_column(primary_key=True)
    password: Mapped[str]
    """Argon2id (RFC 9106); empty for a user of an OpenID provider, who has none here."""
    one_time: Mapped[bool]
    """Whether the password has to be changed before anything else."""
    role: Mapped[str]
    created: Mapped[datetime]
    subject: Mapped[str | None]
    """Who it is at the OpenID provider: issuer and subject."""
    totp: Mapped[bytes | None]
    """Sealed secret of the second factor (RFC 6238)."""
    totp_active: Mapped[bool] = mapped_column(default=False)
    """Whether its owner has shown that it works."""
    totp_step: Mapped[int | None]
    """Time step of the code used last: it and older ones are refused."""


class OwnRole(Table):
    """A role that an admin has made."""

    __tablename__ = "own_role"

    name: Mapped[str] = mapped_column(primary_key=True)
    permissions: Mapped[Json]
    branches: Mapped[Json | None]
    """Branches to which it is limited; None for all."""


class OidcLogin(Table):
    """A login that waits for the OpenID provider."""

    __tablename__ = "oidc_login"

    state: Mapped[str] = mapped_column(primary_key=True)
    """Digest of the `state` parameter."""
    nonce: Mapped[str]
    verifier: Mapped[str]
    """Code verifier (RFC 7636)."""
    cookie: Mapped[bool]
    """Whether the session is for a browser."""
    expires: Mapped[datetime]


class LoginFailure(Table):
    """Wrong passwords from one address or IPv6 network, or wrong codes of one user."""

    __tablename__ = "login_failure"

    address: Mapped[str] = mapped_column(primary_key=True)
    """The address or network, or `user:` and the user's name."""
    count: Mapped[int]
    last: Mapped[datetime]
    until: Mapped[datetime]
    """When the next attempt is looked at."""


class LoginSession(Table):
    """A user who is logged in."""

    __tablename__ = "login_session"

    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(ForeignKey("user_account.name", ondelete="CASCADE"))
    created: Mapped[datetime]
    expires: Mapped[datetime]


class ApiKey(Table):
    """A key for programs."""

    __tablename__ = "api_key"

    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    owner: Mapped[str] = mapped_column(ForeignKey("user_account.name", ondelete="CASCADE"))
    purpose: Mapped[str]
    permissions: Mapped[Json]
    branches: Mapped[Json | None]
    """Branches to which it is limited; None for those of its owner."""
    created: Mapped[datetime]
    expires: Mapped[datetime]


class AuditEntry(Table):
    """Who did what. Each entry holds the hash of the one before."""

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime]
    actor: Mapped[str]
    address: Mapped[str]
    action: Mapped[str]
    target: Mapped[str]
    before: Mapped[Json | None]
    after: Mapped[Json | None]
    previous: Mapped[str]
    hash: Mapped[str]
