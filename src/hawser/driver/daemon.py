"""Daemons of a lab: started, awaited, and restarted if they die."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hawser.control.client import ControlError, DaemonClient
from hawser.control.model import FunctionStatus, Status
from hawser.driver import names, state
from hawser.driver.base import Daemon, DriverError
from hawser.driver.roles import ROLES
from hawser.node import process
from hawser.node.base import Node, NodeError, Process, ProcessUsage, tail
from hawser.overlay.config.base import Configuration
from hawser.overlay.lab.plan import DaemonPlan

READY_WITHIN = 15.0
"""Seconds in which all daemons must be connected; TLS over paths of 1 Mbit/s needs about one."""
_POLL = 0.02
_LOCK_WAIT = 5.0

_BACKOFF_FIRST = 0.05
_BACKOFF_MAX = 5.0
_HELD_POLL = 0.05
_HEALTHY = 10.0
"""Seconds a daemon must have run for its next death to count as the first."""


def reconfigure(daemon: Daemon, directory: Path, config: Configuration) -> None:
    """Give a running daemon a new configuration, which it keeps after restarts.

    Raises:
        DriverError: it refuses the configuration; nothing has changed.
    """
    whole = config.placed(directory)
    try:
        with daemon.client() as client:
            client.configure(whole)
    except ControlError as error:
        raise DriverError(f"daemon {daemon.name}: {error}") from error
    state.write_config(directory, daemon.name, whole)


class AttachedDaemon:
    """A daemon that another process started and keeps running (implements `Daemon`)."""

    def __init__(self, directory: Path, plan: DaemonPlan) -> None:
        self.name = plan.name
        self.node = plan.node
        self.role = plan.role
        self.control = names.control_socket(directory, plan)
        self._directory = directory

    @property
    def pid(self) -> int:
        """Process id of the last start."""
        return self._record().process.pid

    def client(self) -> DaemonClient:
        """What asks and configures it."""
        return DaemonClient(self.control)

    def usage(self) -> ProcessUsage:
        """What the process of the last start has used."""
        return process.usage(self.pid)

    @property
    def restarts(self) -> int:
        """How often it had to be started again."""
        return self._record().restarts

    def _record(self) -> state.DaemonRecord:
        record = state.read_daemon(self._directory, self.name)
        if record is None:
            raise DriverError(f"daemon {self.name}: was never started")
        return record


class SupervisedProcess:
    """A program of the lab that this process started and keeps running."""

    def __init__(
        self,
        directory: Path,
        name: str,
        node: Node,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.node = node.name
        self.restarts = 0
        self._directory = directory
        self._at = node
        self._log = directory / "logs" / f"{name}.log"
        self._command = command
        self._env = env
        self._working = folder
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        self._killed = False
        """Whether it was ended on purpose and has not been started since."""
        self._process = self._start(restarts=0)

    @property
    def pid(self) -> int:
        """Process id now."""
        return self._process.pid

    def usage(self) -> ProcessUsage:
        """What its process has used since it was started last."""
        return process.usage(self.pid)

    @property
    def wanted(self) -> bool:
        """Whether it is to run: nobody has killed it on purpose."""
        return self._wanted.is_set()

    def running(self) -> bool:
        """Whether it runs now."""
        return self._process.running()

    def last_words(self) -> str:
        """End of its log."""
        return tail(self._at.get(self._log).decode(errors="replace"))

    def supervise(self) -> None:
        """Start it again whenever it dies, from now on."""
        threading.Thread(target=self._watch, name=f"supervise-{self.name}", daemon=True).start()

    def release(self) -> None:
        """Supervise it no longer."""
        self._stopping.set()

    def stop(self) -> None:
        """End it, for good. Idempotent."""
        self.release()
        self._process.stop()

    def kill(self) -> None:
        """End it as a crash would, until `resume`."""
        self._wanted.clear()
        self._killed = True
        self._process.kill()

    def resume(self) -> None:
        """Start it again after `kill`. This is no restart that counts."""
        self._wanted.set()

    def _prepare(self) -> None:
        """Do what must be done before each start."""

    def _rejoin(self) -> None:
        """Do what must be done after each start but the first."""

    def _start(self, restarts: int) -> Process:
        self._prepare()
        started = self._at.start(self._command, log=self._log, env=self._env, folder=self._working)
        record = state.ProcessRecord.of(started.pid)
        if record is not None:
            daemon = state.DaemonRecord(process=record, restarts=restarts)
            state.write_daemon(self._directory, self.name, daemon)
        return started

    def _watch(self) -> None:
        delay = _BACKOFF_FIRST
        while not self._stopping.is_set():
            begun = time.monotonic()
            self._process.wait()
            asked, self._killed = self._killed, False
            while not self._wanted.wait(_HELD_POLL):
                if self._stopping.is_set():
                    return
            delay = _BACKOFF_FIRST if time.monotonic() - begun > _HEALTHY else delay
            if self._stopping.wait(delay) or not self._restart(counts=not asked):
                return
            self._rejoin()
            delay = min(2 * delay, _BACKOFF_MAX)

    def _restart(self, *, counts: bool) -> bool:
        """Try to start it again; False when there is no lab any more, or it is being removed."""
        try:
            with state.locked(self._directory, _LOCK_WAIT):
                if self._stopping.is_set():
                    return False
                self._process.stop()  # what it started may have outlived it
                self._process = self._start(self.restarts + counts)
                self.restarts += counts
        except state.LabGoneError:
            return False
        except (NodeError, OSError):  # to be tried again
            return True
        return True


class SupervisedDaemon(SupervisedProcess):
    """A daemon that this process started and keeps running (implements `Daemon`)."""

    def __init__(self, directory: Path, plan: DaemonPlan, node: Node, hawserd: str = "") -> None:
        """Prepare to start a daemon.

        Args:
            directory: the lab's.
            plan: what is started.
            node: where.
            hawserd: program of daemons in Rust; by default the machine's own.
        """
        self.role = plan.role
        self.control = names.control_socket(directory, plan)
        config = state.write_config(directory, plan.name, plan.config.placed(directory))
        for name, content in plan.files.items():
            state.write_file(directory / name, content)
        program = ROLES[plan.role].program(hawserd)
        command = (*program.command, "--config", str(config))
        super().__init__(directory, plan.name, node, command, program.env)

    def client(self) -> DaemonClient:
        """What asks and configures it."""
        return DaemonClient(self.control)

    def _prepare(self) -> None:
        self.control.unlink(missing_ok=True)  # a killed daemon leaves its socket behind


def wait_ready(
    daemons: Sequence[SupervisedDaemon], clock: Callable[[], float] = time.monotonic
) -> None:
    """Wait until every daemon is connected to all its peers.

    Raises:
        DriverError: one died, or was not connected in time; with the end of its log.
    """
    _wait(daemons, _fault, clock)


def wait_healthy(
    daemons: Sequence[SupervisedDaemon], clock: Callable[[], float] = time.monotonic
) -> None:
    """Wait until every daemon has found the functions up that it checks.

    Raises:
        DriverError: one still has not, or a daemon died; with the end of its log.
    """
    _wait(daemons, _unhealthy, clock)


def wait_started(
    daemons: Sequence[SupervisedDaemon], clock: Callable[[], float] = time.monotonic
) -> None:
    """Wait until every daemon does its own part, whether or not it reaches its peers.

    Raises:
        DriverError: one died, or was not ready in time; with the end of its log.
    """
    _wait(daemons, _unready, clock)


def _wait(
    daemons: Sequence[SupervisedDaemon],
    lacks: Callable[[SupervisedDaemon], str | None],
    clock: Callable[[], float],
) -> None:
    deadline = clock() + READY_WITHIN
    for daemon in daemons:
        while (fault := lacks(daemon)) is not None:
            for dead in (each for each in daemons if not each.running()):
                raise DriverError(f"daemon {dead.name} ended at once{dead.last_words()}")
            if clock() > deadline:
                waited = f"daemon {daemon.name} not ready after {READY_WITHIN:g} s"
                raise DriverError(f"{waited}: {fault}{daemon.last_words()}")
            time.sleep(_POLL)


def _fault(daemon: SupervisedDaemon) -> str | None:
    """Why a daemon cannot be used yet."""
    status = _status(daemon)
    if isinstance(status, str):
        return status
    return None if status.connected else status.lacks


def _unhealthy(daemon: SupervisedDaemon) -> str | None:
    """Which functions it finds down, and why."""
    status = _status(daemon)
    if isinstance(status, FunctionStatus) and status.down:
        return "; ".join(status.down)
    if isinstance(status, FunctionStatus) and status.unconfirmed:
        return f"not found up yet: {', '.join(status.unconfirmed)}"
    return _unready(daemon)


def _unready(daemon: SupervisedDaemon) -> str | None:
    """Why a daemon does not do its own part yet."""
    status = _status(daemon)
    if isinstance(status, str):
        return status
    return None if status.ready else "it does not report that it is ready"


def _status(daemon: SupervisedDaemon) -> Status | str:
    """Give a daemon's status, or why there is none."""
    if not daemon.control.exists():
        return "no control socket"
    try:
        with daemon.client() as client:
            return client.status()
    except ControlError as error:
        return str(error)
