"""Backups: all rows of all tables, and the directory's settings and sealing key, in one file.

Lines of JSON, compressed by gzip: the first describes the backup, each other one is a row. It does
not depend on the database: what SQLite held can be restored to PostgreSQL.
"""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import Base64Bytes
from sqlalchemy import Connection, MetaData, Table, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from hawser.controller.db import migrate
from hawser.controller.db.database import Database
from hawser.controller.db.tables import Table as Row
from hawser.controller.directory import Directory, Settings, check_unused, make, write_settings
from hawser.controller.errors import DirectoryError
from hawser.pki.file import create_private, replace_private
from hawser.spec.model import Model

_LEFT_OUT: Final = frozenset({"login_session", "login_failure", "oidc_login", "delivery"})
"""Nobody stays logged in over a restore, and no message is sent again."""
_SEALING_KEY: Final = "sealing.key"
_SEQUENCES: Final = (("gateway", "id"),)
"""Columns that PostgreSQL counts up by itself."""


class _Header(Model):
    hawser_backup: int
    revision: str
    """Of the tables."""
    settings: Settings
    sealing_key: Base64Bytes


def save(directory: Directory, file: Path) -> None:
    """Write a backup, also while controllers work. Only the owner can read it.

    Raises:
        DirectoryError: it is no controller's directory, or the file cannot be written.
    """
    settings, database = directory.settings, directory.database()
    revision = migrate.revision(database)
    if revision is None:
        raise DirectoryError(f"{settings.database}: the database is empty")
    header = {
        "hawser_backup": 1,
        "revision": revision,
        "settings": settings.model_dump(mode="json"),
        "sealing_key": b64encode(directory.sealing_key).decode(),
    }
    lines = (json.dumps(each) for each in (header, *_rows(database)))
    content = "".join(f"{line}\n" for line in lines).encode()
    database.close()
    try:
        replace_private(file, gzip.compress(content, mtime=0))
    except OSError as error:
        raise DirectoryError(f"{file}: {error.strerror}") from error


def _rows(database: Database) -> Iterator[dict[str, Any]]:
    with database.read() as session:
        for table in Row.metadata.sorted_tables:
            if table.name in _LEFT_OUT:
                continue
            for row in session.execute(select(table)).mappings():
                values = {name: _plain(value) for name, value in row.items()}
                yield {"table": table.name, "row": values}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return b64encode(value).decode() if isinstance(value, bytes) else value


def load(file: Path, path: Path, database_url: str | None) -> None:
    """Make a controller from a backup.

    Raises:
        DirectoryError: the file is no backup, or there is a controller already.
    """
    header, rows = _read(file)
    if path.exists() and any(path.iterdir()):
        raise DirectoryError(f"{path}: expected a directory that is empty or does not exist")
    settings = header.settings
    if database_url is not None:
        settings = settings.model_copy(update={"database": database_url})
    make(path)
    try:
        _restore(Directory(path), settings, header, rows)
    except BaseException as error:
        for left in path.iterdir():
            left.unlink()
        if isinstance(error, (LookupError, ValueError, TypeError, SQLAlchemyError)):
            reason = getattr(error, "orig", error)
            raise DirectoryError(f"{file}: this is no backup of a controller: {reason}") from error
        raise


def _restore(
    directory: Directory, settings: Settings, header: _Header, rows: list[dict[str, Any]]
) -> None:
    database = directory.database(settings)
    try:
        check_unused(database, settings.database)
        migrate.upgrade(database, header.revision)
        with database.engine.begin() as connection:
            _fill(connection, rows, sqlite=database.sqlite)
        migrate.upgrade(database)
    finally:
        database.close()
    create_private(directory.path / _SEALING_KEY, header.sealing_key, durable=True)
    write_settings(directory.path, settings)


def _read(file: Path) -> tuple[_Header, list[dict[str, Any]]]:
    try:
        lines = gzip.decompress(file.read_bytes()).splitlines()
        header = _Header.model_validate_json(lines[0])
        return header, [json.loads(line) for line in lines[1:]]
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise DirectoryError(f"{file}: this is no backup of a controller: {error}") from error


def _fill(connection: Connection, rows: list[dict[str, Any]], *, sqlite: bool) -> None:
    """Insert rows into the tables of the backup's revision, which may be older ones."""
    tables = MetaData()
    tables.reflect(connection)
    for row in rows:
        table = tables.tables[row["table"]]
        connection.execute(table.insert().values(_typed(table, row["row"])))
    for name, column in () if sqlite else _SEQUENCES:
        newest = connection.scalar(select(func.max(tables.tables[name].c[column])))
        if newest is not None:
            sequence = {"table": name, "column": column, "newest": newest}
            statement = "SELECT setval(pg_get_serial_sequence(:table, :column), :newest)"
            connection.execute(text(statement), sequence)


def _typed(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(table.c[name].type.python_type, value) for name, value in row.items()}


def _value(kind: type, value: Any) -> Any:  # noqa: ANN401 (what a column holds)
    if value is None:
        return None
    if kind is datetime:
        return datetime.fromisoformat(value)
    return b64decode(value) if kind is bytes else value
