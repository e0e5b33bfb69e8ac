"""Resolving the DNS names of applications, so that gateways get their addresses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network
from typing import Final

import dns.exception
import dns.resolver
from dns.rdatatype import RdataType
from sqlalchemy.exc import SQLAlchemyError

from hawser.controller.db.database import Database
from hawser.controller.policy import names, rollout
from hawser.controller.policy.names import Answer
from hawser.controller.policy.version import newest_number

_log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_THREADS: Final = 8
_RESERVED: Final = IPv4Network("240.0.0.0/4")
_PATIENCE_S: Final = 5.0
"""How long a query may take, over all servers."""


class Resolver:
    """Asks DNS servers for addresses. Threads may share it."""

    def __init__(self, servers: Iterable[str] = (), port: int = 53) -> None:
        """Take the addresses of servers; without any, those of the system."""
        self._servers, self._port = tuple(servers), port

    def resolve(self, name: str) -> Answer:
        """Ask for the IPv4 addresses of a name."""
        try:
            found = self._resolver().resolve(
                f"{name}.", RdataType.A, lifetime=_PATIENCE_S, search=False
            )
        except (dns.exception.DNSException, OSError) as error:
            return Answer(error=_reason(error))
        addresses = (IPv4Address(each.address) for each in found)
        hosts = tuple(each for each in addresses if _is_host(each))
        if not hosts:
            return Answer(error="found only addresses that no host has")
        return Answer(hosts, timedelta(seconds=found.chaining_result.minimum_ttl))

    def _resolver(self) -> dns.resolver.Resolver:
        made = dns.resolver.Resolver(configure=not self._servers)
        if self._servers:
            made.nameservers, made.port = list(self._servers), self._port
        return made


def _reason(error: Exception) -> str:
    match error:
        case dns.resolver.NXDOMAIN():
            return "there is no such name"
        case dns.resolver.NoAnswer():
            return "it has no IPv4 address"
        case dns.resolver.NoResolverConfiguration():
            return "found no DNS server in /etc/resolv.conf"
        case dns.exception.Timeout():
            return f"no DNS server answered within {_PATIENCE_S:g} s"
    return " ".join(str(error).split()) or type(error).__name__


def _is_host(address: IPv4Address) -> bool:
    return not (
        address.is_loopback
        or address.is_multicast
        or address.is_unspecified
        or address.is_link_local
        or address in _RESERVED
    )


class NameResolution:
    """Looks once a second for names that are due. Of several controllers, one asks for each."""

    def __init__(
        self, database: Database, clock: Callable[[], datetime], resolver: Resolver
    ) -> None:
        self._database, self._clock, self._resolver = database, clock, resolver
        self._versions: tuple[int, ...] = ()
        self._wanted: frozenset[str] = frozenset()
        self._failing: frozenset[str] = frozenset()
        """Names whose failure is in the log."""

    def look(self) -> bool:
        """Resolve what is due; tell whether any name has other addresses now."""
        with self._database.read() as session:
            staged = rollout.running(session)
            versions = (newest_number(session), *((staged.base,) if staged else ()))
            if versions != self._versions:
                self._wanted = names.names_of_versions(session, versions)
                self._versions = versions
            if not names.are_due(session, self._wanted, self._clock()):
                return False
        with self._database.write() as session:
            due = names.claim(session, self._wanted, self._clock())
        with ThreadPoolExecutor(_THREADS) as threads:
            answers = dict(zip(due, threads.map(self._resolver.resolve, due), strict=True))
        with self._database.write() as session:
            changed = names.keep(session, answers, self._clock())
        self._say(answers, changed)
        return bool(changed)

    def _say(self, answers: dict[str, Answer], changed: Collection[str]) -> None:
        for name in changed:
            _log.info("%s: other addresses, gateways are told", name)
        failed = {name for name, answer in answers.items() if answer.error is not None}
        for name in sorted(failed - self._failing):
            _log.warning("%s keeps its addresses: %s", name, answers[name].error)
        self._failing = (self._failing - answers.keys()) | failed


@contextlib.asynccontextmanager
async def resolving(work: NameResolution, changed: Callable[[], None]) -> AsyncIterator[None]:
    """Resolve names until left."""
    task = asyncio.create_task(_resolve(work, changed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _resolve(work: NameResolution, changed: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        try:
            if await asyncio.to_thread(work.look):
                changed()
        except SQLAlchemyError:  # a database that is away comes back
            _log.exception("names of applications are not resolved")
