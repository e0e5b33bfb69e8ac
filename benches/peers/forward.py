"""Forwarders between two namespaces: kernel routing, a Hawser gateway's switch, Open vSwitch."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bench import SampleError
from harness.lab import Lab, Namespace, until
from hawser.control.client import ControlError, DaemonClient
from hawser.overlay.config.gateway import GatewayConfig

LABEL = 0x2114
"""Label from branch 1 to branch 2 by member path 1 of group 4; the same for UDP and TCP."""

_CORE = "0"
"""Core of a userspace forwarder: the generator's, where the kernel would forward as well."""


@dataclass(frozen=True)
class Way:
    """A forwarding path from `client` to `server`; its traffic goes to `address`, port `LABEL`.

    `loaded` is the time in seconds that applying a full table took, if there is a table.
    `replace` applies a new table with equivalent entries.
    """

    client: Namespace
    server: Namespace
    address: str
    loaded: float | None = None
    replace: Callable[[], None] | None = None


Forward = Callable[[Lab], Way]


@dataclass(frozen=True)
class _Ends:
    """client 198.18.0.1 -- 198.18.0.2 forwarder 198.18.1.1 -- 198.18.1.2 server."""

    client: Namespace
    forwarder: Namespace
    server: Namespace
    addresses: tuple[str, str, str, str]


def _ends(lab: Lab) -> _Ends:
    client, forwarder, server = (lab.namespace(name) for name in ("client", "forwarder", "server"))
    first, second = lab.link(client, forwarder), lab.link(forwarder, server)
    client.ip("route", "add", "default", "via", first[1])
    server.ip("route", "add", "default", "via", second[0])
    return _Ends(client, forwarder, server, (*first, *second))


def kernel(lab: Lab) -> Way:
    """IP forwarding by the kernel."""
    ends = _ends(lab)
    ends.forwarder.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    return Way(ends.client, ends.server, ends.addresses[3])


def hawser(program: str, others: int) -> Forward:
    """The switch of a transit gateway, with `others` additional entries in its table."""

    def forward(lab: Lab) -> Way:
        ends = _ends(lab)
        folder = ends.forwarder.directory
        control = folder / "gateway.sock"
        config = _gateway(control, ends.addresses, 0)
        file = folder / "gateway.json"
        file.write_text(config.model_dump_json())
        daemon = ends.forwarder.start([program, "gateway", "--config", str(file)])
        client = DaemonClient(control)
        until(lambda: _answers(client), "the gateway answers", daemons=[daemon])
        loaded = None
        if others:
            full = _gateway(control, ends.addresses, others)
            start = time.monotonic()
            client.configure(full)
            loaded = time.monotonic() - start
        turns = itertools.count(1)

        def replace() -> None:
            turn = next(turns)
            client.configure(_gateway(control, ends.addresses, others, f"{turn} "))

        return Way(ends.client, ends.server, ends.addresses[1], loaded, replace)

    return forward


def _answers(client: DaemonClient) -> bool:
    try:
        return client.status().ready
    except ControlError:
        return False


def _gateway(control: Path, addresses: Sequence[str], others: int, turn: str = "") -> GatewayConfig:
    """Build a gateway's configuration. Entry names contain `turn`, so that all entries are new."""
    client, near, far, server = addresses
    ports = [
        {"name": name, "interface": name, "address": own, "next_hop": next_, "type": "internet"}
        for name, own, next_ in (("wan0", near, client), ("wan1", far, server))
    ]
    entries = [
        _entry(f"{turn}there", client, near, "destination_port", LABEL, (far, server), "wan1"),
        _entry(f"{turn}back", server, far, "source_port", LABEL, (near, client), "wan0"),
    ]
    for number in range(others):
        source = f"203.0.{number // 200}.{number % 200 + 1}"
        what = ("destination_port", "source_port")[number % 2]
        entries.append(_entry(f"{turn}{number}", source, near, what, LABEL, (far, server), "wan1"))
    config = {
        "branch": "b3",
        "id": 3,
        "control": str(control),
        "tun": {"name": "hawser0", "mtu": 1500},
        "transport": {"kind": "mptcp", "insecure": True},
        "peers": [],
        "switch": {"kind": "bpf", "ports": ports, "entries": entries},
    }
    return GatewayConfig.model_validate(config)


def _entry(
    name: str,
    source: str,
    destination: str,
    what: str,
    label: int,
    to: tuple[str, str],
    port: str,
) -> dict[str, object]:
    return {
        "name": name,
        "match": {"from": "wan", "source": source, "destination": destination, what: label},
        "write": {"source": to[0], "destination": to[1], "port": label},
        "output": {"port": port},
    }


def open_vswitch(lab: Lab) -> Way:
    """Open vSwitch's userspace datapath with the same entries."""
    ends = _ends(lab)
    client, near, far, server = ends.addresses
    folder = ends.forwarder.directory
    run = _Ovs(ends.forwarder, folder)
    run.start()
    macs = {}
    for space, device in (
        (ends.client, "wan0"),
        (ends.forwarder, "wan0"),
        (ends.forwarder, "wan1"),
        (ends.server, "wan1"),
    ):
        macs[space.name, device] = _mac(space, device)
    for space, device, address in ((ends.client, "wan0", near), (ends.server, "wan1", far)):
        space.run(["ethtool", "-K", device, "tx", "off"])  # otherwise nobody computes the checksums
        lladdr = macs[ends.forwarder.name, device]
        space.ip("neigh", "replace", address, "lladdr", lladdr, "dev", device)
    for number, device in enumerate(("wan0", "wan1"), start=1):
        ends.forwarder.ip("address", "flush", "dev", device)  # otherwise the kernel answers too
        run.ctl(
            "add-port", "b", device, "--", "set", "interface", device, f"ofport_request={number}"
        )
    ways = (
        ("tp_dst", client, near, far, server, "wan1", ends.server, 2),
        ("tp_src", server, far, near, client, "wan0", ends.client, 1),
    )
    for what, source, target, own, to, device, space, output in ways:
        for protocol in ("tcp", "udp"):
            match = f"{protocol},nw_src={source},nw_dst={target},{what}={LABEL}"
            hardware = macs[ends.forwarder.name, device], macs[space.name, device]
            actions = (
                f"mod_dl_src:{hardware[0]},mod_dl_dst:{hardware[1]},mod_nw_src:{own},"
                f"mod_nw_dst:{to},output:{output}"
            )
            run.flow(f"priority=10,{match},actions={actions}")
    return Way(ends.client, ends.server, near)


def _mac(space: Namespace, device: str) -> str:
    found: str = json.loads(space.ip("-j", "link", "show", "dev", device))[0]["address"]
    return found


class _Ovs:
    """ovsdb-server and ovs-vswitchd in a namespace, with one bridge `b` and no flows."""

    def __init__(self, space: Namespace, folder: Path) -> None:
        self._space, self._folder = space, folder
        self._env = ["env", f"OVS_RUNDIR={folder}", f"OVS_LOGDIR={folder}"]
        self._socket = f"unix:{folder}/db.sock"

    def start(self) -> None:
        """Start both, and create the bridge.

        Raises:
            SampleError: one of them did not start.
        """
        database = str(self._folder / "conf.db")
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        self._space.run(["ovsdb-tool", "create", database, schema])
        remote = f"--remote=p{self._socket}"
        server = self._space.start([*self._env, "ovsdb-server", database, remote])
        until((self._folder / "db.sock").exists, "ovsdb-server", daemons=[server])
        command = ["taskset", "-c", _CORE, *self._env, "ovs-vswitchd", self._socket]
        switch = self._space.start(command)
        self.ctl("init")
        bridge = ("set", "bridge", "b", "datapath_type=netdev", "fail_mode=secure")
        self.ctl("add-br", "b", "--", *bridge)
        until(self._has_bridge, "the bridge is there", daemons=[server, switch])

    def _has_bridge(self) -> bool:
        try:
            self._of("show", f"unix:{self._folder}/b.mgmt")
        except SampleError:
            return False
        return True

    def ctl(self, *arguments: str) -> None:
        """Run ovs-vsctl."""
        database = f"--db={self._socket}"
        self._space.run([*self._env, "ovs-vsctl", "--timeout=10", database, *arguments], timeout=15)

    def flow(self, text: str) -> None:
        """Add a flow."""
        self._of("add-flow", f"unix:{self._folder}/b.mgmt", text)

    def _of(self, *arguments: str) -> str:
        return self._space.run([*self._env, "ovs-ofctl", *arguments])


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
