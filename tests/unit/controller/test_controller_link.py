"""Gateways' connections to a controller, over real mutual TLS on the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from controller_sample import PASSWORD, Api, Machine, network
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from hawser.control.https import trusting
from hawser.control.link import (
    MISUSED,
    PROTOCOL,
    REPLACED,
    REVOKED,
    SERVER_NAME,
    Acknowledge,
    Configure,
    Confirm,
    Hello,
    Measure,
    Measured,
    Outcome,
    Peers,
    Place,
    Renew,
    Renewed,
    Series,
    Trying,
    from_controller,
)
from hawser.control.series import Report, pack
from hawser.controller.context import Context
from hawser.controller.directory import Directory, Settings, init, open_context, utc_now
from hawser.controller.errors import Invalid
from hawser.controller.link import server
from hawser.controller.link.server import Server
from hawser.controller.telemetry.latest import Latest, Statistics
from hawser.pki.authority import Authority, pem
from hawser.pki.key import key_pem, new_key
from hawser.pki.request import new_request
from hawser.spec.route import Stop

HELLO = Hello(protocol=PROTOCOL, software="test", time=0.0, capabilities=("tun",))
RUN = "0123456789abcdef"
SERIES = Series(run=RUN, names=()).model_dump_json()


def second() -> int:
    """The time by the clock of `hello`."""
    return int(time.time())


def hello() -> str:
    """`HELLO` of a gateway whose clock is right."""
    return HELLO.model_copy(update={"time": time.time()}).model_dump_json()


class Controller:
    """A controller in this process, that serves gateways."""

    def __init__(self, path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        settings = Settings(database="sqlite:///controller.db", gateways_port=self.port)
        init(path / "acme", settings, network(), "admin", PASSWORD)
        self.path, self.directory = path, Directory(path / "acme")
        self.server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.context: Context = open_context(self.directory, utc_now, self._changed)
        self.api = Api(self.context).log_in()

    def _changed(self) -> None:
        if self.server is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self.server.changed)

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        async def serve() -> None:
            self._loop, self.server = asyncio.get_running_loop(), Server(self.context)
            async with asyncio.timeout(60), self.server.serving(self.directory):
                await test()

        asyncio.run(serve())
        self.context.close()

    def gateway(self, branch: str, **token: Any) -> ssl.SSLContext:  # noqa: ANN401 (JSON)
        """Let a machine join, and give what it connects with."""
        machine = Machine()
        text = self.api.do("POST", "/v1/tokens", {"branch": branch} | token)["token"]
        answer = machine.join(self.api, text).json()
        return self.trust(answer["certificate"].encode() + key_pem(machine.key))

    def trust(self, chain: bytes | None) -> ssl.SSLContext:
        context = trusting(self.directory.authority.read_bytes())
        if chain is not None:
            file = self.path / "chain.pem"
            file.write_bytes(chain)
            context.load_cert_chain(file)
        return context

    def connect(self, trust: ssl.SSLContext) -> connect:
        url = f"wss://127.0.0.1:{self.port}/"
        return connect(url, ssl=trust, server_hostname=SERVER_NAME, compression=None, proxy=None)

    async def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 (JSON)
        return await asyncio.to_thread(self.api.do, method, path, body)

    async def see(self, what: Callable[[Any], bool], number: int = 1) -> None:
        """Wait until the API says something of a gateway."""
        while not what(await self.ask("GET", f"/v1/gateways/{number}")):
            await asyncio.sleep(0.05)


@pytest.fixture
def controller(tmp_path: Path, _quick_passwords: None) -> Controller:
    return Controller(tmp_path)


async def said(connection: ClientConnection) -> Any:  # noqa: ANN401 (one of the messages)
    return from_controller(str(await connection.recv()))


async def code(connection: ClientConnection) -> int:
    """Wait until the controller ends a connection, and give the code that it gives for that."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await connection.recv()
    assert connection.close_code is not None
    return connection.close_code


def test_a_port_that_is_taken_is_an_error_at_once(controller: Controller) -> None:
    async def serve() -> None:
        async with asyncio.timeout(30), Server(controller.context).serving(controller.directory):
            pass

    with socket.create_server(("127.0.0.1", controller.port)), pytest.raises(OSError, match="bind"):
        asyncio.run(serve())
    controller.context.close()


def test_a_configuration_is_sent_confirmed_and_known(controller: Controller) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(hello())
            found = await said(gateway)
            assert isinstance(found, Configure)
            assert found.version == 1
            assert found.expected == ()
            await gateway.send(Trying(digest="0" * 64).model_dump_json())  # of another: no answer
            await gateway.send(Trying(digest=found.digest).model_dump_json())
            assert await said(gateway) == Confirm(digest=found.digest)
            kept = Outcome(digest=found.digest, version=1, result="kept")
            await gateway.send(kept.model_dump_json())
            await gateway.send(
                Series(run=RUN, names=("a/one", "a/two"), dropped=1).model_dump_json()
            )
            await gateway.send(pack(Report(0, second() - 1, (5.0, 6.0))))
            await gateway.send(pack(Report(2, second(), (7.0, math.nan))))
            await gateway.send(Peers(up={"b2": True}).model_dump_json())
            await controller.see(lambda each: each["peers"] == {"b2": True})
            await controller.see(lambda each: each["configuration"]["state"] == "in_force")
            shown = await controller.ask("GET", "/v1/gateways/1")
            assert shown["connected"]
            assert shown["software"] == "test"
            assert shown["capabilities"] == ["tun"]
            assert abs(shown["clock_offset_s"]) < 30
            statistics = await controller.ask("GET", "/v1/gateways/1/statistics")
            assert statistics["values"] == {"a/one": 7.0}
            assert statistics["lost"] == 1
            assert await said(gateway) == Acknowledge(run=RUN, sequence=2)
            # A change comes at once, and nothing else does.
            change = {"patch": {"overlay": {"queue": "2 MB"}}, "reason": "because"}
            await controller.ask("PATCH", "/v1/network", change)
            assert (await said(gateway)).version == 2
        await controller.see(lambda each: not each["connected"])

    controller.run(test)


@pytest.mark.parametrize("measures", [True, False])
def test_only_gateways_that_can_are_asked_to_measure_idle_paths(
    controller: Controller, measures: bool
) -> None:
    trust, trains = controller.gateway("b1"), controller.context.trains
    tunnel = Stop.of("b1.a"), Stop.of("b2.a")
    place = Place(peer="b2", group=0, member=3)

    def ask(now: float) -> None:
        trains.ask(now, [tunnel], {tunnel: place}, {tunnel[0]: 4e7})

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            own = HELLO.model_copy(update={"time": time.time(), "measures": measures})
            await gateway.send(own.model_dump_json())
            assert isinstance(await said(gateway), Configure)
            await asyncio.to_thread(ask, 0.0)
            if measures:
                assert await said(gateway) == Measure(place=place, port=4e7, seconds=20.0)
                found = Measured(place=place, available=9e6, low=8e6, high=1e7, trains=5)
                await gateway.send(found.model_dump_json())
                while not trains.found(time.time()):
                    await asyncio.sleep(0.05)
                assert trains.found(time.time())[tunnel].low == 8e6
            else:
                change = {"patch": {"overlay": {"queue": "2 MB"}}, "reason": "because"}
                await controller.ask("PATCH", "/v1/network", change)
                assert isinstance(await said(gateway), Configure), "nothing else was sent"
        await controller.see(lambda each: not each["connected"])

    controller.run(test)


def test_a_flood_of_messages_takes_no_memory(controller: Controller) -> None:
    """While the database is away, the newest of what a gateway reaches is kept."""
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(hello())
            found = await said(gateway)
            assert controller.server
            tasks = controller.server._sessions[1]._tasks
            with controller.context.database.write():
                for number in range(200):
                    await gateway.send(Peers(up={"b2": bool(number % 2)}).model_dump_json())
                await gateway.send(SERIES)
                await gateway.send(pack(Report(0, second(), ())))
                assert await said(gateway) == Acknowledge(run=RUN, sequence=0)
                assert len(tasks) <= 2
            await controller.see(lambda each: each["peers"] == {"b2": True})
            with controller.context.database.write():
                kept = Outcome(digest=found.digest, version=1, result="kept")
                with contextlib.suppress(ConnectionClosed):
                    for _ in range(100):
                        await gateway.send(kept.model_dump_json())
                assert await code(gateway) == MISUSED

    controller.run(test)


def test_a_gateway_that_was_revoked_is_forgotten() -> None:
    """By the controllers that did not revoke it, too, and for good."""
    latest = Latest()
    for number in (1, 2):
        latest.put(number, Statistics("b1", "0", 0, (), 7, 0, (), 0))
    latest.keep({2})
    assert list(latest.all()) == [2]


def test_a_roll_out_that_cannot_go_on_stops_nothing_else(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise Invalid([])

    monkeypatch.setattr(server, "advance", broken)
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(hello())
            assert isinstance(await asyncio.wait_for(said(gateway), 10), Configure)

    controller.run(test)


def test_what_failed_is_sent_again_only_when_asked_or_due(controller: Controller) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(HELLO.model_dump_json())
            first = await said(gateway)
            refused = Outcome(digest=first.digest, version=1, result="refused", detail="no")
            await gateway.send(refused.model_dump_json())
            await controller.see(lambda each: each["configuration"]["state"] == "failed")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(gateway.recv(), 1.5)
            await controller.ask("POST", "/v1/gateways/1/retry")
            assert await said(gateway) == first
            returned = Outcome(digest=first.digest, version=1, result="returned", detail="cut")
            await gateway.send(returned.model_dump_json())
            await controller.see(lambda each: each["configuration"]["state"] == "waiting")

    controller.run(test)


def test_strangers_get_no_further_than_the_handshake(controller: Controller) -> None:
    other = Authority.create("other", utc_now(), controller.context.signer.lifetime)
    key = new_key()
    foreign = other.sign(key.public_key(), ["b1"], utc_now(), controller.context.signer.lifetime)

    async def test() -> None:
        for chain in (None, pem(foreign) + key_pem(key)):
            with pytest.raises((ssl.SSLError, ConnectionError, InvalidMessage)):
                async with controller.connect(controller.trust(chain)):
                    pass

    controller.run(test)


def test_who_is_not_approved_or_revoked_is_refused(controller: Controller) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(HELLO.model_dump_json())
            await said(gateway)
            await controller.ask("POST", "/v1/gateways/1/revoke", {"reason": "stolen"})
            assert await code(gateway) == REVOKED
        with pytest.raises(InvalidStatus) as refused:
            async with controller.connect(trust):
                pass
        assert refused.value.response.status_code == 403

    controller.run(test)


@pytest.mark.parametrize(
    "frames",
    [
        ["x"],
        [b"\0" * 16],
        [HELLO.model_copy(update={"protocol": PROTOCOL + 1}).model_dump_json()],
        [HELLO.model_dump_json(), HELLO.model_dump_json()],
        [HELLO.model_dump_json(), b"\0" * 16],
        [HELLO.model_dump_json(), SERIES, b"\0" * 17],
        [HELLO.model_dump_json(), SERIES, b"\0" * 16, b"\0" * 16],
        [HELLO.model_dump_json(), Renew(request="x").model_dump_json()],
        [HELLO.model_dump_json(), '{"kind": "peers", "up": {"b2": 7}}'],
    ],
)
def test_what_is_not_the_protocol_ends_the_connection(
    controller: Controller, frames: list[str | bytes]
) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            with contextlib.suppress(ConnectionClosed):
                for frame in frames:
                    await gateway.send(frame)
            assert await code(gateway) == MISUSED

    controller.run(test)


def test_a_second_connection_takes_the_place_of_the_first(controller: Controller) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as first:
            await first.send(HELLO.model_dump_json())
            assert isinstance(await said(first), Configure)
            async with controller.connect(trust) as second:
                await second.send(HELLO.model_dump_json())
                assert await code(first) == REPLACED
                assert isinstance(await said(second), Configure)
                await controller.see(lambda each: bool(each["connected"]))

    controller.run(test)


def test_a_certificate_is_renewed_once_a_key(controller: Controller) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(HELLO.model_dump_json())
            await said(gateway)
            request = Renew(request=new_request(new_key(), "b1").decode()).model_dump_json()
            await gateway.send(request)
            renewed = await said(gateway)
            assert isinstance(renewed, Renewed)
            await gateway.send(request)
            assert await said(gateway) == renewed

    controller.run(test)


def test_reports_that_come_again_are_stored_once(controller: Controller) -> None:
    """As after a connection that was lost before the acknowledgement, with a clock that is off."""
    trust = controller.gateway("b1")
    clock = time.time() - 1000
    names = Series(run=RUN, names=("a/one",)).model_dump_json()
    reports = [pack(Report(n, int(clock) - 5 + n, (float(n),))) for n in range(5)]

    async def connect(frames: list[bytes]) -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(HELLO.model_copy(update={"time": clock}).model_dump_json())
            assert isinstance(await said(gateway), Configure)
            await gateway.send(names)
            for frame in frames:
                await gateway.send(frame)
            while await said(gateway) != Acknowledge(run=RUN, sequence=len(reports) - 1):
                pass

    async def test() -> None:
        await connect(reports)
        await connect(reports[2:])
        begin = second() - 60
        found = controller.context.statistics.history("b1", "a/one", begin, second() + 9, 1)
        assert found.mean.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert abs(found.times[-1] - time.time()) < 30
        lost = await controller.ask("GET", "/v1/gateways/1/statistics")
        assert lost["lost"] == 0

    controller.run(test)


def test_what_is_too_old_is_counted_and_not_sent_for_ever(controller: Controller) -> None:
    trust = controller.gateway("b1")

    async def test() -> None:
        async with controller.connect(trust) as gateway:
            await gateway.send(hello())
            await said(gateway)
            await gateway.send(SERIES)
            await gateway.send(pack(Report(7, second() - 5000, ())))
            assert await said(gateway) == Acknowledge(run=RUN, sequence=7)
            shown = await controller.ask("GET", "/v1/gateways/1/statistics")
            assert shown["lost"] == 1

    controller.run(test)
