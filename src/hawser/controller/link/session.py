"""One gateway's connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import Protocol

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from hawser.control.link import (
    PROTOCOL,
    REVOKED,
    Acknowledge,
    Configure,
    Confirm,
    Hello,
    Measure,
    Measured,
    Message,
    Outcome,
    Peers,
    Renew,
    Renewed,
    Series,
    Trying,
    from_gateway,
)
from hawser.control.tasks import until_first
from hawser.controller.context import Context
from hawser.controller.inventory.gateway import by_id, renew
from hawser.controller.jobs.watch import Plan
from hawser.controller.link.notes import Note, Notes
from hawser.controller.policy.configuration import Desired
from hawser.controller.policy.sync import Sync, sync
from hawser.controller.telemetry import observation
from hawser.controller.telemetry.intake import Intake

_HELLO_S = 10.0
_MOST_WAITING = 16
"""Messages of one gateway that wait for the database."""


class Desk(Protocol):
    """What a session needs of the server."""

    notes: Notes

    async def fresh_plan(self) -> Plan:
        """Wait for a plan with everything that was written until now."""


class Session:
    """Sends what a gateway should have, and writes down what it says."""

    def __init__(
        self,
        context: Context,
        connection: ServerConnection,
        gateway: tuple[int, str],
        plan: Plan,
        server: Desk,
    ) -> None:
        self._context = context
        self._server = server
        self._connection = connection
        self._gateway, self._branch = gateway
        self._plan = plan
        self._who = (self._gateway, f"{context.instance}/{id(self):x}")
        """The gateway, and this connection among all of all controllers."""
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._asking: set[asyncio.Task[None]] = set()
        """Messages to the gateway that threads have sent."""
        self.intake: Intake | None = None
        """Takes the gateway's reports, once it has said who it is."""
        self._up: Mapping[str, bool] | None = None
        """Whom it reaches; None once that is written down."""
        self._sent: str | None = None
        """Digest of the configuration that was sent and has no outcome yet."""

    def take(self, plan: Plan) -> None:
        """Take a plan that may differ from the last."""
        before, self._plan = self._plan, plan
        if self._state(before) != self._state(plan) or plan.observed[self._gateway].failed:
            self._wake.set()

    def _state(self, plan: Plan) -> object:
        """What of a plan concerns this gateway."""
        number, branch = self._gateway, self._branch
        return number in plan.approved, plan.observed.get(number), plan.desired.get(branch)

    async def run(self) -> None:
        """Serve the gateway until its connection ends.

        Raises:
            ConnectionClosed: it has ended.
            ValueError: the gateway does not keep to the protocol.
            TimeoutError: it says nothing.
        """
        hello = from_gateway(str(await asyncio.wait_for(self._connection.recv(), _HELLO_S)))
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL:
            raise ValueError(f"expected hello of protocol {PROTOCOL}")
        context, now = self._context, self._context.clock()
        gateway = (self._gateway, self._branch)
        self.intake = Intake(context.statistics, context.latest, gateway, hello, now)
        await self._note(lambda s: observation.connected(s, *self._who, hello, now))
        if hello.measures:
            context.trains.join(self._branch, self._ask)
        self._plan = await self._server.fresh_plan()
        try:
            await until_first(self._push(), self._listen())
        finally:
            context.trains.leave(self._branch, self._ask)
            tasks = (*self._tasks, *self._asking)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, code: int, reason: str) -> None:
        """End the connection."""
        await self._connection.close(code, reason)

    async def end(self) -> None:
        """Write down that the connection has ended."""
        now = self._context.clock()
        with contextlib.suppress(TimeoutError):  # it is written when the database is back
            async with asyncio.timeout(_HELLO_S):
                await self._note(lambda s: observation.disconnected(s, *self._who, now))

    async def _push(self) -> None:
        while True:
            self._wake.clear()
            if self._gateway not in self._plan.approved:
                await self.close(REVOKED, "this gateway was revoked")
                return
            wanted = self._wanted()
            if wanted is not None and wanted.digest != self._sent:
                self._sent = wanted.digest
                await self._send(
                    Configure(
                        version=wanted.version,
                        digest=wanted.digest,
                        document=wanted.document,
                        expected=tuple(sorted(self._plan.connected & wanted.peers)),
                    )
                )
            await self._wake.wait()

    def _wanted(self) -> Desired | None:
        """Give the configuration to send, if it differs from what the gateway has."""
        wanted = self._plan.desired.get(self._branch)
        observed = self._plan.observed[self._gateway]
        if sync(wanted, observed, self._context.clock()) is Sync.APPLYING:
            return wanted
        return None

    async def _listen(self) -> None:
        async for text in self._connection:
            if not isinstance(text, bytes):
                await self._handle(from_gateway(text))
            elif self.intake is not None:
                self.intake.take(text)

    async def _handle(self, message: Message) -> None:
        match message:
            case Series():
                if self.intake is not None:
                    self.intake.describe(message)
            case Peers():
                self._up, began = message.up, self._up is not None
                if not began:
                    self._later(self._note_peers())
            case Trying():
                wanted = self._plan.desired.get(self._branch)
                if wanted is not None and wanted.digest == message.digest:
                    await self._send(Confirm(digest=message.digest))
            case Outcome():
                self._later(self._ended(message))
            case Renew():
                await self._renew(message)
            case Measured():
                now = self._context.clock().timestamp()
                self._context.trains.take(self._branch, message, now)
            case _:
                raise ValueError(f"found {type(message).__name__} where none is expected")

    def _ask(self, message: Measure) -> None:
        """Have the gateway measure a path. Threads may call it."""
        self._loop.call_soon_threadsafe(self._begin_to_ask, message)

    def _begin_to_ask(self, message: Measure) -> None:
        task = asyncio.create_task(self._ask_now(message))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask_now(self, message: Measure) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._send(message)

    async def _ended(self, outcome: Outcome) -> None:
        """Write down what became of a configuration.

        Only then may the same configuration be sent again, where it failed.
        """
        now = self._context.clock()
        await self._note(lambda s: observation.outcome(s, self._gateway, outcome, now))
        self._plan = await self._server.fresh_plan()
        self._sent = None
        self._wake.set()

    async def _note_peers(self) -> None:
        """Write down whom the gateway reaches: the newest, however often it says so meanwhile."""
        written: Mapping[str, bool] | None = None
        try:
            while self._up is not None and self._up is not written:
                written = self._up
                await self._note(self._reaching(written))
        finally:
            self._up = None

    def _reaching(self, up: Mapping[str, bool]) -> Note:
        now = self._context.clock()
        return lambda session: observation.reaches(session, *self._who, up, now)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        """Do something that waits for the database, which may be away: reports go on.

        Raises:
            ValueError: the gateway says more than one does that waits for answers.
        """
        if len(self._tasks) >= _MOST_WAITING:
            work.close()
            raise ValueError(f"found {_MOST_WAITING} messages that wait for the database")
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def acknowledge(self, message: Acknowledge) -> None:
        """Tell the gateway that its reports are stored."""
        with contextlib.suppress(ConnectionClosed):
            await self._send(message)
            if self.intake is not None:
                self.intake.acknowledged(message)

    async def _renew(self, message: Renew) -> None:
        context, now = self._context, self._context.clock()

        def sign() -> str:
            with context.database.write() as session:
                gateway = by_id(session, self._gateway)
                return renew(session, context.signer, gateway, message.request, now).pem

        await self._send(Renewed(certificate=await asyncio.to_thread(sign)))

    async def _send(self, message: Message) -> None:
        await self._connection.send(message.model_dump_json())

    async def _note(self, write: Note) -> None:
        await self._server.notes.write(write)
