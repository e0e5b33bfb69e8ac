"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    _audit()
    _login_failure()
    _secret()
    _token()
    _user_account()
    _version()
    _api_key()
    _gateway()
    _login_session()
    _certificate()
    _observation()


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("previous", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
    )


def _login_failure() -> None:
    op.create_table(
        "login_failure",
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_login_failure")),
    )


def _secret() -> None:
    op.create_table(
        "secret",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secret")),
    )


def _token() -> None:
    op.create_table(
        "token",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("branch", sa.String(), nullable=False),
        sa.Column("approval", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used", sa.DateTime(timezone=True), nullable=True),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("withdrawn", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
    )


def _user_account() -> None:
    op.create_table(
        "user_account",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("password", sa.String(), nullable=False),
        sa.Column("one_time", sa.Boolean(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_user_account")),
    )


def _version() -> None:
    op.create_table(
        "version",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("restores", sa.Integer(), nullable=True),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("changes", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_version")),
    )


def _api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("permissions", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"],
            ["user_account.name"],
            name=op.f("fk_api_key_owner_user_account"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
    )


def _gateway() -> None:
    op.create_table(
        "gateway",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("branch", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("request", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("asked", sa.DateTime(timezone=True), nullable=False),
        sa.Column("approved", sa.DateTime(timezone=True), nullable=True),
        sa.Column("approver", sa.String(), nullable=True),
        sa.Column("revoked", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["token"], ["token.id"], name=op.f("fk_gateway_token_token")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway")),
    )
    with op.batch_alter_table("gateway", schema=None) as batch_op:
        batch_op.create_index(
            "ux_gateway_branch",
            ["branch"],
            unique=True,
            sqlite_where=sa.text("revoked IS NULL"),
            postgresql_where=sa.text("revoked IS NULL"),
        )


def _login_session() -> None:
    op.create_table(
        "login_session",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["name"],
            ["user_account.name"],
            name=op.f("fk_login_session_name_user_account"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_login_session")),
    )


def _certificate() -> None:
    op.create_table(
        "certificate",
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("gateway", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("pem", sa.String(), nullable=False),
        sa.Column("issued", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["gateway"], ["gateway.id"], name=op.f("fk_certificate_gateway_gateway")
        ),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_certificate")),
    )
    with op.batch_alter_table("certificate", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_certificate_gateway"), ["gateway"], unique=False)


def _observation() -> None:
    op.create_table(
        "observation",
        sa.Column("gateway", sa.Integer(), nullable=False),
        sa.Column("connected", sa.DateTime(timezone=True), nullable=True),
        sa.Column("controller", sa.String(), nullable=True),
        sa.Column("seen", sa.DateTime(timezone=True), nullable=True),
        sa.Column("software", sa.String(), nullable=True),
        sa.Column("clock_offset_s", sa.Double(), nullable=True),
        sa.Column("capabilities", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("applied", sa.String(), nullable=True),
        sa.Column("applied_version", sa.Integer(), nullable=True),
        sa.Column("failed", sa.String(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("detail", sa.String(), nullable=True),
        sa.Column("retry", sa.DateTime(timezone=True), nullable=True),
        sa.Column("peers", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["gateway"], ["gateway.id"], name=op.f("fk_observation_gateway_gateway")
        ),
        sa.PrimaryKeyConstraint("gateway", name=op.f("pk_observation")),
    )
