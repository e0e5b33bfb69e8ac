"""The OpenFlow controller (OFC): a process of its own, which is told what switches should have.

It runs while gateways with OpenFlow switches are connected to this controller, and ends with it,
however that ends; switches go on. A switch has the entries of the configuration that its gateway
has or tries, so both always fit. It has one connection: of several controllers one at a time fills
it, with what all of them compute from the same database: they need no roles.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hawser.control.client import ControlError, DaemonClient
from hawser.control.link import SwitchHello
from hawser.controller.jobs.watch import Plan
from hawser.overlay.config.bridge import Bridge
from hawser.overlay.config.openflow import ControllerConfig

_log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_START_S: Final = 20.0
_STOP_S: Final = 5.0
LACKING: Final = "Python packages: pip install -r requirements-openflow.lock"

_REMEMBERED: Final = 8
"""Configurations of each gateway, of which one is that to which it returns."""


class SwitchControl:
    """Knows the switches that are connected here. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client = DaemonClient(folder / "control")
        self._process: subprocess.Popen[bytes] | None = None
        self._bridges: dict[str, dict[str, Bridge]] = {}
        """By the gateway's name (`spec.pair`) and the configuration's digest."""
        self._connected: dict[str, SwitchHello] = {}
        """What gateways have said last, by their names."""
        self._told = True
        """Whether it knows all that gateways have said."""
        self._changing = threading.Lock()
        self._known = threading.Lock()

    @property
    def relay(self) -> Path:
        """Unix socket by which switches are passed on."""
        return self._folder / "relay"

    def take(self, plan: Plan) -> None:
        """Take what gateways should have, which they get and may then say that they have."""
        with self._known:
            if plan.desired:
                for name in self._bridges.keys() - plan.desired.keys():
                    del self._bridges[name]
            for name, each in plan.desired.items():
                if each.bridge is None:
                    continue
                known = self._bridges.setdefault(name, {})
                known[each.digest] = known.pop(each.digest, each.bridge)
                while len(known) > _REMEMBERED:
                    del known[next(iter(known))]

    def join(self, name: str, hello: SwitchHello) -> bool:
        """Take what a gateway says of its switch; tell whether its configuration is known here.

        Raises:
            ControlError: the OpenFlow controller cannot be started, or told.
        """
        with self._known:
            self._connected[name], self._told = hello, False
            known = hello.digest in self._bridges.get(name, ())
        self.work()
        return known

    def leave(self, name: str) -> None:
        """Note that a switch is not connected any more."""
        with self._known:
            self._connected.pop(name, None)
            self._told = False

    def state(self) -> Mapping[str, Mapping[str, Any]]:
        """Give the state of each switch that is connected here, by the gateway's name."""
        with contextlib.suppress(ControlError):
            if self._process is not None:
                return {each["name"]: each for each in self._client.raw_status()["switches"]}
        return {}

    def work(self) -> None:
        """Bring the OpenFlow controller to what is wanted now.

        Raises:
            ControlError: it cannot be started, or told.
        """
        with self._changing:
            runs = self._process is not None and self._process.poll() is None
            if runs and self._told:
                return
            config = self._config()
            try:
                if runs:
                    self._client.configure(config)
                elif config.switches:
                    self._start(config)
            except ControlError:
                self._told = False
                raise

    def stop(self) -> None:
        """End it."""
        with self._changing:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=_STOP_S)  # closes its input, with which it ends
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def _config(self) -> ControllerConfig:
        with self._known:
            self._told = True
            switches = tuple(
                bridge.switch(name, hello.stations)
                for name, hello in sorted(self._connected.items())
                if (bridge := self._bridges.get(name, {}).get(hello.digest or ""))
            )
        control, relay = (PurePosixPath(self._folder / name) for name in ("control", "relay"))
        return ControllerConfig(control=control, relay=relay, switches=switches)

    def _start(self, config: ControllerConfig) -> None:
        if find_spec("os_ken") is None:
            raise ControlError(LACKING)
        self._end()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        file = self._folder / "config.json"
        file.write_text(config.model_dump_json())
        command = (sys.executable, "-m", "hawser.openflow", "--attached", "--config", str(file))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        deadline = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(ControlError):
                self._client.raw_status()
                break
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ControlError("the OpenFlow controller does not answer")
            time.sleep(0.05)


@contextlib.asynccontextmanager
async def driving(control: SwitchControl) -> AsyncIterator[None]:
    """Keep the OpenFlow controller as it should be until left."""
    task = asyncio.create_task(_drive(control))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(control.stop)


async def _drive(control: SwitchControl) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        try:
            await asyncio.to_thread(control.work)
        except ControlError as error:
            _log.error("OpenFlow switches stay as they are: %s", error)
