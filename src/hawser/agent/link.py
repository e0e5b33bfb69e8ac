"""The agent's connection to its controller, made again whenever it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import import_module

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
)

import hawser
from hawser.agent.applier import Applier
from hawser.agent.bridge import GatewayBridge
from hawser.agent.daemon import GatewayDaemon
from hawser.agent.dial import dial
from hawser.agent.reporter import Reporter, Sender
from hawser.agent.state import Joined, StateDirectory
from hawser.agent.switch import SwitchLink
from hawser.control.https import authority_of, trusting
from hawser.control.link import (
    MAX_MESSAGE,
    PROTOCOL,
    REVOKED,
    SERVER_NAME,
    Acknowledge,
    Configure,
    Confirm,
    Hello,
    Measure,
    Measured,
    Renew,
    Renewed,
    Trying,
    from_controller,
)
from hawser.control.model import TrainAnswer, TrainRequest
from hawser.pki.key import key_pem, new_key
from hawser.pki.request import new_request

_log = logging.getLogger(__name__)

_TICK_S = 0.25
_REPORT_S = 1.0
_HUNG = 10
"""Questions in a row that the daemon leaves unanswered for 5 s each before it counts as hung."""
_OPEN_S = 10.0
_RENEW_EVERY_S = 60.0
"""How often it is looked whether a certificate should be renewed, and then asked."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_REFUSED_WAIT_S = 30.0
_MOST_MEASURING = 64
"""Paths that are measured at the same time."""
_LOST = (OSError, ConnectionClosed, InvalidHandshake, InvalidMessage, TimeoutError, ValueError)


class Link:
    """Carries configurations down and statistics up."""

    def __init__(
        self,
        state: StateDirectory,
        joined: Joined,
        daemon: GatewayDaemon,
        applier: Applier,
        bridge: GatewayBridge,
        capabilities: tuple[str, ...],
    ) -> None:
        self._state = state
        self._joined = joined
        self._daemon = daemon
        self._applier = applier
        self._capabilities = capabilities
        self._connection: ClientConnection | None = None
        self._reporter = Reporter(daemon, time.monotonic, bridge.interfaces)
        self._switch = SwitchLink(bridge, self._dial)
        self._taken = asyncio.Event()
        """Set when there is something to report."""
        self._new_key: bytes | None = None
        self._measuring: set[asyncio.Task[None]] = set()
        """Idle paths that are measured."""
        self._working = asyncio.Lock()
        """Held while the daemon is changed, which threads do."""

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._connect())
            group.create_task(self._advance())
            group.create_task(self._measure())
            group.create_task(self._supervise())
            group.create_task(self._switch.run())

    async def _connect(self) -> None:
        wait = _FIRST_WAIT_S
        while True:
            try:
                began = time.monotonic()
                await self._session()
            except _LOST as error:
                if _refused(error):
                    wait = _REFUSED_WAIT_S
                    _log.error("the controller does not accept this gateway")
                else:
                    _log.warning("controller: %s", error or type(error).__name__)
            finally:
                self._connection = None
            if time.monotonic() - began > _LONGEST_WAIT_S:
                wait = _FIRST_WAIT_S
            # Many gateways lose the same controller at once.
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            wait = min(wait * 2, _LONGEST_WAIT_S)

    async def _session(self) -> None:
        async with self._dial("/") as connection:
            await connection.send(self._hello().model_dump_json())
            _log.info("connected to %s", authority_of(self._joined.host, self._joined.port))
            self._connection = connection
            reporting = asyncio.create_task(self._report(connection))
            try:
                async for message in connection:
                    if isinstance(message, str):
                        await self._handle(message)
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)

    @asynccontextmanager
    async def _dial(self, path: str) -> AsyncIterator[ClientConnection]:
        """Connect to the controller; both show certificates."""
        trust = self._trust()
        opened = await asyncio.wait_for(dial(self._joined.host, self._joined.port), _OPEN_S)
        async with connect(
            f"wss://{authority_of(self._joined.host, self._joined.port)}{path}",
            ssl=trust,
            server_hostname=SERVER_NAME,
            compression=None,
            max_size=MAX_MESSAGE,
            ping_interval=5,
            ping_timeout=10,
            open_timeout=_OPEN_S,
            close_timeout=2,
            proxy=None,
            sock=opened,
        ) as connection:
            yield connection

    def _trust(self) -> ssl.SSLContext:
        context = trusting(self._state.authority())
        pki, branch = self._state.pki, self._joined.branch
        context.load_cert_chain(pki / f"{branch}.pem", pki / f"{branch}.key")
        return context

    def _hello(self) -> Hello:
        good = self._applier.good
        return Hello(
            protocol=PROTOCOL,
            software=hawser.__version__,
            time=time.time(),
            capabilities=self._capabilities,
            applied=good.digest if good else None,
            applied_version=good.version if good else None,
            measures=True,
        )

    async def _handle(self, text: str) -> None:
        message = from_controller(text)
        if isinstance(message, Acknowledge):
            if message.run == self._reporter.run:
                self._reporter.backlog.acknowledge(message.sequence)
            return
        if isinstance(message, Measure):
            task = asyncio.create_task(self._measure_path(message))
            self._measuring.add(task)
            task.add_done_callback(self._measuring.discard)
            return
        async with self._working:
            if isinstance(message, Configure):
                await asyncio.to_thread(self._applier.configure, message)
            elif isinstance(message, Confirm):
                self._applier.confirm(message)
            elif isinstance(message, Renewed):
                await asyncio.to_thread(self._renewed, message)

    async def _measure_path(self, asked: Measure) -> None:
        """Measure an idle path, and tell the controller."""
        found = Measured(place=asked.place, error="too many paths are being measured")
        if len(self._measuring) <= _MOST_MEASURING:
            # NumPy and SciPy take 50 MB, which gateways that measure nothing need not have.
            trains = await asyncio.to_thread(import_module, "hawser.agent.trains")
            found = await trains.measure(asked, self._train)
        if self._connection is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._connection.send(found.model_dump_json())

    async def _train(self, request: TrainRequest) -> TrainAnswer:
        return await asyncio.to_thread(self._daemon.train, request)

    async def _advance(self) -> None:
        """Look after the configuration on trial, connected or not."""
        while True:
            await asyncio.sleep(_TICK_S)
            async with self._working:
                message = await asyncio.to_thread(self._applier.advance)
            connection = self._connection
            if message is None or connection is None:
                continue
            if isinstance(message, Trying) and not await self._dials():
                continue
            try:
                await connection.send(message.model_dump_json())
            except ConnectionClosed:
                continue
            self._applier.note_sent(message)

    async def _dials(self) -> bool:
        """Tell whether the controller can be reached anew.

        Its connection may outlive a configuration that diverts new ones: it has its source address
        already, by which the kernel chooses the port.
        """
        with contextlib.suppress(OSError):
            (await dial(self._joined.host, self._joined.port)).close()
            return True
        return False

    async def _supervise(self) -> None:
        """Start the daemon again where it has ended or hangs."""
        silent = 0
        while True:
            await asyncio.sleep(_REPORT_S)
            await asyncio.to_thread(self._daemon.bound_log)
            if self._applier.good is None:
                continue
            async with self._working:
                answers = await asyncio.to_thread(self._daemon.status) is not None
                silent = 0 if answers else silent + 1
                if silent >= _HUNG:
                    _log.error("the daemon does not answer any more")
                    await asyncio.to_thread(self._daemon.stop)
                    silent = 0
                if not await asyncio.to_thread(self._daemon.runs):
                    await asyncio.to_thread(self._applier.restore)
                await asyncio.to_thread(self._applier.refresh)

    async def _report(self, connection: ClientConnection) -> None:
        sender, asked = Sender(self._reporter), float("-inf")
        while True:
            self._taken.clear()
            for frame in sender.frames():
                await connection.send(frame)
            if time.monotonic() - asked > _RENEW_EVERY_S and self._should_renew():
                asked = time.monotonic()
                await connection.send(self._renew().model_dump_json())
            await self._taken.wait()

    async def _measure(self) -> None:
        """Take a report in each second, at the same fraction of it, connected or not."""
        fraction, last = random.uniform(0.1, 0.9), 0  # noqa: S311 (not all gateways at once)
        while True:
            await asyncio.sleep((fraction - time.time()) % 1)
            second = math.floor(time.time() - fraction + 0.5)
            reading = await asyncio.to_thread(self._reporter.read)
            if second != last:  # it was not early
                self._reporter.take(second, reading)
            last = second
            self._taken.set()
            await asyncio.sleep(0.1)

    def _should_renew(self) -> bool:
        """Renew when a third of the lifetime is left."""
        found = self._state.certificate(self._joined.branch)
        begin, end = found.not_valid_before_utc, found.not_valid_after_utc
        return end - datetime.now(UTC) < (end - begin) / 3

    def _renew(self) -> Renew:
        key = new_key()
        self._new_key = key_pem(key)
        return Renew(request=new_request(key, self._joined.branch).decode())

    def _renewed(self, message: Renewed) -> None:
        if self._new_key is None:
            return
        authority, certificate = self._state.authority(), message.certificate.encode()
        self._state.put_pki(self._joined.branch, authority, certificate, self._new_key)
        self._new_key = None
        _log.info("the certificate was renewed")
        self._applier.restore()  # the daemon reads its files again


def _refused(error: BaseException) -> bool:
    """Tell whether the controller has refused this gateway, rather than been away."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code == HTTPStatus.FORBIDDEN
    return isinstance(error, ConnectionClosed) and bool(error.rcvd and error.rcvd.code == REVOKED)
