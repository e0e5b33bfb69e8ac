"""A controller of many simulated gateways, each program on a core of its own."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO, cast

import httpx

from harness.machine import ROOT
from harness.ports import free_ports
from hawser.control.https import trusting
from hawser.controller.access.principal import system
from hawser.controller.context import Context
from hawser.controller.directory import (
    Directory,
    Settings,
    init,
    open_context,
    utc_now,
    write_settings,
)
from hawser.controller.inventory import gateway, token
from hawser.controller.inventory.token import Approval
from hawser.pki.key import key_pem, new_key
from hawser.pki.request import new_request
from hawser.spec.network import Network

CONNECT_S = 20.0
"""Seconds within which gateways connect first."""
PASSWORD = "correct horse battery"  # noqa: S105 (of a bench)


def network(count: int) -> Network:
    """A network of so many branches, with two hubs."""
    branches = {
        f"b{n}": {
            "id": n,
            "gateway": f"gw{n}",
            "wan": ["a", "b"],
            "lan": "lan0",
            "prefix": f"10.{n // 256}.{n % 256}.0/24",
        }
        for n in range(count)
    }
    ports = {
        f"gw{n}.{port}": {
            "address": f"{net}.{n // 250}.{n % 250 + 2}",
            "next_hop": f"{net}.{n // 250}.1",
        }
        for n in range(count)
        for port, net in (("a", "198.18"), ("b", "198.19"))
    }
    overlay = {
        "transport": "quic",
        "label_bits": 5,
        "switch": "none",
        "branches": branches,
        "hubs": ["b0", "b1"],
    }
    return Network.model_validate({"name": "bench", "overlay": overlay, "ports": ports})


class Controller:
    """A controller, and the keys and certificates of its gateways."""

    def __init__(self, folder: Path, count: int, database: str = "sqlite:///controller.db") -> None:
        self.folder, self.count = folder, count
        self.directory = Directory(folder / "controller")
        self.api_port, self.gateways_port = free_ports(2)
        settings = Settings(
            database=database, api_port=self.api_port, gateways_port=self.gateways_port
        )
        init(self.directory.path, settings, network(count), "admin", PASSWORD)
        context = open_context(self.directory, utc_now, lambda: None)
        self._join(context)
        context.close()
        (folder / "ca.pem").write_bytes(self.directory.authority.read_bytes())
        self.process: subprocess.Popen[bytes] | None = None

    def _join(self, context: Context) -> None:
        """Let all gateways join, as the API would."""
        who = system("bench")
        for n in range(self.count):
            key, now = new_key(), context.clock()
            request = new_request(key, "gateway").decode()
            with context.database.write() as session:
                made, secret = token.add_token(
                    session, who, now, f"b{n}", Approval.AUTOMATIC, timedelta(hours=1)
                )
                found = gateway.join(
                    session, context.signer, made.id, secret, request, "127.0.0.1", now
                )
                chain = gateway.certificates(session, found.id)[0].pem.encode() + key_pem(key)
            (self.folder / f"b{n}.pem").write_bytes(chain)

    def another(self, folder: Path) -> Controller:
        """Give another controller of the same database, as one is made on another machine."""
        made = copy.copy(self)
        made.folder, made.directory, made.process = folder, Directory(folder / "controller"), None
        made.api_port, made.gateways_port = free_ports(2)
        made.directory.path.mkdir(parents=True, mode=0o700)
        name = "sealing.key"
        shutil.copyfile(self.directory.path / name, made.directory.path / name)
        ports = {"api_port": made.api_port, "gateways_port": made.gateways_port}
        mine = self.directory.settings
        others = {"others": (f"https://localhost:{self.api_port}",)}
        settings = mine.model_copy(update=ports | others)
        theirs = (*mine.others, f"https://localhost:{made.api_port}")
        write_settings(self.directory.path, mine.model_copy(update={"others": theirs}))
        write_settings(made.directory.path, settings)
        return made

    def start(self, core: int | None = None) -> None:
        """Start it, on one core if wanted."""
        with (self.folder / "controller.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hawser.cli", "controller", "start", self.directory.path],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
        if core is not None:
            os.sched_setaffinity(self.process.pid, {core})

    def client(self, port: int | None = None) -> httpx.Client:
        """Log in, once it answers, at its port or at that of a proxy."""
        deadline = time.monotonic() + 60
        while not self.directory.authority.exists() and time.monotonic() < deadline:
            time.sleep(0.1)  # one made by `another` writes it when it starts
        trust = trusting(self.directory.authority.read_bytes())
        client = httpx.Client(
            base_url=f"https://localhost:{port or self.api_port}", verify=trust, timeout=60
        )
        while True:
            try:
                client.get("/v1/health").raise_for_status()
                break
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        body = {"user": "admin", "password": PASSWORD}
        secret = client.post("/v1/login", json=body).raise_for_status().json()["token"]
        client.headers["Authorization"] = f"Bearer {secret}"
        return client

    def memory(self) -> Mapping[str, float]:
        """Its memory in MiB: all of it, and the part that is no file's."""
        status = Path(f"/proc/{self._pid()}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        names = {"all": "VmRSS", "anonymous": "RssAnon", "peak": "VmHWM"}
        return {name: int(fields[key].split()[0]) / 1024 for name, key in names.items()}

    def _pid(self) -> int:
        if self.process is None:
            raise RuntimeError("the controller does not run")
        return self.process.pid

    def processor_s(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self._pid()}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None


class Gateways:
    """The process of simulated gateways."""

    def __init__(
        self, folder: Path, port: int, count: int, core: int | None, within: float = CONNECT_S
    ) -> None:
        program = Path(__file__).with_name("gateways.py")
        self._process = subprocess.Popen(
            [sys.executable, program, folder, str(port), str(count), str(within)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            text=True,
        )
        if core is not None:
            os.sched_setaffinity(self._process.pid, {core})
        self._input = cast("TextIO", self._process.stdin)
        self._output = cast("TextIO", self._process.stdout)
        self._answer()

    def _answer(self) -> Any:  # noqa: ANN401 (JSON)
        return json.loads(self._output.readline())

    def ask(self, line: str) -> Any:  # noqa: ANN401 (JSON)
        """Ask for the state of all gateways."""
        self._input.write(f"{line}\n")
        self._input.flush()
        return self._answer()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def running(
    folder: Path, count: int, cores: tuple[int, int]
) -> Iterator[tuple[Controller, Gateways]]:
    """Run a controller and its gateways until left."""
    controller = Controller(folder, count)
    controller.start(cores[0])
    try:
        controller.client().close()
        gateways = Gateways(folder, controller.gateways_port, count, cores[1])
        try:
            yield controller, gateways
        finally:
            gateways.stop()
    finally:
        controller.stop()
