"""Watching for what is wrong, and sending messages about it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

import hawser
from hawser.controller.access.vault import Vault
from hawser.controller.alarms import alarm, delivery, lowest, maintenance, receiver
from hawser.controller.alarms.address import Networks, Undeliverable
from hawser.controller.alarms.condition import REPORTED, ROUTED, Condition, Kind
from hawser.controller.alarms.dampening import Dampening
from hawser.controller.alarms.grouping import Grouping
from hawser.controller.alarms.members import Member, member_conditions
from hawser.controller.alarms.message import Message
from hawser.controller.alarms.paths import (
    Limits,
    by_pair,
    degraded_conditions,
    down_conditions,
    sla_conditions,
)
from hawser.controller.alarms.pathstate import PathStates
from hawser.controller.alarms.receiver import Mail, Webhook
from hawser.controller.alarms.send import send
from hawser.controller.alarms.usage import Usage, quota_conditions, usages
from hawser.controller.db.database import Database
from hawser.controller.db.tables import Receiver
from hawser.controller.inventory.gateway import approved, newest_certificates
from hawser.controller.jobs.lowest import Lowest
from hawser.controller.jobs.watch import Watch
from hawser.controller.policy import version
from hawser.controller.telemetry.latest import Latest
from hawser.controller.telemetry.observation import is_connected, observations
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.network import Network
from hawser.spec.port import Port
from hawser.store.errors import StoreError
from hawser.store.statistics.store import StatisticsStore

_log = logging.getLogger(__name__)

_EVERY_S: Final = 2.0
_FRESH_S: Final = 10.0
"""Age of a report that still says how things are."""
_USAGE_EVERY: Final = timedelta(minutes=5)
_FORGET_EVERY: Final = timedelta(hours=1)
_AT_ONCE: Final = 20
"""Messages of a receiver before the next look."""
_SENDERS: Final = 4
"""Receivers at a time that messages are sent to."""


@dataclass(frozen=True)
class Sources:
    """From where it is known how things are."""

    database: Database
    watch: Watch
    latest: Latest
    statistics: StatisticsStore
    clock: Callable[[], datetime]
    own: Mapping[str, datetime]
    """When certificates of the controller end, by what they are called."""


class Watchman:
    """Judges what is known, every two seconds, and keeps alarms."""

    def __init__(self, sources: Sources, limits: Limits) -> None:
        self._sources, self._limits = sources, limits
        self._states, self._lowest = PathStates(), Lowest(sources.database)
        self._dampening = Dampening()
        self._usage: Mapping[Port, Usage] = {}
        self._usage_at: datetime | None = None
        self._forgot_at: datetime | None = None

    def look(self) -> bool:
        """Judge; tell whether an alarm was raised, cleared or changed."""
        database, now = self._sources.database, self._sources.clock()
        with database.read() as session:
            members = _members(session, now)
            known = alarm.open_alarms(session)
            silenced = maintenance.windows_at(session, now)
        branches = {each.branch for each in members}
        in_force = self._sources.watch.in_force()
        reporting, found = self._reported(now, branches, in_force)
        found += member_conditions(now, hawser.__version__, members, self._sources.own)
        conditions = {each.key: each for each in found}

        def is_judged(kind: Kind, of: tuple[str, ...]) -> bool:
            if kind not in REPORTED or any(each not in branches for each in of):
                return True
            return of[0] in reporting and (in_force is not None or kind not in ROUTED)

        alarms = [alarm.opened(row) for row in known]
        decision = self._dampening.decide(now.timestamp(), conditions, alarms, is_judged)
        untold = any(
            alarm.is_untold(row) and not maintenance.is_silenced(silenced, row.branches)
            for row in known
        )
        if decision or untold:
            with database.write() as session:
                alarm.apply(session, now, decision)
        for each in decision.raised:
            _log.warning("alarm %s (%s): %s", each.key, each.level.value, each.detail)
        for gone in decision.cleared:
            _log.info("alarm %s is cleared", gone.key)
        self._forget(now)
        return bool(decision)

    def _reported(
        self, now: datetime, branches: Collection[str], in_force: tuple[Network, Fabric] | None
    ) -> tuple[Collection[str], list[Condition]]:
        """Give the branches whose reports this controller has, and what is wrong by them."""
        network, fabric = in_force or (None, None)
        fresh = [
            each
            for each in self._sources.latest.all().values()
            if each.branch in branches and now.timestamp() - each.time <= _FRESH_S
        ]
        reporting = {each.branch for each in fresh}
        paths = list(self._states.read(fabric, fresh))
        self._lowest.follow(now, reporting)
        baseline = self._lowest.baseline
        baseline.take(now.timestamp(), paths)
        pairs, grouping = by_pair(paths, branches), Grouping(paths)
        found = [*down_conditions(pairs, grouping)]
        found += degraded_conditions(now.timestamp(), pairs, self._limits, baseline)
        if network is not None:
            found += sla_conditions(pairs, network.policy, grouping)
            self._use(now, network)
        found += (each for each in quota_conditions(self._usage) if each.branches[0] in reporting)
        return reporting, found

    def _use(self, now: datetime, network: Network) -> None:
        """Sum up quotas again, if it is time."""
        if self._usage_at is not None and now - self._usage_at < _USAGE_EVERY:
            return
        self._usage_at = now
        try:
            found = usages(network, self._sources.statistics, now)
            self._usage = {each.port: each for each in found}
        except StoreError as error:
            _log.error("quotas cannot be judged: %s", error)

    def _forget(self, now: datetime) -> None:
        if self._forgot_at is not None and now - self._forgot_at < _FORGET_EVERY:
            return
        self._forgot_at = now
        with self._sources.database.note() as session:
            for each in (alarm, maintenance, delivery, lowest):
                each.forget(session, now)


def _members(session: Session, now: datetime) -> list[Member]:
    certificates = newest_certificates(session)
    rows = {row.gateway: row for row in observations(session)}
    return [
        Member(
            number=number,
            branch=branch,
            connected=is_connected(rows[number], now),
            seen=rows[number].seen,
            software=rows[number].software,
            clock_offset_s=rows[number].clock_offset_s,
            certificate=certificates.get(number),
        )
        for number, branch in approved(session).items()
        if number in rows
    ]


class Sender:
    """Sends messages that are due, each by one controller at a time."""

    def __init__(
        self, database: Database, vault: Vault, clock: Callable[[], datetime], networks: Networks
    ) -> None:
        self._database, self._vault, self._clock = database, vault, clock
        self._networks = networks
        self._ending = False
        self._sent: dict[str, list[int]] = {}
        """Messages that were delivered, but not noted: the database was away."""

    def due(self) -> list[str]:
        """Give the receivers for whom there is something to do."""
        with self._database.read() as session:
            due = delivery.receivers_due(session, self._clock())
        return list(dict.fromkeys([*due, *(name for name, sent in self._sent.items() if sent)]))

    def send(self, name: str) -> int:
        """Send what is due to a receiver; give how much was delivered. One thread a receiver."""
        count = 0
        for _ in range(_AT_ONCE):
            self._note(name)
            found = None if self._ending else self._claim(name)
            if found is None:
                break
            number, attempts, target, message = found
            with self._database.exclusive(number) as alone:
                if alone and self._is_waiting(number, attempts):
                    count += self._attempt(name, number, target, message)
        self._note(name)
        return count

    def end(self) -> None:
        """Begin no attempt any more."""
        self._ending = True

    def _claim(self, name: str) -> tuple[int, int, Webhook | Mail, Message] | None:
        with self._database.write() as session:
            row = delivery.claim(session, self._clock(), name)
            known = session.get(Receiver, name)
            if row is None or known is None:
                return None
            network = version.newest(session).document["name"]
            message = Message(row.id, network, row.group, row.created, row.events, row.omitted)
            return row.number, row.attempts, receiver.settings(self._vault, known), message

    def _is_waiting(self, number: int, attempts: int) -> bool:
        with self._database.read() as session:
            return delivery.is_waiting(session, number, attempts)

    def _attempt(self, name: str, number: int, target: Webhook | Mail, message: Message) -> int:
        try:
            asyncio.run(send(target, message, self._clock(), self._networks))
        except Undeliverable as error:
            _log.warning("alarms are not delivered to %s: %s", name, error)
            with self._database.write() as session:
                delivery.failed(session, self._clock(), number, str(error))
            return 0
        self._sent.setdefault(name, []).append(number)
        self._note(name)
        return 1

    def _note(self, name: str) -> None:
        if sent := self._sent.get(name):
            with self._database.write() as session:
                delivery.delivered(session, self._clock(), sent)
            self._sent[name] = []


@contextlib.asynccontextmanager
async def alarming(watchman: Watchman, sender: Sender) -> AsyncIterator[None]:
    """Watch and send until left; what is being sent then is waited for, so that it is noted."""
    senders = ThreadPoolExecutor(_SENDERS, "alarms")
    tasks = [asyncio.create_task(_watch(watchman)), asyncio.create_task(_send(sender, senders))]
    try:
        yield
    finally:
        sender.end()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(senders.shutdown, cancel_futures=True)


async def _watch(watchman: Watchman) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        try:
            await asyncio.to_thread(watchman.look)
        except SQLAlchemyError as error:  # a database that is away comes back
            _log.error("alarms stay as they are: %s", error)


async def _send(sender: Sender, senders: ThreadPoolExecutor) -> None:
    running: dict[str, Future[int]] = {}
    while True:
        await asyncio.sleep(_EVERY_S)
        try:
            for name in await asyncio.to_thread(sender.due):
                if name not in running or running[name].done():
                    running[name] = senders.submit(_guarded, sender, name)
        except SQLAlchemyError as error:
            _log.error("alarms are not sent: %s", error)


def _guarded(sender: Sender, name: str) -> int:
    try:
        return sender.send(name)
    except SQLAlchemyError as error:
        _log.error("alarms are not sent to %s: %s", name, error)
    except ValueError as error:  # sealed with another key
        _log.error("receiver %s: %s", name, error)
    return 0
