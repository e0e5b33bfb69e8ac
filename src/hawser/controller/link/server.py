"""Serving gateways: one connection each, at a port of its own.

TLS asks for a certificate of the controller's authority before a byte of HTTP is read, so whoever
has none gets no further than the handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any, cast
from weakref import WeakKeyDictionary

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from hawser.control.link import MAX_MESSAGE, MISUSED, REPLACED, SWITCH_PATH
from hawser.controller.context import Context
from hawser.controller.db.notify import listen
from hawser.controller.directory import Directory
from hawser.controller.errors import Refused
from hawser.controller.inventory.gateway import State, of_certificate, state_of
from hawser.controller.jobs.rollout import advance
from hawser.controller.jobs.watch import Plan
from hawser.controller.link.cap import Cap, Capped
from hawser.controller.link.notes import Notes
from hawser.controller.link.session import Session
from hawser.controller.link.switches import Switches
from hawser.controller.listen import hosts
from hawser.controller.telemetry import observation
from hawser.controller.telemetry.observation import SEEN_EVERY

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
"""How often the database is looked at for what another controller has observed."""

_LOOK_SELDOM_S = 0.1
"""Least time between two looks: many gateways change at once."""
_ACKNOWLEDGE_EVERY_S = 1.0


class Server:
    """Knows all gateways that are connected to this controller."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._began = context.clock()
        self._sessions: dict[int, Session] = {}
        self._wake = asyncio.Event()
        self._plan: Plan | None = None
        self._admitted = WeakKeyDictionary[ServerConnection, tuple[int, str]]()
        self._waiting: list[asyncio.Future[Plan]] = []
        self.notes = Notes(context.database)
        self._switches = Switches(context.switches)
        self._ending = False

    def changed(self) -> None:
        """Look at the database now. To be called in the event loop."""
        self._wake.set()

    @contextlib.asynccontextmanager
    async def serving(self, directory: Directory) -> AsyncIterator[None]:
        """Serve gateways."""
        settings = directory.settings
        self._wake.set()
        work = (self._look, self._acknowledge, self._see, self.notes.work, self._listen)
        tasks = [asyncio.create_task(each()) for each in work]
        try:
            async with serve(
                self._serve,
                cast("Any", hosts(settings.host)),  # asyncio takes several
                settings.gateways_port,
                create_connection=cast("Any", partial(_capped, _tls(directory), Cap())),
                process_request=self._admit,
                compression=None,  # statistics are packed, and a window of zlib is 100 kB a gateway
                max_size=MAX_MESSAGE,
                max_queue=8,
                ping_interval=15,  # gateways ping, too
                ping_timeout=15,
                open_timeout=10,
                close_timeout=2,
                server_header=None,
            ):
                yield
                self._ending = True
                for future in self._waiting:
                    future.cancel()
                self.notes.abandon()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _admit(self, connection: ServerConnection, _request: Request) -> Response | None:
        """Refuse whose certificate is no approved gateway's."""
        found = await asyncio.to_thread(self._gateway, connection)
        if found is None:
            return connection.respond(HTTPStatus.FORBIDDEN, "this gateway is not approved\n")
        self._admitted[connection] = found
        return None

    def _gateway(self, connection: ServerConnection) -> tuple[int, str] | None:
        tls = connection.transport.get_extra_info("ssl_object")
        fingerprint = sha256(tls.getpeercert(binary_form=True)).hexdigest()
        with self._context.database.read() as session:
            gateway = of_certificate(session, fingerprint)
        if gateway is None or state_of(gateway) is not State.APPROVED:
            return None
        return gateway.id, gateway.branch

    async def _serve(self, connection: ServerConnection) -> None:
        number, branch = self._admitted.pop(connection)
        work = self._serve_switch if _is_switch(connection) else self._serve_gateway
        try:
            await work(connection, number, branch)
        except (ConnectionClosed, TimeoutError) as error:
            _log.info("gateway %s (%s): %s", number, branch, error or "it says nothing")
        except ValueError as error:
            _log.warning("gateway %s (%s): %s", number, branch, error)
            await connection.close(MISUSED, "this is not the protocol of this controller")

    async def _serve_switch(self, connection: ServerConnection, number: int, branch: str) -> None:
        await self._switches.serve(connection, (number, branch))

    async def _serve_gateway(self, connection: ServerConnection, number: int, branch: str) -> None:
        plan = self._plan
        if plan is None or number not in plan.approved:  # it has only just joined
            plan = await self.fresh_plan()
        old = self._sessions.get(number)
        session = Session(self._context, connection, (number, branch), plan, self)
        self._sessions[number] = session
        if old is not None:
            await old.close(REPLACED, "the gateway has connected once more")
        try:
            await session.run()
        finally:
            if self._sessions.get(number) is session:
                del self._sessions[number]
            await session.end()
            self.changed()

    async def _look(self) -> None:
        """Keep the plan, and hand it to all sessions."""
        while True:
            # Not `wait_for`: before Python 3.12 it forgets a cancellation if the event is set too.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                self._plan = await asyncio.to_thread(self._planned)
            except Exception:  # a database that is away comes back
                _log.exception("the database cannot be read")
                self._waiting += waiting
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            self._context.latest.keep(self._plan.approved)
            for future in waiting:
                if not future.done():
                    future.set_result(self._plan)
            for session in tuple(self._sessions.values()):
                session.take(self._plan)
            self._switches.take(self._plan)
            await asyncio.sleep(_LOOK_SELDOM_S)

    async def _listen(self) -> None:
        """Hear at once of what other controllers have changed."""
        await listen(self._context.database, self.changed)

    async def fresh_plan(self) -> Plan:
        """Wait for a plan with everything that was written until now."""
        future: asyncio.Future[Plan] = asyncio.get_running_loop().create_future()
        if self._ending:
            future.cancel()
        self._waiting.append(future)
        self._wake.set()
        return await future

    async def _see(self) -> None:
        """Write down that those who are connected still are."""
        while True:
            await asyncio.sleep(SEEN_EVERY.total_seconds())
            now, instance = self._context.clock(), self._context.instance
            await self.notes.write(partial(observation.seen, instance=instance, now=now))

    async def _acknowledge(self) -> None:
        """Make what gateways have reported safe, then tell them."""
        while True:
            await asyncio.sleep(_ACKNOWLEDGE_EVERY_S)
            found = [
                (session, message)
                for session in tuple(self._sessions.values())
                if session.intake and (message := session.intake.pending())
            ]
            if not found:
                continue
            try:
                await asyncio.to_thread(self._context.statistics.sync)
            except OSError:  # the disk is full, or broken: gateways keep their reports
                _log.exception("statistics cannot be stored")
                continue
            for session, message in found:
                await session.acknowledge(message)
                await asyncio.sleep(0)  # others have their turn

    def _planned(self) -> Plan:
        """Give the plan, after a roll-out has gone on."""
        plan, now = self._context.watch.plan(), self._context.clock()
        try:
            changed = advance(self._context.database, plan, self._began, now)
        except Refused:  # as by a version that this program takes no more: an operator finishes it
            _log.exception("the roll-out cannot go on")
            return plan
        return self._context.watch.plan() if changed else plan


def _is_switch(connection: ServerConnection) -> bool:
    return connection.request is not None and connection.request.path == SWITCH_PATH


def _capped(
    tls: ssl.SSLContext,
    cap: Cap,
    *arguments: Any,  # noqa: ANN401 (websockets')
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Make a connection whose TLS begins only if the cap allows it."""
    return Capped(ServerConnection(*arguments, **options), tls, cap)


def _tls(directory: Directory) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory.authority))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(directory.certificate, directory.key)
    return context
