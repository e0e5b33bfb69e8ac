"""Alarms, maintenance windows, receivers and what is sent to them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_TIME = sa.DateTime(timezone=True)
_JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    """Bring the tables to this revision."""
    _alarm()
    op.create_table(
        "maintenance",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("begin", _TIME, nullable=False),
        sa.Column("end", _TIME, nullable=False),
        sa.Column("branches", _JSON, nullable=True),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_maintenance")),
    )
    op.create_table(
        "receiver",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("least", sa.String(), nullable=False),
        sa.Column("created", _TIME, nullable=False),
        sa.Column("abandoned", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_receiver")),
    )
    _delivery()


def _alarm() -> None:
    op.create_table(
        "alarm",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("group", sa.String(), nullable=False),
        sa.Column("branches", _JSON, nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("figures", _JSON, nullable=False),
        sa.Column("affected", sa.Integer(), nullable=False),
        sa.Column("raised", _TIME, nullable=False),
        sa.Column("cleared", _TIME, nullable=True),
        sa.Column("flaps", sa.Integer(), nullable=False),
        sa.Column("notified", _TIME, nullable=True),
        sa.Column("notified_level", sa.String(), nullable=True),
        sa.Column("acknowledged", _TIME, nullable=True),
        sa.Column("acknowledged_by", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_alarm")),
    )
    op.create_index(
        "ux_alarm_key",
        "alarm",
        ["key"],
        unique=True,
        sqlite_where=sa.text("cleared IS NULL"),
        postgresql_where=sa.text("cleared IS NULL"),
    )


def _delivery() -> None:
    op.create_table(
        "delivery",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("receiver", sa.String(), nullable=False),
        sa.Column("group", sa.String(), nullable=False),
        sa.Column("events", _JSON, nullable=False),
        sa.Column("omitted", sa.Integer(), nullable=False),
        sa.Column("created", _TIME, nullable=False),
        sa.Column("due", _TIME, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("delivered", _TIME, nullable=True),
        sa.Column("abandoned", _TIME, nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["receiver"],
            ["receiver.name"],
            name=op.f("fk_delivery_receiver_receiver"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_delivery")),
    )
    op.create_index(op.f("ix_delivery_receiver"), "delivery", ["receiver"])
