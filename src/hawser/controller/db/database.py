"""Transactions on the database.

Everything that changes what is desired, or who may do what, runs in `write`: one such transaction
at a time, over all controllers of a database. So a change can be checked against the state it is
made to, version numbers have no gaps, and the audit log is one chain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

_LOCK = 0x48415753
"""Key of PostgreSQL's advisory lock of writers."""
CHANNEL = "hawser"
"""PostgreSQL's channel on which changes are told."""
_MESSAGES = 0x48415754
"""Key of PostgreSQL's advisory locks of messages that are being sent."""
_BUSY_MS = 20_000
"""How long SQLite waits for another writer."""


class Database:
    """A database of one or more controllers. Threads may share it."""

    def __init__(self, url: str) -> None:
        """Take a URL such as `sqlite:///acme/controller.db` or `postgresql+psycopg://...`.

        Raises:
            ValueError: it is none of these.
        """
        try:
            parsed = make_url(url)
        except ArgumentError as error:
            raise ValueError(f"found {url!r}, expected the URL of a database") from error
        self.sqlite = parsed.get_backend_name() == "sqlite"
        if not self.sqlite and parsed.get_backend_name() != "postgresql":
            raise ValueError(f"found {parsed.drivername}, expected sqlite or postgresql")
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.engine = _sqlite(str(parsed)) if self.sqlite else _postgresql(parsed)

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """See one consistent state; changes are discarded."""
        with self._session(write=False) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """Change state: all of it at the end, or nothing where this is left by an exception."""
        with self._session(write=True) as session, session.begin():
            if not self.sqlite:
                session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                session.execute(text(f"NOTIFY {CHANNEL}"))  # told when this is committed
            yield session

    @contextlib.contextmanager
    def note(self) -> Iterator[Session]:
        """Write down what was observed: like `write`, but nobody waits on PostgreSQL."""
        with self._session(write=True) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def exclusive(self, number: int) -> Iterator[bool]:
        """Hold the lock of a message; False where another controller has it.

        PostgreSQL frees it when the connection ends, with the controller that has it. SQLite has
        one controller, which needs none.
        """
        if self.sqlite:
            yield True
            return
        with self.engine.connect() as connection:
            lock = text("SELECT pg_try_advisory_xact_lock(:key, :number)")
            yield bool(connection.scalar(lock, {"key": _MESSAGES, "number": number}))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _session(self, *, write: bool) -> Session:
        isolation = "READ COMMITTED" if write else "REPEATABLE READ"
        options: dict[str, Any] = {"writes": write}
        if not self.sqlite:
            options["isolation_level"] = isolation
        bind = self.engine.execution_options(**options)
        return Session(bind, expire_on_commit=False)


def _postgresql(url: Any) -> Engine:  # noqa: ANN401 (SQLAlchemy's URL is not exported)
    # A server that is gone without a word must not hold up a thread for minutes.
    limits = {"connect_timeout": 5, "tcp_user_timeout": 10_000}
    return create_engine(url, pool_pre_ping=True, pool_size=8, max_overflow=8, connect_args=limits)


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_MS / 1000})

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:  # noqa: ANN401 (DBAPI)
        connection.isolation_level = None  # `_begin` begins, not the driver
        connection.execute("PRAGMA journal_mode=WAL")
        # An answer is given only for what outlasts a loss of power.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
