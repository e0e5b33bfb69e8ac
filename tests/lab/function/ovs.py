"""Open vSwitch with its userspace datapath, in a namespace of `lab.function.chain.Chain`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.namespace import run
from lab.waiting import PATIENCE, until

_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


class Ovs:
    """A bridge `b` with ports of a namespace; the first port has number 1."""

    def __init__(self, namespace: str, folder: Path, ports: Sequence[str]) -> None:
        self._namespace = namespace
        self._folder = folder
        self._ports = ports
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._socket = f"unix:{folder / 'db.sock'}"

    def __enter__(self) -> Ovs:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(PATIENCE)

    def _start(self) -> None:
        database = str(self._folder / "conf.db")
        run("ovsdb-tool", "create", database, str(_SCHEMA))
        self._spawn("ovsdb-server", database, f"--remote=p{self._socket}")
        until((self._folder / "db.sock").exists, "the database answers")
        self._spawn("ovs-vswitchd", self._socket)
        ports = [
            word
            for number, port in enumerate(self._ports, 1)
            for word in (
                "--",
                "add-port",
                "b",
                port,
                *f"-- set interface {port}".split(),
                f"ofport_request={number}",
            )
        ]
        versions = "protocols=OpenFlow13,OpenFlow15"
        self._vsctl("add-br", "b", "--", "set", "bridge", "b", "datapath_type=netdev", versions)
        self._vsctl("set-fail-mode", "b", "secure", *ports)
        for port in self._ports:
            # What XDP sends to a veth without a program arrives only with GRO.
            inside = ["ip", "netns", "exec", self._namespace]
            run(*inside, "ethtool", "-K", port, "gro", "on", "tx", "off")

    def add_flows(self, *flows: str) -> None:
        """Add entries to the bridge."""
        for flow in flows:
            bridge = f"unix:{self._folder / 'b.mgmt'}"
            run("ovs-ofctl", "-O", "OpenFlow15", "add-flow", bridge, flow)

    def _vsctl(self, *words: str) -> None:
        run("ovs-vsctl", f"--db={self._socket}", f"--timeout={PATIENCE:.0f}", *words)

    def _spawn(self, *command: str) -> None:
        environment = {**os.environ, "OVS_RUNDIR": str(self._folder)}
        inside = ["ip", "netns", "exec", self._namespace]
        with (self._folder / f"{command[0]}.log").open("wb") as log:
            daemon = subprocess.Popen([*inside, *command], stderr=log, env=environment)
        self._daemons.append(daemon)
