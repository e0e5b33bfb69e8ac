"""Staged roll-outs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "rollout",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("base", sa.Integer(), nullable=False),
        sa.Column("stages", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("observe_s", sa.Float(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("settled", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reached", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("ailing", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=True),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("returned_by", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_rollout")),
    )
