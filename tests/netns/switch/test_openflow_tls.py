"""Two OpenFlow controllers over TLS: one is master, the other takes over, the older one is refused.

 gw1                                ssc
+-------------------+         +------------------------------------+
| Open vSwitch      |  veth   | controller one, TCP port 6653      |
|   of 192.0.2.1/24 |---------| controller two, TCP port 6654      |
+-------------------+         |   of 192.0.2.2/24                  |
                              +------------------------------------+
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.parts import openvswitch
from hawser.overlay.config.openflow import ControllerConfig
from hawser.pki.authority import Authority, pem
from hawser.pki.key import key_pem, new_key
from lab import ROOT
from lab.namespace import Namespaces, run
from lab.waiting import until
from worked_example import entries, switch

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class Machines:
    """The switch and both controllers, each program in its namespace."""

    def __init__(self, folder: Path, spaces: Namespaces) -> None:
        self.folder, self._spaces = folder, spaces
        self._processes: list[subprocess.Popen[bytes]] = []
        names = [spaces.add(each) for each in ("gw1", "ssc")]
        peer = ("peer", "name", "of", "netns", names[1])
        run("ip", "-n", names[0], "link", "add", "of", "type", "veth", *peer)
        for name, address in zip(names, ("192.0.2.1/24", "192.0.2.2/24"), strict=True):
            run("ip", "-n", name, "address", "add", address, "dev", "of")
            run("ip", "-n", name, "link", "set", "of", "up")
        self.authority = Authority.create("network", _NOW, timedelta(days=9))
        (folder / "ca.pem").write_bytes(self.authority.pem)

    def certify(self, file: str, name: str, authority: Authority | None = None) -> None:
        """Make a key and a certificate for a name."""
        key = new_key()
        made = (authority or self.authority).sign(key.public_key(), [name], _NOW, timedelta(days=9))
        (self.folder / f"{file}.key").write_bytes(key_pem(key))
        (self.folder / f"{file}.pem").write_bytes(pem(made))

    def start(self, node: str, *command: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "OVS_RUNDIR": str(self.folder),
            "PYTHONPATH": str(ROOT / "src"),
        }
        with (self.folder / "log").open("ab") as log:
            inside = self._spaces.inside(node, *command)
            process = subprocess.Popen(inside, stdout=log, stderr=log, env=environment)
        self._processes.append(process)
        return process

    def vsctl(self, *words: str) -> str:
        where = f"--db=unix:{self.folder / 'db'}"
        return self._spaces.at("gw1", "ovs-vsctl", where, "--timeout=30", "--retry", *words)

    def switch(self) -> None:
        """Start Open vSwitch, which connects with its certificate."""
        database = str(self.folder / "conf.db")
        run("ovsdb-tool", "create", database, SCHEMA)
        log = ("-vsyslog:off", "-vfile:off", "-vconsole:warn")
        self.start("gw1", "ovsdb-server", f"--remote=punix:{self.folder / 'db'}", database, *log)
        self.vsctl("--no-wait", "init")
        self.start("gw1", "ovs-vswitchd", f"unix:{self.folder / 'db'}", *log)
        bridge = ("ofs_br", "--", "set", "Bridge", "ofs_br")
        self.vsctl("add-br", *bridge, "datapath_type=netdev", "fail_mode=secure")
        self.vsctl("set", "Bridge", "ofs_br", "protocols=OpenFlow13")
        self.present("gw1")

    def present(self, file: str) -> None:
        """Let the switch connect to both controllers, with a certificate."""
        files = [str(self.folder / name) for name in (f"{file}.key", f"{file}.pem", "ca.pem")]
        self.vsctl("del-controller", "ofs_br")  # a connection keeps the certificate it began with
        self.vsctl("set-ssl", *files)
        self.vsctl("set-controller", "ofs_br", "ssl:192.0.2.2:6653", "ssl:192.0.2.2:6654")
        for each in self.vsctl("--bare", "--columns=_uuid", "list", "Controller").split():
            self.vsctl("set", "Controller", each, "max_backoff=1000")

    def end(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait(30)


_NOW = datetime.now(UTC)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with Namespaces("oftls") as spaces:
        made = Machines(tmp_path, spaces)
        for each in ("gw1", "ssc"):
            made.certify(each, each)
        try:
            yield made
        finally:
            made.end()


class Controller:
    """One of the controllers."""

    def __init__(self, machines: Machines, name: str, port: int, role: dict[str, Any]) -> None:
        self._machines, self._name = machines, name
        folder = machines.folder
        listen = {
            "address": "192.0.2.2",
            "port": port,
            "certificate": str(folder / "ssc.pem"),
            "key": str(folder / "ssc.key"),
            "ca": str(folder / "ca.pem"),
        }
        control = folder / f"{name}.sock"
        self.document: dict[str, Any] = {
            "control": str(control),
            "poll_s": 0.2,
            "listen": listen,
            "role": role,
            "switches": [switch(1)],
        }
        self.client = DaemonClient(control)
        self.process = self.begin()

    def begin(self) -> subprocess.Popen[bytes]:
        file = self._machines.folder / f"{self._name}.json"
        file.write_text(json.dumps(self.document))
        return self._machines.start(
            "ssc", sys.executable, "-m", "hawser.openflow", "--config", str(file)
        )

    def state(self) -> tuple[bool, bool, int]:
        """Whether the switch is connected, has the wanted flows, and how many flows it has."""
        with contextlib.suppress(ControlError):
            (found,) = self.client.raw_status()["switches"]
            return found["connected"], found["installed"], found["flows"]
        return False, False, 0

    def fault(self) -> str:
        with contextlib.suppress(ControlError):
            (found,) = self.client.raw_status()["switches"]
            return str(found["fault"])
        return ""


def flows(machines: Machines) -> int:
    """Flows that the switch has."""
    command = ("ovs-ofctl", "-O", "OpenFlow13", "dump-flows")
    found = run(*command, f"unix:{machines.folder / 'ofs_br.mgmt'}")
    return found.count("cookie=")


def test_a_second_controller_takes_over_and_the_first_cannot_come_back(machines: Machines) -> None:
    one = Controller(machines, "one", 6653, {"master": True, "generation": 1})
    two = Controller(machines, "two", 6654, {"master": False, "generation": 1})
    machines.switch()
    until(lambda: one.state()[:2] == (True, True), "the master has installed its flows")
    until(lambda: two.state()[:2] == (True, True), "the other one sees them")
    wanted = flows(machines)
    assert wanted > len(entries(1))
    run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", f"unix:{machines.folder / 'ofs_br.mgmt'}")
    until(lambda: flows(machines) == wanted, "the master repairs them")
    one.process.send_signal(signal.SIGKILL)
    one.process.wait(30)
    two.document["role"] = {"master": True, "generation": 2}
    two.document["switches"][0]["entries"] = entries(1)[:2]
    two.client.configure(ControllerConfig.model_validate(two.document))
    until(lambda: flows(machines) < wanted and two.state()[1], "the other one is master now")
    changed = flows(machines)
    one.process = one.begin()
    until(lambda: "generation 1 is old" in one.fault(), "the first is refused")
    assert flows(machines) == changed, "it has changed nothing"


def test_only_a_switch_with_its_own_certificate_is_taken(machines: Machines) -> None:
    alien = Authority.create("another", _NOW, timedelta(days=9))
    machines.certify("gw2", "gw2")
    machines.certify("alien", "gw1", alien)
    one = Controller(machines, "one", 6653, {"master": True, "generation": 1})
    machines.switch()
    until(lambda: one.state()[:2] == (True, True))
    log = machines.folder / "log"
    for file, refused in (("gw2", "of no switch here"), ("alien", "")):
        machines.present(file)
        until(lambda: not one.state()[0], f"{file} is not taken")
        if refused:
            until(lambda text=refused: text in log.read_text())
    machines.present("gw1")
    until(lambda: one.state()[:2] == (True, True), "the right one is")
