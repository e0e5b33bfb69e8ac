"""Bringing a database to the tables of this program (Alembic)."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from hawser.controller.db.database import Database

_HERE = Path(__file__).parent / "migrations"


def upgrade(database: Database) -> None:
    """Make the tables, or change older ones. All of it or nothing."""
    with database.engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def revision(database: Database) -> str | None:
    """Which tables the database has; None where it is empty."""
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    """Which tables this program knows."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise RuntimeError("there are no migrations")
    return head


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config
