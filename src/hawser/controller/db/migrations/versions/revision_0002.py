"""Own roles, second factors, and logins by an OpenID provider."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "own_role",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("permissions", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("branches", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_own_role")),
    )
    op.create_table(
        "oidc_login",
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("nonce", sa.String(), nullable=False),
        sa.Column("verifier", sa.String(), nullable=False),
        sa.Column("cookie", sa.Boolean(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("state", name=op.f("pk_oidc_login")),
    )
    # Not in a batch: that makes SQLite's table anew, which removes the rows that refer to it.
    for column in (
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("totp", sa.LargeBinary(), nullable=True),
        sa.Column("totp_active", sa.Boolean(), nullable=False, server_default="0"),
        sa.Column("totp_step", sa.Integer(), nullable=True),
    ):
        op.add_column("user_account", column)
    op.create_index("ux_user_account_subject", "user_account", ["subject"], unique=True)
    op.add_column("api_key", sa.Column("branches", sa.JSON(none_as_null=True), nullable=True))
