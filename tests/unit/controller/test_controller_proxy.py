"""The PROXY protocol before the API, and the cap of connections before TLS."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from controller_sample import Clock, controller
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse

from hawser.controller.access.limit import plain
from hawser.controller.api.connection import Connection
from hawser.controller.api.proxy import (
    FIXED,
    SIGNATURE,
    ProxiedServer,
    client_of,
    length_of,
)
from hawser.controller.link.cap import Cap, Capped

LOCAL = {IPv4Address("127.0.0.1")}


def header(source: str, port: int = 4711, *, command: int = 1, more: bytes = b"") -> bytes:
    address = ip_address(source)
    family = 0x11 if address.version == 4 else 0x21
    rest = 2 * address.packed + port.to_bytes(2) + (443).to_bytes(2) + more
    return SIGNATURE + bytes([0x20 | command, family]) + len(rest).to_bytes(2) + rest


@given(st.ip_addresses(), st.integers(0, 65535), st.binary(max_size=50))
def test_a_header_names_the_client(
    address: IPv4Address | IPv6Address, port: int, more: bytes
) -> None:
    found = header(str(address), port, more=more)
    assert length_of(found[:FIXED]) == len(found) - FIXED
    assert client_of(found[:FIXED], found[FIXED:]) == (str(address), port)
    own = header(str(address), port, command=0)
    assert client_of(own[:FIXED], own[FIXED:]) is None


@given(st.binary(min_size=FIXED, max_size=FIXED), st.binary(max_size=80))
@example(SIGNATURE + b"\x21\x11\x00\x04", b"1234")
@example(SIGNATURE + b"\x22\x11\x00\x00", b"")
@example(SIGNATURE + b"\x21\x31\x00\x00", b"")
def test_any_bytes_are_a_header_or_an_error(fixed: bytes, rest: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert length_of(fixed) <= 4096
        client_of(fixed, rest)
    with contextlib.suppress(ValueError):
        client_of(SIGNATURE + fixed[12:], rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("fe80::1%eth0", "fe80::1")],
)
def test_addresses_are_compared_as_they_are(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("controller") / "acme"
    controller(path, Clock()).close()
    return path


@contextlib.asynccontextmanager
async def served(pki: Path, **options: Any) -> AsyncIterator[ProxiedServer]:  # noqa: ANN401
    """A server that answers with the address of the client."""

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 (ASGI)
        if scope["type"] == "http":
            await PlainTextResponse(f"you are {scope['client'][0]}.")(scope, receive, send)

    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http=Connection,
        lifespan="off",
        log_config=None,
        ws="none",
        ssl_certfile=pki / "server.pem",
        ssl_keyfile=pki / "server.key",
    )
    server = ProxiedServer(config, options.get("proxies", LOCAL))
    task = asyncio.create_task(server.serve())
    while not server.started or not server.port:
        await asyncio.sleep(0.01)
    yield server
    server.should_exit = True
    await task


async def asked(port: int, first: bytes) -> str:
    """Answer to a request that comes after some bytes; empty if the connection ends."""
    made = socket.create_connection(("127.0.0.1", port), 20)
    made.sendall(first)
    made.setblocking(False)
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        reader, writer = await asyncio.open_connection(sock=made, ssl=tls, server_hostname="any")
    except OSError:
        return ""
    writer.write(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.decode()


def test_requests_come_from_whom_the_proxy_says(pki: Path) -> None:
    async def main() -> None:
        async with served(pki) as server, asyncio.timeout(60):
            for address in ("192.0.2.77", "2001:db8::7"):
                assert f"you are {address}." in await asked(server.port, header(address))
            health = header("192.0.2.77", command=0)
            assert "you are 127.0.0.1." in await asked(server.port, health)

    asyncio.run(main())


def test_a_proxy_without_a_header_is_refused(pki: Path) -> None:
    async def main() -> None:
        async with served(pki) as server, asyncio.timeout(60):
            assert await asked(server.port, b"") == ""
            assert await asked(server.port, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n") == ""
            assert await asked(server.port, header("192.0.2.1")[:20]) == ""
            assert "you are" in await asked(server.port, header("192.0.2.1")), "others go on"

    asyncio.run(main())


def test_who_is_no_proxy_cannot_say_that_it_is_another(pki: Path) -> None:
    async def main() -> None:
        others = {IPv4Address("127.0.0.9")}
        async with served(pki, proxies=others) as server, asyncio.timeout(60):
            assert await asked(server.port, header("192.0.2.1")) == ""
            assert "you are 127.0.0.1." in await asked(server.port, b"")

    asyncio.run(main())


@pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy (Debian haproxy) lacks")
def test_haproxy_says_for_whom_it_connects(pki: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with served(pki) as server, asyncio.timeout(60):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            file = tmp_path / "haproxy.cfg"
            file.write_text(_HAPROXY.format(port=port, to=server.port))
            process = subprocess.Popen(["haproxy", "-db", "-f", str(file)])
            try:
                while not (answer := await through(port)):
                    await asyncio.sleep(0.05)
            finally:
                process.terminate()
                process.wait(30)
        assert "you are 127.0.0.5." in answer

    asyncio.run(main())


_HAPROXY = """
defaults
  mode tcp
  timeout connect 1s
  timeout client 1m
  timeout server 1m
listen api
  bind 127.0.0.1:{port}
  server one 127.0.0.1:{to} send-proxy-v2 check check-send-proxy
"""


async def through(port: int) -> str:
    """Answer to a request from 127.0.0.5."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, local_addr=("127.0.0.5", 0)
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    except OSError:
        return ""
    return answer.decode()


class Echo(asyncio.Protocol):
    """Sends everything back."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (any transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def test_strangers_are_counted_before_tls(pki: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki / "server.pem", pki / "server.key")
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    cap = Cap(most=3, most_of_source=2)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Capped(Echo(), tls, cap), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, asyncio.timeout(60):
            waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b"", "its source has two already"
            writer.close()
            for _, other in waiting:
                other.close()
            await _until_none(cap)
            made = []
            for number in range(5):  # who has shown a certificate is not counted
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
                writer.write(b"%d" % number)
                assert await reader.readexactly(1) == b"%d" % number
                made.append(writer)
            for each in made:
                each.close()

    asyncio.run(main())


async def _until_none(cap: Cap) -> None:
    while cap.total:
        await asyncio.sleep(0.01)


def test_connections_that_end_at_once_leave_nothing_behind(pki: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki / "server.pem", pki / "server.key")
    cap, faults, made = Cap(), list[object](), list[Echo]()

    class Noted(Echo):
        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (any transport)
            made.append(self)

    def hammer(port: int) -> None:
        for number in range(30):
            with socket.create_connection(("127.0.0.1", port)) as stream:
                if number % 2:
                    stream.sendall(b"this is not TLS")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, found: faults.append(found))
        server = await loop.create_server(lambda: Capped(Noted(), tls, cap), "127.0.0.1", 0)
        async with server, asyncio.timeout(60):
            await asyncio.to_thread(hammer, server.sockets[0].getsockname()[1])
            await asyncio.sleep(0.2)
            await _until_none(cap)

    for run in (asyncio.run, uvloop.run):
        run(main())
    assert not faults
    assert not made


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_that_begins_at_once_is_heard(pki: Path, run: Callable[[Any], None]) -> None:
    """Its first bytes may be there before TLS has the connection."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki / "server.pem", pki / "server.key")
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    def talk(port: int) -> None:
        for number in range(100):
            with (
                socket.create_connection(("127.0.0.1", port), timeout=60) as stream,
                trusting.wrap_socket(stream) as secured,
            ):
                secured.sendall(b"%03d" % number)
                assert secured.recv(3) == b"%03d" % number

    async def main() -> None:
        loop, cap = asyncio.get_running_loop(), Cap()
        server = await loop.create_server(lambda: Capped(Echo(), tls, cap), "127.0.0.1", 0)
        async with server, asyncio.timeout(60):
            await asyncio.to_thread(talk, server.sockets[0].getsockname()[1])

    run(main())


def test_all_sources_together_are_limited() -> None:
    cap = Cap(most=3, most_of_source=2)
    assert [cap.enter(each) for each in "aaabb"] == [True, True, False, True, False]
    cap.leave("a")
    assert cap.enter("b")
    assert cap.total == 3
