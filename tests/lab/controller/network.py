"""Branches that join a controller: namespaces stand for machines.

 hawsergw-PID-N-n (n = 1 .. 5)                        hawsergw-PID-N-0
+--------------------------------+                +---------------------+
| lo            10.n.0.1/32      |                |     the internet    |
|   hawser gateway run (agent)   |                |                     |
|   hawserd gateway              |                |                     |
| wa            198.18.n1.2/24   |----------------| ina 198.18.n1.1/24  |
| wb            198.18.n2.2/24   |----------------| inb 198.18.n2.1/24  |
+--------------------------------+                |                     |
 hawsergw-PID-N-9                                 |                     |
+--------------------------------+                |                     |
|   hawser controller start      |                |                     |
| wa            198.18.91.2/24   |----------------| ina 198.18.91.1/24  |
| wb            198.18.92.2/24   |----------------| inb 198.18.92.1/24  |
+--------------------------------+                +---------------------+

Ports of branches that have IPv6 alone have no address of IPv4, and the controller has both.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import netns

from hawser.control.https import ApiClient, ApiError, trusting
from hawser.spec.network import Network
from lab import ROOT, control
from lab.daemon import hawserd
from lab.gateway.pair import Lab
from lab.gateway.switch import Family, add_ipv6, address, next_hop, switched
from lab.namespace import run
from lab.waiting import until

CONTROLLER = 9
OTHER = 8
"""A machine to which the controller moves."""
URLS = {
    4: f"https://{address(f'{CONTROLLER}a')}:8443",
    6: f"https://[{address(f'{CONTROLLER}a', 6)}]:8443",
}
"""Of the controller, by version of IP."""
PASSWORD = "correct horse battery"  # noqa: S105 (of a test)

T = TypeVar("T")


def network(branches: Sequence[int], ipv6_alone: Collection[str] = ()) -> Network:
    """The network of these branches; ports such as `1a` in `ipv6_alone` have IPv6 alone."""
    described = {
        f"b{n}": {
            "id": n,
            "gateway": f"gw{n}",
            "wan": ["wa", "wb"],
            "lan": "lo",
            "prefix": f"10.{n}.0.0/24",
            "services": [{"protocol": "any"}],
        }
        for n in branches
    }
    ports = {
        f"gw{n}.w{port[1]}": {
            "address": address(port, 6 if port in ipv6_alone else 4),
            "next_hop": next_hop(port, 6 if port in ipv6_alone else 4),
        }
        for n in branches
        for port in (f"{n}a", f"{n}b")
    }
    overlay = {"transport": "quic", "switch": "bpf", "branches": described}
    return Network.model_validate({"name": "acme", "overlay": overlay, "ports": ports})


class Program:
    """One `hawser` in a namespace."""

    def __init__(self, lab: Lab, number: int, log: Path) -> None:
        self._inside = lab.namespaces.inside(number)
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        command = [*self._inside, sys.executable, "-m", "hawser.cli", *arguments]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment()
            )

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def log(self) -> str:
        return self._log.read_text()


def _inside(lab: Lab, number: int) -> ThreadPoolExecutor:
    """Give a thread in a namespace."""
    name = lab.namespaces.name(number)
    return ThreadPoolExecutor(1, initializer=lambda: netns.setns(name))


def environment() -> dict[str, str]:
    """What `hawser` is started with."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HAWSERD": str(hawserd())}


class Controller(Program):
    """A controller."""

    def __init__(self, lab: Lab, branches: Sequence[int], ipv6_alone: Collection[str] = ()) -> None:
        super().__init__(lab, CONTROLLER, lab.folder / "controller.log")
        self._lab = lab
        self._url = URLS[4]
        self.directory = lab.folder / "controller"
        self._threads = _inside(lab, CONTROLLER)
        (lab.folder / "password").write_text(PASSWORD)
        document = lab.folder / "network.json"
        made = network(branches, ipv6_alone)
        document.write_text(made.model_dump_json(by_alias=True, exclude_none=True))
        self._session = ""
        run(
            *(sys.executable, "-m", "hawser.cli", "controller", "init", str(self.directory)),
            *("--network", str(document), "--host", "::" if ipv6_alone else "0.0.0.0"),  # noqa: S104 (of a namespace)
            *("--password-file", str(lab.folder / "password")),
        )

    def moved(self, backup: Path) -> None:
        """Restore a backup on another machine, which gets the cable and the address."""
        lab = self._lab
        other = lab.namespace(OTHER)
        old, port = lab.namespaces.name(CONTROLLER), f"{CONTROLLER}a"
        run("ip", "-n", old, "link", "set", "wa", "netns", other)
        run("ip", "-n", other, "address", "add", f"{address(port)}/24", "dev", "wa")
        run("ip", "-n", other, "link", "set", "wa", "up")
        run("ip", "-n", other, "route", "add", "default", "via", next_hop(port))
        self._inside, self._threads = lab.namespaces.inside(OTHER), _inside(lab, OTHER)
        self.directory, self._session = lab.folder / "restored", ""
        command = (sys.executable, "-m", "hawser.cli", "controller", "restore")
        run(*command, str(backup), str(self.directory))

    def begin(self) -> None:
        """Start it, and log in."""
        self.start("controller", "start", str(self.directory))
        until(self._answers, f"the controller answers; {self._log}")
        login = {"user": "admin", "password": PASSWORD}
        self._session = self.ask("POST", "/v1/login", login)["token"]

    def _answers(self) -> bool:
        with contextlib.suppress(ApiError, OSError):
            return bool(self.ask("GET", "/v1/health"))
        return False

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 (JSON)
        """Ask the API from the controller's own machine."""
        trust = trusting((self.directory / "ca.pem").read_bytes())
        client = ApiClient(self._url, trust, self._session or None)
        return self._threads.submit(client.ask, method, path, body).result()

    def within(self, function: Callable[[], T]) -> T:
        """Call a function on the controller's machine."""
        return self._threads.submit(function).result()

    def patch(self, change: Any) -> Any:  # noqa: ANN401 (JSON)
        """Change the network."""
        return self.ask("PATCH", "/v1/network", {"patch": change, "reason": "a test"})

    def token(self, branch: str, **more: Any) -> str:  # noqa: ANN401 (JSON)
        text: str = self.ask("POST", "/v1/tokens", {"branch": branch} | more)["token"]
        return text

    def gateways(self) -> dict[str, Any]:
        """Gateways that are not revoked, by branch."""
        found = self.ask("GET", "/v1/gateways")
        return {each["branch"]: each for each in found if each["state"] != "revoked"}

    def settled(self) -> bool:
        """Whether every gateway has the configuration that it should have."""
        found = self.gateways().values()
        return all(each["configuration"]["state"] == "in_force" for each in found)


class Branch(Program):
    """The machine of a branch's gateway."""

    def __init__(self, lab: Lab, number: int, family: Family = 4) -> None:
        super().__init__(lab, number, lab.folder / f"agent-{number}.log")
        self.number = number
        self._url = URLS[family]
        self.directory = lab.folder / f"gw{number}"

    def join(self, token: str) -> None:
        self.start("gateway", "join", self._url, token, "--directory", str(self.directory))

    def work(self) -> None:
        self.start("gateway", "run", "--directory", str(self.directory))

    def daemon(self) -> int:
        """Process of its `hawserd`."""
        return int((self.directory / "hawserd.pid").read_text())

    def switch(self) -> int:
        """Process of its OpenFlow switch."""
        return int((self.directory / "ofs" / "ovs-vswitchd.pid").read_text())

    def switch_database(self) -> int:
        """Process of the switch's database."""
        return int((self.directory / "ofs" / "ovsdb-server.pid").read_text())

    def _get(self, path: str) -> dict[str, Any]:
        code, text = control.ask(self.directory / "gateway.sock", "GET", path)
        assert code == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def status(self) -> dict[str, Any]:
        return self._get("/v1/status")

    def configuration(self) -> dict[str, Any]:
        """The configuration that `hawserd` has."""
        return self._get("/v1/config")

    def counters(self) -> dict[str, Any]:
        return self._get("/v1/counters")

    def reaches(self) -> set[str]:
        """Branches that packets reach."""
        return {peer["branch"] for peer in self.status()["peers"] if peer["up"]}

    def end(self) -> None:
        """End agent, daemon and OpenFlow switch, whatever they do."""
        self.stop(signal.SIGKILL)
        for each in (self.daemon, self.switch, self.switch_database):
            with contextlib.suppress(OSError, ValueError):
                os.kill(each(), signal.SIGKILL)


class Deployment:
    """A controller and the machines of branches. Leaving the context ends and removes all."""

    def __init__(
        self, folder: Path, branches: Sequence[int], ipv6_alone: Collection[str] = ()
    ) -> None:
        self.lab = Lab(folder)
        self._numbers = branches
        self._ipv6_alone = ipv6_alone

    def __enter__(self) -> Deployment:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.lab)
            switched(self.lab, [*self._numbers, CONTROLLER])
            for number in self._numbers:
                lan = f"10.{number}.0.1/32"
                run(
                    "ip", "-n", self.lab.namespaces.name(number), "address", "add", lan, "dev", "lo"
                )
                ports = "net.ipv4.ip_local_port_range=1024 4095"
                self.lab.at(number, "sysctl", "-qw", ports)
            if self._ipv6_alone:
                self._use_ipv6_alone()
            self.controller = Controller(self.lab, self._numbers, self._ipv6_alone)
            stack.callback(self.controller.stop, signal.SIGKILL)
            self.branches = {n: Branch(self.lab, n, self._reach(n)) for n in self._numbers}
            for branch in self.branches.values():
                stack.callback(branch.end)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _use_ipv6_alone(self) -> None:
        add_ipv6(self.lab)
        for number, port in self._ipv6_alone:
            self.lab.at(int(number), "ip", "-4", "address", "flush", "dev", f"w{port}")

    def _reach(self, number: int) -> Family:
        """The version of IP by which a branch reaches the controller."""
        return 6 if {f"{number}a", f"{number}b"}.issubset(self._ipv6_alone) else 4

    def start(self) -> None:
        """Start the controller, let all branches join, and wait until each reaches all others."""
        self.controller.begin()
        self.join_all()
        until(self.connected, "every branch reaches every other")
        until(self.controller.settled, "the controller knows that it is so")

    def join_all(self) -> None:
        """Join all branches with a token each."""
        for number, branch in self.branches.items():
            branch.join(self.controller.token(f"b{number}"))

    def connected(self) -> bool:
        """Whether every branch reaches every other one."""
        return all(self._reaches_all(branch) for branch in self.branches.values())

    def _reaches_all(self, branch: Branch) -> bool:
        others = {f"b{number}" for number in self._numbers if number != branch.number}
        with contextlib.suppress(OSError):
            return branch.reaches() == others
        return False

    def ping(self, one: int, other: int) -> None:
        """One packet there and back between two LANs, however long it takes to get through."""
        command = ("ping", "-c", "1", "-W", "5", "-I", f"10.{one}.0.1", f"10.{other}.0.1")
        until(lambda: " 1 received" in self.lab.at(one, *command, check=False), " ".join(command))


def waited(condition: Callable[[], T]) -> T:
    """Wait for something that is true, and give it."""
    found: list[T] = []

    def holds() -> bool:
        found[:] = [condition()]
        return bool(found[0])

    until(holds)
    return found[0]
