"""Writing down what is observed of many gateways, in few transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from hawser.controller.db.database import Database

_log = logging.getLogger(__name__)

Note = Callable[[Session], None]
_AWAY_S = 0.5
"""How long to wait while the database does not answer."""


class Notes:
    """Collects notes while a transaction runs, and writes them with the next one.

    A note is written even if the database is away for long, and in the order in which it came.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[Note, asyncio.Future[None]]] = []
        self._came = asyncio.Event()
        self._unwritten: set[asyncio.Future[None]] = set()

    async def write(self, note: Note) -> None:
        """Write a note; return when it is written.

        Raises:
            Exception: whatever the note raises.
        """
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unwritten.add(written)
        written.add_done_callback(self._unwritten.discard)
        self._waiting.append((note, written))
        self._came.set()
        await written

    def abandon(self) -> None:
        """Let nobody wait any more: the process is about to end."""
        for written in tuple(self._unwritten):
            written.cancel()

    async def work(self) -> None:
        """Write notes until cancelled."""
        while True:
            await self._came.wait()
            self._came.clear()
            batch, self._waiting = self._waiting, []
            notes = [note for note, _ in batch]
            while (failures := await asyncio.to_thread(self._write, notes)) is None:
                await asyncio.sleep(_AWAY_S)
            for (_, written), failure in zip(batch, failures, strict=True):
                if written.done():  # nobody waits for it any more
                    continue
                if failure is None:
                    written.set_result(None)
                else:
                    written.set_exception(failure)

    def _write(self, notes: Sequence[Note]) -> list[Exception | None] | None:
        """Write notes; give what each raised, or None where the database is away."""
        try:
            return self._together(notes)
        except (OperationalError, InterfaceError) as error:
            _log.warning("the database is away: %s", error.orig)
            return None
        except Exception:
            return [failure for note in notes for failure in self._alone(note)]

    def _together(self, notes: Sequence[Note]) -> list[Exception | None]:
        with self._database.note() as session:
            for note in notes:
                note(session)
        return [None for _ in notes]

    def _alone(self, note: Note) -> list[Exception | None]:
        try:
            return self._together([note])
        except Exception as error:
            return [error]
