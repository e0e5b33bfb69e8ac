"""Telling other controllers of a PostgreSQL that something has changed (`LISTEN`, `NOTIFY`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import psycopg

from hawser.controller.db.database import CHANNEL, Database

_log = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Time before a connection that has failed is made again."""


async def listen(database: Database, changed: Callable[[], None]) -> None:
    """Call `changed` whenever any controller has changed what is desired. Never ends on PostgreSQL.

    What was notified while there was no connection is lost, so `changed` is called after each
    connection, too.
    """
    if database.sqlite:
        return
    away = False
    while True:
        try:
            async with await _connected(database) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                away = False
                changed()
                async for _ in connection.notifies():
                    changed()
        except psycopg.Error as error:
            if not away:
                _log.warning("changes by other controllers are seen each second only: %s", error)
            away = True
        await asyncio.sleep(_AGAIN_S)


async def _connected(database: Database) -> psycopg.AsyncConnection:
    engine = database.engine
    arguments, options = engine.dialect.create_connect_args(engine.url)
    limits = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5}
    wanted = {**options, **limits, "autocommit": True}
    return await psycopg.AsyncConnection.connect(*arguments, **wanted)
