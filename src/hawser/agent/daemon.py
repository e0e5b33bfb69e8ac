"""The gateway's daemon: started, asked, changed. It outlives the agent."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from hawser.agent.state import CONTROL, StateDirectory
from hawser.control.client import ControlError, DaemonClient
from hawser.control.model import GatewayStatus, TrainAnswer, TrainRequest
from hawser.overlay.config.gateway import GatewayConfig, QuicTransport
from hawser.pki.file import replace_private

_START_S = 15.0
_STOP_S = 10.0
LOG_MOST = 4 * 1024 * 1024
"""Bytes of `hawserd.log` at which it begins anew; the one before stays as `hawserd.log.1`."""
_QUIC_FIXED = (
    "tcp_proxy",
    "congestion",
    "recovery",
    "resequence",
    "header_compression",
    "wire_version",
    "oversize",
    "label_bits",
)


def needs_restart(old: GatewayConfig, new: GatewayConfig) -> bool:
    """Tell whether a running daemon refuses to go from one configuration to the other."""
    return _fixed(old) != _fixed(new)


def _fixed(config: GatewayConfig) -> tuple[object, ...]:
    transport = config.transport
    settings = [getattr(transport, name) for name in _QUIC_FIXED] if _is_quic(transport) else []
    base = (config.branch, config.id, config.control, config.tun.name, transport.kind)
    return (*base, *settings)


def _is_quic(transport: object) -> bool:
    return isinstance(transport, QuicTransport)


class GatewayDaemon:
    """`hawserd gateway` with an agent's files."""

    def __init__(self, state: StateDirectory, program: Path) -> None:
        self._state = state
        self._program = program
        self._pid_file = state.path / "hawserd.pid"
        self._client = DaemonClient(state.path / CONTROL)
        self.config: GatewayConfig | None = None
        """The configuration that was put in force last."""

    def status(self) -> GatewayStatus | None:
        """Give its status; None where it does not answer."""
        try:
            found = self._client.status()
        except ControlError:
            return None
        return found if isinstance(found, GatewayStatus) else None

    def runs(self) -> bool:
        """Whether its process is there. On a busy machine it may still be slow to answer."""
        return self._pid() is not None

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give status and counters as JSON.

        Raises:
            ControlError: it does not answer.
        """
        return self._client.raw_status(), self._client.counters()

    def train(self, request: TrainRequest) -> TrainAnswer:
        """Have it send a train of packets.

        Raises:
            ControlError: it does not, or the peer does not answer.
        """
        return self._client.train(request)

    def apply(self, config: GatewayConfig) -> None:
        """Put a configuration in force; the daemon is started where it does not run.

        Raises:
            ControlError: the daemon refuses it, or does not answer.
        """
        placed = config.placed(self._state.path)
        if not self.runs():
            self.start(config)
        elif needs_restart(self._client.config(GatewayConfig), placed):
            self.stop()
            self.start(config)
        else:
            self._client.configure(placed)
            self._state.write_daemon(config)
        self.config = config

    def start(self, config: GatewayConfig) -> None:
        """Start it, and wait until it answers.

        Raises:
            ControlError: it has ended, or does not answer.
        """
        path = self._state.write_daemon(config)
        log = self._log()
        self.bound_log()
        command = [str(self._program), "gateway", "--config", str(path)]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        replace_private(self._pid_file, f"{process.pid}\n".encode())
        deadline = time.monotonic() + _START_S
        while self.status() is None:
            if process.poll() is not None:
                raise ControlError(f"the daemon has ended: {_last_line(log)}")
            if time.monotonic() > deadline:
                raise ControlError(f"the daemon does not answer after {_START_S:g} s")
            time.sleep(0.05)

    def bound_log(self) -> None:
        """Let the log begin anew if it is too long.

        The daemon keeps its file open and appends, so the file is copied and emptied: what is
        written in between is lost.
        """
        log = self._log()
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > LOG_MOST:
                shutil.copyfile(log, log.with_name("hawserd.log.1"))
                os.truncate(log, 0)

    def stop(self) -> None:
        """End it, whoever has started it."""
        pid = self._pid()
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + _STOP_S
            while self._pid() == pid:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                    break
                time.sleep(0.05)

    def _log(self) -> Path:
        return self._state.path / "hawserd.log"

    def _pid(self) -> int | None:
        """Process of the daemon; None where it does not run, or the number is another's now."""
        try:
            pid = int(self._pid_file.read_text())
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # it may be a child that has ended
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self._state.path / "hawserd.json").encode() in command else None


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1][:500] if lines else "it said nothing"
