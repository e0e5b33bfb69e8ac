"""Path groups that are chosen automatically."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "path_group",
        sa.Column("one", sa.String(), nullable=False),
        sa.Column("other", sa.String(), nullable=False),
        sa.Column("paths", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("one", "other", name=op.f("pk_path_group")),
    )
    op.create_table(
        "path_change",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("one", sa.String(), nullable=False),
        sa.Column("other", sa.String(), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("figures", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_path_change")),
    )
    op.create_table(
        "planner",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("instance", sa.String(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_planner")),
    )
