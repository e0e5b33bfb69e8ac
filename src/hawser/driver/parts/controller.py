"""A lab's controller and the agents that join it, started as an operator starts them.

The controller has its directory in the lab's, and every agent one below `agents`. Tokens, network
and changes go through the controller's API; nobody touches a file of a gateway.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

from hawser.control.client import ControlError, DaemonClient
from hawser.control.https import ApiClient, ApiError, trusting
from hawser.driver import names
from hawser.driver.base import ControllerAccess, DriverError
from hawser.driver.daemon import SupervisedProcess
from hawser.driver.roles import hawserd, python_environment
from hawser.node import process
from hawser.node.base import Node, ProcessUsage
from hawser.overlay.lab.plan import AGENTS, ControllerPlan, GatewayDaemon, Role

_PORT = 8443
_USER = "admin"
_START_S = 60.0
"""Seconds in which the controller must answer."""
_JOIN_S = 120.0
"""Seconds in which all gateways must be connected; they take some 10."""
_POLL_S = 0.1
_HAWSER = (sys.executable, "-m", "hawser.cli")
_COMMAND_S = 60.0


class AgentDaemon:
    """A gateway's daemon that its agent has started (implements `Daemon`)."""

    def __init__(self, directory: Path, plan: GatewayDaemon) -> None:
        self.name = plan.name
        self.node = plan.node
        self.role: Role = plan.role
        self.control = names.control_socket(directory, plan)
        self._first: int | None = None

    @property
    def pid(self) -> int:
        """Process id, as its agent has written it down."""
        try:
            found = int((self.control.parent / "hawserd.pid").read_text())
        except (OSError, ValueError) as error:
            raise DriverError(f"daemon {self.name}: its agent has not started it") from error
        self._first = self._first or found
        return found

    @property
    def restarts(self) -> int:
        """Whether its agent has started it again since it was first looked at."""
        with contextlib.suppress(DriverError):
            return int(self.pid != self._first)
        return 0

    def client(self) -> DaemonClient:
        """What asks it."""
        return DaemonClient(self.control)

    def usage(self) -> ProcessUsage:
        """What its process has used."""
        return process.usage(self.pid)

    def connected(self) -> bool:
        """Whether it reaches all its peers."""
        with contextlib.suppress(ControlError), self.client() as client:
            return client.status().connected
        return False


class _Agent(SupervisedProcess):
    """`hawser gateway join`, and after a restart `hawser gateway run`."""

    def __init__(self, directory: Path, node: Node, join: tuple[str, ...]) -> None:
        self._folder = directory / AGENTS / node.name
        where = ("--directory", str(self._folder))
        super().__init__(
            directory,
            f"{node.name}-agent",
            node,
            (*_HAWSER, "gateway", "join", *where, *join),
            _environment(),
        )

    def _prepare(self) -> None:
        if (self._folder / "joined.json").exists():
            self._command = (*_HAWSER, "gateway", "run", "--directory", str(self._folder))


class LabController:
    """The controller of a lab whose agents this process has started."""

    def __init__(self, directory: Path, plan: ControllerPlan, nodes: Mapping[str, Node]) -> None:
        self.process: SupervisedProcess | None = None
        self.onboarding: float | None = None
        """Seconds from the first token until packets passed between all branches."""
        self._directory = directory
        self._plan = plan
        self._nodes = nodes
        self._home = directory / "controller"
        self._session: str | None = None

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"https://{self._plan.address}:{_PORT}"

    @property
    def access(self) -> ControllerAccess:
        """How to use its API."""
        return ControllerAccess(
            node=self._plan.node,
            address=(str(self._plan.address), _PORT),
            authority=self._home / "ca.pem",
            user=_USER,
            password=self._password().read_text(),
        )

    def start(
        self, daemons: Mapping[str, AgentDaemon], started: Callable[[SupervisedProcess], None]
    ) -> None:
        """Start controller and agents, and wait until packets pass between all branches.

        Args:
            daemons: of the gateways that join, by name.
            started: told of every process as soon as it runs.

        Raises:
            DriverError: it does not answer, or a gateway does not join in time.
        """
        self._init()
        node = self._nodes[self._plan.node]
        command = (*_HAWSER, "controller", "start", str(self._home))
        self.process = SupervisedProcess(self._directory, node.name, node, command, _environment())
        started(self.process)
        self._await(self._answers, _START_S, "the controller does not answer")
        self._log_in()
        began = time.monotonic()
        for branch, gateway in self._plan.gateways.items():
            token = self.ask("POST", "/v1/tokens", {"branch": branch})["token"]
            started(_Agent(self._directory, self._nodes[gateway], (self.url, token)))
        for name, daemon in daemons.items():
            self._await(daemon.connected, _JOIN_S, f"gateway {name} does not reach all branches")
        self._traffic()
        self.onboarding = time.monotonic() - began
        self._await(self.settled, _JOIN_S, "gateways do not keep their configurations")

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 (JSON)
        """Ask its API.

        Raises:
            ApiError: it does not answer, or refuses.
        """
        trust = trusting(self.access.authority.read_bytes())
        dial = self._nodes[self._plan.node].dial
        return ApiClient(self.url, trust, self._session, dial).ask(method, path, body)

    def change(self, patch: Mapping[str, object]) -> float:
        """Change the network; gives the moment of the call.

        Raises:
            DriverError: it refuses the change, or does not answer.
        """
        moment = time.monotonic()
        try:
            self._log_in()
            self.ask("PATCH", "/v1/network", {"patch": patch, "reason": "an event of the lab"})
        except (ApiError, OSError) as error:
            raise DriverError(f"controller {self._plan.node}: {error}") from error
        return moment

    def settled(self) -> bool:
        """Whether every gateway has the configuration that it should have."""
        with contextlib.suppress(ApiError, OSError):
            found = self.ask("GET", "/v1/gateways")
            return all(each["configuration"]["state"] == "in_force" for each in found)
        return False

    def _init(self) -> None:
        password, network = self._password(), self._directory / "config" / "network.json"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        document = self._plan.network.model_dump_json(by_alias=True, exclude_none=True, indent=1)
        network.write_text(document)
        command = (*_HAWSER, "controller", "init", str(self._home), "--network", str(network))
        settings = ("--host", str(self._plan.address), "--password-file", str(password))
        node = self._nodes[self._plan.node]
        node.run((*command, *settings), timeout=_COMMAND_S, env=_environment())

    def _password(self) -> Path:
        return self._directory / "password"

    def _log_in(self) -> None:
        login = {"user": _USER, "password": self._password().read_text()}
        self._session = self.ask("POST", "/v1/login", login)["token"]

    def _answers(self) -> bool:
        with contextlib.suppress(ApiError, OSError):
            return bool(self.ask("GET", "/v1/health"))
        return False

    def _traffic(self) -> None:
        """Wait for an echo between every two branches, in both directions."""
        lans = {
            branch.gateway: str(branch.prefix.network_address + 1)
            for branch in self._plan.network.overlay.branches.values()
        }
        with ThreadPoolExecutor(len(lans)) as pool:
            pairs = permutations(lans.items(), 2)
            tried = [pool.submit(self._echo, one, own, lan) for (one, own), (_, lan) in pairs]
            for each in tried:
                each.result()

    def _echo(self, gateway: str, source: str, target: str) -> None:
        command = ("ping", "-c", "1", "-W", "1", "-I", source, target)
        node = self._nodes[gateway]
        self._await(
            lambda: node.run(command, timeout=10, check=False).returncode == 0,
            _JOIN_S,
            f"gateway {gateway} gets no answer from {target}",
        )

    def _await(self, condition: Callable[[], bool], seconds: float, lack: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                words = self.process.last_words() if self.process else ""
                raise DriverError(f"{lack} after {seconds:g} s{words}")
            time.sleep(_POLL_S)


def _environment() -> dict[str, str]:
    path = os.environ.get("PATH", "")
    return {"HAWSERD": str(hawserd()), "PATH": path, **python_environment()}
