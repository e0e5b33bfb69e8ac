"""A chain of a sensor and the firewall that blocks what it finds.

   client ---- sff ---- server       f1: sensor, f2: firewall            (lab/function/chain.py)
              /   \\
            f1 --- f2                m0 at both: 192.0.2.1 and 192.0.2.2, the firewall's REST API

The client has a second address, 10.0.0.66, from which attacks come. A mirrored sensor is in the
namespace of f1, which is a plain forwarder then, and observes what the SFF reports.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hawser.driver.parts import pki
from hawser.node.netns import namespace
from lab.function import model
from lab.function.chain import Chain, Node
from lab.namespace import run
from lab.waiting import PATIENCE, until

BENIGN, ATTACKER, SERVER = "10.0.0.1", "10.0.0.66", "10.0.0.2"
_REST, _PORT, _TOKEN = "192.0.2.2", 8443, "a-token-of-this-test"
DISCARD = 9
"""Port of the server to which floods go."""


class Sensed:
    """The chain; the sensor is not started yet."""

    def __init__(
        self,
        chain: Chain,
        nodes: model.Nodes,
        *,
        mirrored: bool,
        **verdicts: Any,  # noqa: ANN401 (JSON)
    ) -> None:
        self.chain = chain
        self.mirrored = mirrored
        self.model = chain.folder / "model.json"
        model.write(self.model, model.text(nodes))
        self.records = chain.folder / "records"
        self.firewall = self._firewall()
        self.sensor = self._sensor(verdicts)
        chain.at("client", "ip", "address", "add", f"{ATTACKER}/24", "dev", "c0")
        self._cable()
        self.firewall.start()

    def blocks(self) -> list[dict[str, Any]]:
        """What the sensor says that it blocks."""
        found: list[dict[str, Any]] = self.sensor.get("/v1/blocks")["blocks"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """The rules of the firewall."""
        found: list[dict[str, Any]] = self.firewall.get("/v1/rules")["rules"]
        return found

    def status(self) -> dict[str, Any]:
        """What the sensor has seen and done."""
        found: dict[str, Any] = self.sensor.get("/v1/ids")
        return found

    def has_counted_all(self) -> bool:
        """Whether every packet that was reported is in a flow: none waits in a ring."""
        status = self.status()
        return bool(status["flows"]["packets"] == status["packets"]["observed"])

    def in_force(self) -> dict[str, Any] | None:
        """A block that the firewall has."""
        return next((each for each in self.blocks() if each["state"] == "in_force"), None)

    def written(self) -> list[dict[str, Any]]:
        """All records in the log."""
        files = sorted(self.records.glob("records-*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def udp(self, label: str, address: str, port: int) -> socket.socket:
        """Give a socket in a namespace."""

        def bound() -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind((address, port))
            made.settimeout(0.2)
            return made

        return namespace.inside(self.chain.namespace(label), bound)

    def flood(self, port: int = 5555) -> dict[str, Any]:
        """Send datagrams that nobody answers, until a new block is in force; gives the block."""
        known = {each["id"] for each in self.blocks()}
        found: list[dict[str, Any]] = []

        def blocked() -> bool:
            new = (each for each in self.blocks() if each["id"] not in known)
            found.extend(each for each in new if each["state"] == "in_force")
            return bool(found)

        self.attack(port, blocked, "the flood is blocked")
        return found[0]

    def attack(self, port: int, done: Callable[[], bool], what: str) -> None:
        """Send datagrams that nobody answers, until something is so."""
        with self.udp("client", ATTACKER, port) as attacker:

            def is_done() -> bool:
                for _ in range(20):
                    attacker.sendto(bytes(64), (SERVER, DISCARD))
                return done()

            with self.udp("server", SERVER, DISCARD):
                until(is_done, what)

    def attack_passes(self) -> bool:
        """Whether a datagram of the attacker reaches the server."""
        with self.udp("server", SERVER, DISCARD) as server:
            with self.udp("client", ATTACKER, 5556) as attacker:
                for _ in range(3):
                    attacker.sendto(b"attack", (SERVER, DISCARD))
            with suppress(TimeoutError):
                return server.recv(100) == b"attack"
            return False

    def scan(self) -> None:
        """Connect to ports of the server that are closed."""
        for port in range(1, 41):

            def connect(port: int = port) -> None:
                with socket.socket() as scanner:
                    scanner.settimeout(0.2)
                    scanner.bind((ATTACKER, 0))
                    scanner.connect_ex((SERVER, port))

            namespace.inside(self.chain.namespace("client"), connect)
            if self.in_force():
                return

    def _firewall(self) -> Node:
        folder = self.chain.folder
        (folder / "token").write_text(_TOKEN + "\n")
        pki.make(folder, ["f2"])
        tls = {"certificate": str(folder / "f2.pem"), "key": str(folder / "f2.key")}
        rest = {"listen": f"{_REST}:{_PORT}", "token_file": str(folder / "token"), "tls": tls}
        return self.chain.firewall(2, rest=rest)

    def _sensor(self, verdicts: dict[str, Any]) -> Node:
        folder = self.chain.folder
        trust = {"authority": str(folder / "ca.pem"), "name": "f2"}
        firewall = {
            "address": f"{_REST}:{_PORT}",
            "token_file": str(folder / "token"),
            "tls": trust,
        }
        settings = {
            "firewalls": [firewall],
            "blocks_file": str(folder / "blocks.json"),
            "evidence": {"flows": 1},
            **verdicts,
        }
        ids = {
            "model": str(self.model),
            "records": {"folder": str(self.records)},
            "flows": {"window_ms": 200},
            "verdicts": settings,
        }
        if not self.mirrored:
            return self.chain.sensor(1, ids)
        self.chain.sff.config["sensor"] = {}
        ids["forwarder"] = self.chain.sff.config["control"]
        control = str(folder / "ids.sock")
        config = {"version": 1, "control": control, "ports": [], "ids": ids}
        (folder / "sensor").mkdir()
        return Node(self.chain.namespace("f1"), "ids", config, folder / "sensor")

    def _cable(self) -> None:
        here, there = (self.chain.namespace(label) for label in ("f1", "f2"))
        peer = ["peer", "name", "m0", "netns", there]
        run("ip", "-n", here, "link", "add", "m0", "type", "veth", *peer)
        for label, address in (("f1", "192.0.2.1"), ("f2", _REST)):
            self.chain.at(label, "ip", "address", "add", f"{address}/24", "dev", "m0")
            self.chain.at(label, "ip", "link", "set", "m0", "up")


@contextmanager
def sensed(
    nodes: model.Nodes,
    *,
    mirrored: bool = False,
    **verdicts: Any,  # noqa: ANN401 (JSON)
) -> Iterator[Sensed]:
    """Give a chain whose sensor runs, with this model and these settings."""
    with Chain(2, start=False) as chain:
        made = Sensed(chain, nodes, mirrored=mirrored, **verdicts)
        try:
            for node in dict.fromkeys((made.sensor, chain.functions[0], chain.sff)):
                node.start()
            # Neighbours are known before anything counts, and the chain carries packets.
            until(lambda: chain.answered(1) == 1, "an echo is answered", PATIENCE)
            yield made
        finally:
            made.sensor.stop(signal.SIGKILL)


def files(folder: Path) -> list[str]:
    """Give the names of record files."""
    return sorted(each.name for each in folder.iterdir())
