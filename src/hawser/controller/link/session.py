"""One gateway's connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from hawser.control.link import (
    PROTOCOL,
    REVOKED,
    Acknowledge,
    Configure,
    Confirm,
    Hello,
    Message,
    Outcome,
    Peers,
    Renew,
    Renewed,
    Series,
    Trying,
    from_gateway,
)
from hawser.controller.context import Context
from hawser.controller.inventory.gateway import by_id, renew
from hawser.controller.jobs.watch import Plan
from hawser.controller.policy.configuration import Desired
from hawser.controller.policy.sync import Sync, sync
from hawser.controller.telemetry import observation
from hawser.controller.telemetry.intake import Intake
from hawser.controller.telemetry.observation import SEEN_EVERY

_HELLO_S = 10.0
T = TypeVar("T")


class Session:
    """Sends what a gateway should have, and writes down what it says."""

    def __init__(
        self,
        context: Context,
        connection: ServerConnection,
        gateway: tuple[int, str],
        plan: Plan,
        changed: Callable[[], None],
    ) -> None:
        self._context = context
        self._connection = connection
        self._gateway, self._branch = gateway
        self._plan = plan
        self._changed = changed
        self._id = f"{context.instance}/{id(self):x}"
        self._wake = asyncio.Event()
        self.intake: Intake | None = None
        """Takes the gateway's reports, once it has said who it is."""
        self._peers: dict[str, bool] = {}
        self._sent: str | None = None
        """Digest of the configuration that was sent and has no outcome yet."""

    def take(self, plan: Plan) -> None:
        """Take a plan that may differ from the last."""
        self._plan = plan
        self._wake.set()

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
        await self._note(lambda s: observation.connected(s, self._gateway, self._id, hello, now))
        self._changed()
        tasks = [asyncio.create_task(each()) for each in (self._push, self._listen, self._seen)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, code: int, reason: str) -> None:
        """End the connection."""
        await self._connection.close(code, reason)

    async def end(self) -> None:
        """Write down that the connection has ended."""
        now = self._context.clock()
        await self._note(lambda s: observation.disconnected(s, self._gateway, self._id, now))

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
                        expected=tuple(sorted(self._plan.connected - {self._branch})),
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
        now = self._context.clock()
        match message:
            case Series():
                if self.intake is not None:
                    self.intake.describe(message)
            case Peers():
                self._peers = message.up
                await self._saw()
            case Trying():
                wanted = self._plan.desired.get(self._branch)
                if wanted is not None and wanted.digest == message.digest:
                    await self._send(Confirm(digest=message.digest))
            case Outcome():
                await self._note(lambda s: observation.outcome(s, self._gateway, message, now))
                # Only then may the same configuration be sent again, where it failed.
                self._plan = await asyncio.to_thread(self._context.watch.plan)
                self._sent = None
                self._changed()
            case Renew():
                await self._renew(message)
            case _:
                raise ValueError(f"found {type(message).__name__} where none is expected")

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

    async def _seen(self) -> None:
        while True:
            await asyncio.sleep(SEEN_EVERY.total_seconds())
            await self._saw()

    async def _saw(self) -> None:
        now, peers = self._context.clock(), self._peers
        await self._note(lambda s: observation.seen(s, self._gateway, self._id, peers, now))

    async def _send(self, message: Message) -> None:
        await self._connection.send(message.model_dump_json())

    async def _note(self, write: Callable[[Transaction], T]) -> None:
        def note() -> None:
            with self._context.database.note() as session:
                write(session)

        await asyncio.to_thread(note)
