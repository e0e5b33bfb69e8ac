"""The REST API of `hawserd function firewall` before clients that are hostile, slow or many.

f1: firewall, REST over TLS at 192.0.2.1, port 8443     (lab/function/chain.py)
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.parts import pki
from hawser.node.netns import namespace
from lab.function.chain import Chain, Node
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

TOKEN, NEXT = "an-old-token-of-this-test", "a-new-token-of-this-test"
HOST, PORT, OTHER = "192.0.2.1", 8443, "192.0.2.9"
MEBIBYTE = 1 << 20
PER_SOURCE = 16
"""Connections that one address may have."""


class Firewall:
    """A firewall with certificates of a lab, and clients of it in the same namespace."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.token = chain.folder / "token"
        self.token.write_text(TOKEN + "\n")
        certificates(chain.folder, "f1")
        tls = {key: str(chain.folder / f"f1.{end}") for key, end in PAIR.items()}
        rest = {"listen": f"{HOST}:{PORT}", "token_file": str(self.token), "tls": tls}
        self.node: Node = chain.firewall(1, rest=rest)
        chain.at("f1", "ip", "link", "set", "lo", "up")
        for address in (HOST, OTHER):
            chain.at("f1", "ip", "addr", "add", f"{address}/32", "dev", "lo")
        self.node.start()

    def plain(self, source: str = HOST) -> socket.socket:
        """A TCP connection."""
        return namespace.inside(
            self.chain.namespace("f1"),
            lambda: socket.create_connection((HOST, PORT), PATIENCE, (source, 0)),
        )

    def secure(self, source: str = HOST) -> ssl.SSLSocket:
        """A TLS connection, whose certificate is verified."""
        context = ssl.create_default_context(cafile=str(self.chain.folder / "ca.pem"))
        return context.wrap_socket(self.plain(source), server_hostname="f1")

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 (JSON)
        token: str = TOKEN,
        source: str = HOST,
    ) -> int:
        """Send a request on a connection of its own; gives the status of the answer."""
        connection = http.client.HTTPConnection(HOST, PORT)
        with contextlib.closing(self.secure(source)) as connection.sock:
            headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return connection.getresponse().status

    def connections(self) -> int:
        """Connections that the daemon has not closed."""
        listing = self.chain.at("f1", "ss", "-Htn", "state", "established", f"sport = :{PORT}")
        return len(listing.splitlines())

    def resident(self) -> int:
        """Memory of the daemon, bytes."""
        assert self.node.process
        pages = Path(f"/proc/{self.node.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")


PAIR = {"certificate": "pem", "key": "key"}


def certificates(folder: Path, name: str) -> None:
    """Write an authority's certificate, and one of its for a server, in place of earlier ones."""
    made = folder / "made"
    made.mkdir()
    pki.make(made, [name])
    for file in ("ca.pem", f"{name}.key", f"{name}.pem"):
        (made / file).replace(folder / file)
    made.rmdir()


@pytest.fixture
def firewall() -> Iterator[Firewall]:
    with Chain(1, start=False) as chain:
        yield Firewall(chain)


def test_rules_are_set_over_tls(firewall: Firewall) -> None:
    assert firewall.ask("POST", "/v1/rules", {"action": "deny"}) == 201
    assert firewall.ask("GET", "/v1/rules") == 200
    assert firewall.ask("GET", "/v1/rules", token="") == 401
    assert firewall.ask("GET", "/v1/rules", token=NEXT) == 401
    assert len(firewall.node.call("GET", "/v1/rules")[1]["rules"]) == 1
    with firewall.plain() as stream:
        stream.sendall(b"GET /v1/rules HTTP/1.1\r\nhost: f1\r\n\r\n")
        assert b"HTTP" not in stream.recv(4096), "nothing in clear"


def test_tokens_and_certificates_change_without_a_restart(firewall: Firewall) -> None:
    firewall.token.write_text(f"{TOKEN}\n{NEXT}\n")
    assert [firewall.ask("GET", "/v1/rules", token=each) for each in (TOKEN, NEXT)] == [200, 200]
    firewall.token.write_text(f"{NEXT}\n")
    assert [firewall.ask("GET", "/v1/rules", token=each) for each in (TOKEN, NEXT)] == [401, 200]
    firewall.token.unlink()
    assert firewall.ask("GET", "/v1/rules", token=NEXT) == 401
    firewall.token.write_text(f"{TOKEN}\n")
    old = firewall.secure()
    certificates(firewall.chain.folder, "f1")
    assert firewall.ask("GET", "/v1/rules") == 200, "by another authority"
    old.close()
    (firewall.chain.folder / "f1.key").write_text("broken")
    assert firewall.ask("GET", "/v1/rules") == 200, "the old certificate stays"


def test_a_large_body_is_refused(firewall: Firewall) -> None:
    """Without a token nothing of it is read; with one, not all of it is kept."""
    before = firewall.resident()
    for token, length, expected in (
        ("wrong", 4 * MEBIBYTE, b" 401 "),
        (TOKEN, 400 * MEBIBYTE, b" 413 "),
    ):
        with firewall.secure() as stream:
            head = f"authorization: Bearer {token}\r\ncontent-type: application/json\r\n"
            head = f"PUT /v1/rules HTTP/1.1\r\nhost: f1\r\n{head}content-length: {length}\r\n\r\n"
            stream.sendall(head.encode())
            with contextlib.suppress(OSError):
                for _ in range(length // MEBIBYTE):
                    stream.sendall(bytes(MEBIBYTE))
            with contextlib.suppress(OSError):
                assert expected in stream.recv(4096)
    assert firewall.resident() < before + 100 * MEBIBYTE
    assert firewall.ask("GET", "/v1/rules") == 200


def test_one_address_does_not_take_all_connections(firewall: Firewall) -> None:
    others = [firewall.plain() for _ in range(300)]
    until(lambda: firewall.connections() <= PER_SOURCE, "those in excess are closed")
    assert firewall.ask("GET", "/v1/rules", source=OTHER) == 200
    # The others shake no hands, and lose their places in time.
    until(lambda: firewall.connections() == 0, "the places are free")
    assert firewall.ask("GET", "/v1/rules") == 200
    for stream in others:
        stream.close()


def test_who_sends_slowly_loses_the_connection(firewall: Firewall) -> None:
    """A byte a second, in the header (slow loris), while others are served."""
    with firewall.secure() as stream:
        stream.sendall(b"GET /v1/rules HTTP/1.1\r\n")
        begin = time.monotonic()
        ended = False
        while not ended and time.monotonic() < begin + PATIENCE:
            try:
                stream.sendall(b"x")
                stream.settimeout(1)
                ended = stream.recv(4096) == b""
            except TimeoutError:
                assert firewall.ask("GET", "/v1/rules") == 200
            except OSError:
                ended = True
        assert ended


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        ({"listen": "192.0.2.1:8443"}, "firewall.rest.tls"),
        ({"listen": "127.0.0.1:1", "token_file": "/nowhere"}, "firewall.rest.token_file"),
        (
            {"listen": "127.0.0.1:1", "tls": {"certificate": "/nowhere", "key": "/nowhere"}},
            "firewall.rest.tls",
        ),
        ({"listen": "198.51.100.1:80", "tls": None}, "firewall.rest.tls"),
    ],
)
def test_what_cannot_be_served_is_refused_at_its_place(rest: dict[str, Any], place: str) -> None:
    with Chain(1, start=False) as chain:
        token = chain.folder / "token"
        token.write_text(TOKEN)
        node = chain.firewall(1, rest={"token_file": str(token), **rest})
        with pytest.raises(RuntimeError, match=place):
            node.start()
        assert node.process
        assert node.process.wait(PATIENCE) == 2
