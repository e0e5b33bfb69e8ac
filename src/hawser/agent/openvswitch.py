"""The gateway's own Open vSwitch: an ovsdb-server and an ovs-vswitchd, which outlive the agent.

They share nothing with an Open vSwitch that the machine may run otherwise. The datapath is in user
space, so it needs no kernel module.

conf.db             database, made anew at each start
db, *.ctl           sockets of both processes
ofs_br.mgmt         takes flows from this machine
of                  where the agent waits for the switch, to pass it on to the controller
*.pid, *.log
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hawser.control.client import ControlError
from hawser.driver.parts import openvswitch

_WITHIN_S: Final = 10.0
"""Seconds in which its programs have to answer; they take some 50 ms."""
_SOCKET_MOST: Final = 107
"""Bytes of a Unix socket's path."""
_PROGRAMS: Final = ("ovs-vswitchd", "ovsdb-server")
_DATAPATH: Final = 1


class OpenVSwitch:
    """One bridge, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def controller(self) -> Path:
        """Unix socket to which the switch connects as to its controller."""
        return self._folder / "of"

    def runs(self) -> bool:
        """Whether both processes are there."""
        return all(self._pid(program) is not None for program in _PROGRAMS)

    def start(self, ports: Iterable[tuple[str, int]]) -> None:
        """Start both processes anew, with a bridge that drops everything yet.

        Args:
            ports: interfaces that exist, and their OpenFlow numbers.

        Raises:
            ControlError: Open vSwitch is not installed, does not start, or cannot use a port.
        """
        self._check()
        self.stop()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        ports = tuple(ports)
        database, socket = self._folder / "conf.db", self._folder / "db"
        database.unlink(missing_ok=True)
        self._run("ovsdb-tool", "create", str(database), str(openvswitch.SCHEMA))
        self._keep("ovsdb-server", f"--remote=punix:{socket}", str(database))
        made = openvswitch.settings(ports, _DATAPATH, self.controller)
        self._vsctl("--no-wait", *made)
        self._keep("ovs-vswitchd", f"unix:{socket}")
        # Waits for ovs-vswitchd to have done what the database says.
        self._vsctl("set", "Open_vSwitch", ".", "external_ids:made=yes")
        for interface, _ in ports:
            error = self._vsctl("get", "Interface", interface, "error").strip()
            if error != "[]":
                raise ControlError(f"Open vSwitch: port {interface}: {error}")

    def install(self, flows: Iterable[str]) -> None:
        """Replace all flows at once; those that are the same keep their counters.

        Raises:
            ControlError: the switch does not take them.
        """
        file = self._folder / "flows"
        file.write_text("\n".join(flows) + "\n")
        target = f"unix:{self._folder / openvswitch.BRIDGE}.mgmt"
        self._run("ovs-ofctl", "-OOpenFlow13", "--bundle", "replace-flows", target, str(file))

    def stop(self) -> None:
        """End both processes, whoever has started them."""
        for program in _PROGRAMS:
            if (pid := self._pid(program)) is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                deadline = time.monotonic() + _WITHIN_S
                while self._pid(program) == pid:
                    if time.monotonic() > deadline:
                        os.kill(pid, signal.SIGKILL)
                        break
                    time.sleep(0.02)

    def _check(self) -> None:
        if fault := openvswitch.absent():
            raise ControlError(f"{fault}: apt-get install {openvswitch.PACKAGE}")
        longest = self._folder / f"{openvswitch.BRIDGE}.snoop"
        if len(os.fsencode(longest)) > _SOCKET_MOST:
            raise ControlError(f"{longest}: expected a path of at most {_SOCKET_MOST} bytes")

    def _keep(self, program: str, *arguments: str) -> None:
        """Start a program that stays."""
        self._run(
            program,
            *arguments,
            "--detach",
            f"--pidfile={self._folder / program}.pid",
            f"--unixctl={self._folder / program}.ctl",
            f"--log-file={self._folder / program}.log",
            *("-vsyslog:off", "-vconsole:off", "-vfile:warn"),
        )

    def _vsctl(self, *words: str) -> str:
        where = f"--db=unix:{self._folder / 'db'}"
        return self._run("ovs-vsctl", where, f"--timeout={_WITHIN_S:g}", "--retry", *words)

    def _run(self, *command: str) -> str:
        environment = os.environ | {"OVS_RUNDIR": str(self._folder)}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=_WITHIN_S + 1,
                env=environment,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ControlError(f"Open vSwitch: {command[0]}: {error}") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise ControlError(f"Open vSwitch: {command[0]}: {said[-1] if said else 'failed'}")
        return done.stdout

    def _pid(self, program: str) -> int | None:
        """Process of a program; None where it does not run, or the number is another's now."""
        try:
            pid = int((self._folder / f"{program}.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self._folder) in command else None
