"""DNS names of applications."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "resolved_name",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("addresses", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("change", sa.Integer(), nullable=False),
        sa.Column("resolved", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_resolved_name")),
    )
