"""Simulated gateways: real connections to a controller, over mutual TLS, in a process of their own.

    python gateways.py folder port count seconds

They connect within so many seconds. The folder has ca.pem, and b0.pem, b1.pem and so on with
certificates and keys. A line on standard input is answered by a line of JSON: `state` with what the
gateways have done so far, `end` after they have stopped to report and everything is acknowledged.

Each gateway does what a gateway's agent does: it reports 20 series once a second, keeps reports
until they are acknowledged, connects again, and keeps a configuration four seconds after it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from hawser.agent.backlog import Backlog, Kept
from hawser.agent.trial import SETTLE_S
from hawser.control.link import (
    PROTOCOL,
    SERVER_NAME,
    Acknowledge,
    Configure,
    Confirm,
    Hello,
    Outcome,
    Peers,
    Series,
    Trying,
    from_controller,
)
from hawser.control.series import Report, pack

SERIES = 20
_LOST = (OSError, ConnectionClosed, InvalidHandshake, InvalidMessage, TimeoutError)


def names() -> tuple[str, ...]:
    """Series of a gateway with two paths; the first counts its reports."""
    path = ("capacity", "rtt", "jitter", "loss", "queue", "share", "up")
    paths = [f"path/b0/0/{member}/{metric}" for member in (0, 1) for metric in path]
    classes = [f"class/b0/II/{metric}" for metric in ("sent", "received", "dropped")]
    ports = [f"port/a/{metric}" for metric in ("sent", "received")]
    return ("path/b0/0/0/rate", *paths, *classes, *ports)


@dataclass
class Totals:
    """What all gateways have done."""

    connected: int = 0
    connections: int = 0
    reports: int = 0
    acknowledged: int = 0
    dropped: int = 0
    kept: Counter[int] = field(default_factory=Counter)
    longest_gap_s: float = 0.0
    """Longest time without a connection, of gateways that had one."""


class Gateway:
    """One gateway."""

    def __init__(self, name: str, port: int, trust: ssl.SSLContext) -> None:
        self._name, self._port, self._trust = name, port, trust
        self._random = random.Random(name)  # noqa: S311 (repeatable)
        self._run = f"{self._random.getrandbits(64):016x}"
        self._good: Configure | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken = asyncio.Event()
        self._lost_at: float | None = None
        self.backlog, self.sequence = Backlog(), 0

    async def work(self, totals: Totals, within: float) -> None:
        """Connect, again and again; the first time within so many seconds."""
        await asyncio.sleep(self._random.uniform(0, within))
        while True:
            with contextlib.suppress(*_LOST):
                await self._session(totals)
            await asyncio.sleep(self._random.uniform(0.1, 0.3))

    async def _session(self, totals: Totals) -> None:
        url = f"wss://127.0.0.1:{self._port}/"
        async with connect(
            url,
            ssl=self._trust,
            server_hostname=SERVER_NAME,
            compression=None,
            proxy=None,
            ping_interval=None,
        ) as connection:
            await connection.send(self._hello())
            totals.connected += 1
            totals.connections += 1
            if self._lost_at is not None:
                gap = time.monotonic() - self._lost_at
                totals.longest_gap_s = max(totals.longest_gap_s, gap)
            reporting = asyncio.create_task(self._report(connection))
            try:
                async for text in connection:
                    self._handle(connection, str(text), totals)
            finally:
                totals.connected -= 1
                self._lost_at = time.monotonic()
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)

    def _hello(self) -> str:
        good = self._good
        return Hello(
            protocol=PROTOCOL,
            software="bench",
            time=time.time(),
            applied=good.digest if good else None,
            applied_version=good.version if good else None,
        ).model_dump_json()

    def _handle(self, connection: ClientConnection, text: str, totals: Totals) -> None:
        if text.startswith('{"kind":"acknowledge"'):
            found = Acknowledge.model_validate_json(text)
            before = len(self.backlog)
            self.backlog.acknowledge(found.sequence)
            totals.acknowledged += before - len(self.backlog)
            return
        message = from_controller(text)
        if isinstance(message, Configure):
            task = asyncio.create_task(self._try(connection, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._trying = message
        elif isinstance(message, Confirm) and self._trying.digest == message.digest:
            self._good = self._trying
            totals.kept[self._trying.version] += 1
            outcome = Outcome(
                digest=message.digest, version=self._trying.version, result="kept"
            ).model_dump_json()
            task = asyncio.create_task(_send(connection, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _try(self, connection: ClientConnection, message: Configure) -> None:
        await asyncio.sleep(SETTLE_S if self._good else 0)
        await _send(connection, Trying(digest=message.digest).model_dump_json())

    async def _report(self, connection: ClientConnection) -> None:
        await connection.send(Peers(up={"b0": True}).model_dump_json())
        await connection.send(Series(run=self._run, names=names()).model_dump_json())
        sent = -1
        while True:
            self._taken.clear()
            for kept in tuple(self.backlog.after(sent)):
                await connection.send(kept.packed)
                sent = kept.sequence
            await self._taken.wait()

    async def measure(self, totals: Totals, until: asyncio.Event) -> None:
        """Take a report in each second."""
        fraction = self._random.uniform(0.1, 0.9)
        while not until.is_set():
            await asyncio.sleep((fraction - time.time()) % 1)
            values = [self._random.random() for _ in range(SERIES - 1)]
            packed = pack(Report(self.sequence, int(time.time()), (self.sequence, *values)))
            self.backlog.put(Kept(self.sequence, (), packed))
            self.sequence += 1
            totals.reports += 1
            totals.dropped = max(totals.dropped, self.backlog.dropped)
            self._taken.set()
            await asyncio.sleep(0.05)


async def _send(connection: ClientConnection, text: str) -> None:
    with contextlib.suppress(ConnectionClosed):  # it is said again on the next connection
        await connection.send(text)


def _trust(folder: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(folder / "ca.pem")
    context.load_cert_chain(folder / f"{name}.pem")
    return context


async def _main(folder: Path, port: int, count: int, within: float) -> None:
    totals, stopped = Totals(), asyncio.Event()
    found = [Gateway(f"b{n}", port, _trust(folder, f"b{n}")) for n in range(count)]
    working = [asyncio.create_task(each.work(totals, within)) for each in found]
    measuring = [asyncio.create_task(each.measure(totals, stopped)) for each in found]
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    print("{}", flush=True)
    while line := await reader.readline():
        if line.strip() == b"end":
            stopped.set()
            await asyncio.gather(*measuring)
            deadline = time.monotonic() + 60
            while any(len(each.backlog) for each in found) and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
        sequences = [each.sequence for each in found]
        answer = vars(totals) | {"kept": dict(totals.kept), "sequences": sequences}
        print(json.dumps(answer), flush=True)
    for task in working:
        task.cancel()


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
