"""Bringing a database to the tables of this program (Alembic)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.util.exc import CommandError
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from hawser.controller.db.database import Database
from hawser.controller.errors import DirectoryError

_HERE = Path(__file__).parent / "migrations"


def upgrade(database: Database, to: str = "head") -> None:
    """Make the tables, or change older ones. All of it or nothing.

    Raises:
        DirectoryError: the tables are of a newer program, or the database does not answer.
    """
    with _connected(database) as connection, connection.begin():
        config = _config()
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, to)
        except CommandError as error:
            message = f"the database is of a newer version of this program: {error}"
            raise DirectoryError(message) from error


def revision(database: Database) -> str | None:
    """Which tables the database has; None where it is empty.

    Raises:
        DirectoryError: it does not answer.
    """
    with _connected(database) as connection:
        return MigrationContext.configure(connection).get_current_revision()


@contextlib.contextmanager
def _connected(database: Database) -> Iterator[Connection]:
    try:
        connection = database.engine.connect()
    except OperationalError as error:
        raise DirectoryError(f"the database does not answer: {error.orig}") from error
    with connection:
        yield connection


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config
