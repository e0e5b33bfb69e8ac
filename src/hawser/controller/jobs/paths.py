"""Choosing paths: measurements to the planner's process, what it decides to the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from hawser.controller.db.database import Database
from hawser.controller.jobs.watch import Watch
from hawser.controller.paths import chosen
from hawser.controller.paths.planner import Answer, Planner
from hawser.controller.paths.question import places as in_places
from hawser.controller.paths.question import question
from hawser.controller.paths.trains import Trains, places
from hawser.controller.telemetry.latest import Latest
from hawser.optimise.members import described
from hawser.optimise.solver import ProgramError
from hawser.optimise.switching import Rules
from hawser.spec.overlay import Paths

_log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_SETTLE_S: Final = 3.0
"""After a change reports are of the paths before, and connections begin."""


@dataclass
class Planned:
    """What was decided last. Threads may share it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answer: Answer | None = None
    _time: datetime | None = None
    _error: str | None = None

    def put(self, now: datetime, answer: Answer | None, error: str | None) -> None:
        """Take an answer, or the error in place of one."""
        with self._lock:
            self._answer, self._error = answer or self._answer, error
            self._time = now if answer else self._time

    def get(self) -> tuple[Answer | None, datetime | None, str | None]:
        """Give the last answer, when it was given, and the error since, if there was one."""
        with self._lock:
            return self._answer, self._time, self._error


class PathConfiguration:
    """Looks once a second, if this controller is the one that chooses paths."""

    def __init__(
        self,
        instance: str,
        database: Database,
        watch: Watch,
        latest: Latest,
        clock: Callable[[], datetime],
        planned: Planned,
        trains: Trains,
        rules: Rules,
    ) -> None:
        self._trains = trains
        self._instance, self._database, self._watch = instance, database, watch
        self._latest, self._clock, self._planned = latest, clock, planned
        self.planner = Planner(rules)
        self._settled = 0.0

    def look(self) -> bool:
        """Look at what is measured, and replace groups if that is worth it; tell whether it was.

        Raises:
            ProgramError: the solver or its process has failed: the groups stay as they are.
        """
        found, now = self._watch.in_force(), self._clock()
        if found is None or found[0].overlay.paths is not Paths.AUTOMATIC:
            self.planner.stop()
            return False
        if now.timestamp() < self._settled or not self._may_plan(now):
            return False
        trains = self._trains.found(now.timestamp())
        asked = question(now.timestamp(), *found, self._latest.all().values(), trains)
        answer = self.planner.ask(asked, self._last_hour(now))
        self._planned.put(now, answer, None)
        ports = {stop: limits.egress for stop, limits in asked.declared.ports.items()}
        self._trains.ask(now.timestamp(), answer.unknown, places(found[1]), ports)
        changes = answer.verdict.changes
        if not changes:
            return False
        before = described(in_places(found[1], set(asked.pairs)))
        with self._database.write() as session:
            for row in chosen.install(session, now, changes, before):
                _log.info("paths of %s and %s: %s", row.one, row.other, row.reason)
        self._settled = now.timestamp() + _SETTLE_S
        return True

    def failed(self, error: str) -> None:
        """Note that nothing could be decided."""
        self._planned.put(self._clock(), None, error)

    def _may_plan(self, now: datetime) -> bool:
        with self._database.read() as session:
            if (known := chosen.is_planner(session, self._instance, now)) is not None:
                return known
        with self._database.write() as session:
            return chosen.may_plan(session, self._instance, now)

    def _last_hour(self, now: datetime) -> Mapping[tuple[str, str], list[float]]:
        if self.planner.number is not None:
            return {}
        with self._database.read() as session:
            found = chosen.of_last_hour(session, now)
        return {pair: [time.timestamp() for time in times] for pair, times in found.items()}


@contextlib.asynccontextmanager
async def choosing(work: PathConfiguration, changed: Callable[[], None]) -> AsyncIterator[None]:
    """Choose paths until left."""
    task = asyncio.create_task(_choose(work, changed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(work.planner.stop)


async def _choose(work: PathConfiguration, changed: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        try:
            if await asyncio.to_thread(work.look):
                changed()
        except ProgramError as error:
            _log.error("paths stay as they are: %s", error)
            work.failed(str(error))
        except SQLAlchemyError:  # a database that is away comes back
            _log.exception("paths stay as they are")
