"""Lowest round-trip times of paths."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "lowest_rtt",
        sa.Column("branch", sa.String(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lows", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("branch", name=op.f("pk_lowest_rtt")),
    )
