"""Linear chains of functions, and the programs that can be nodes of one.

    gen --- f1 --- f2 --- ... --- fn --- sink

Frames leave `gen` with an NSH and keep it up to `sink`. Alternatively, a forwarder adds and removes
the NSH:

    gen --- sff --- f1 --- f2 --- ... --- fn --- sff --- sink
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Socket  # noqa: N812

from harness.bench import SampleError
from harness.lab import Daemon, Lab, Namespace, until
from peers.wire import compiled

_PINS = Path("/sys/fs/bpf")


@dataclass(frozen=True)
class Port:
    """One end of a link."""

    namespace: Namespace
    device: str

    @property
    def mac(self) -> str:
        """Ethernet address."""
        link = json.loads(self.namespace.ip("-j", "link", "show", self.device))[0]
        return str(link["address"])

    @property
    def index(self) -> int:
        """Interface index."""
        link = json.loads(self.namespace.ip("-j", "link", "show", self.device))[0]
        return int(link["ifindex"])


@dataclass(frozen=True)
class Link:
    """Two ports, in the direction of the chain."""

    out: Port
    into: Port


@dataclass(frozen=True)
class Row:
    """The namespaces of a chain and the links between neighbours, from `gen` to `sink`."""

    gen: Namespace
    functions: Sequence[Namespace]
    sink: Namespace
    links: Sequence[Link]
    sff: Namespace | None = None
    """The forwarder that adds and removes the header, if there is one."""

    @property
    def length(self) -> int:
        """Number of functions."""
        return len(self.functions)


Build = Callable[[Row], None]
"""Starts forwarding on the nodes of a chain; returns once they forward."""


def row(lab: Lab, length: int) -> Row:
    """Create the namespaces and links. No node forwards yet."""
    gen, sink = (lab.namespace(label) for label in ("gen", "sink"))
    functions = [lab.namespace(f"f{number}") for number in range(1, length + 1)]
    return Row(gen, functions, sink, _links(lab, [gen, *functions, sink]))


def _links(lab: Lab, way: Sequence[Namespace]) -> list[Link]:
    links = []
    for number, (a, b) in enumerate(itertools.pairwise(way)):
        lab.link(a, b)
        links.append(Link(Port(a, f"wan{number}"), Port(b, f"wan{number}")))
    return links


def hawser(program: str, row: Row) -> None:
    """`hawserd function`: each function sends frames directly to the next one."""
    for number, function in enumerate(row.functions):
        into, out = row.links[number : number + 2]
        _forwarder(program, function, into, out, [onward(1, 254 - number, "out", out.into)])


def steered(program: str, lab: Lab, length: int, **tables: object) -> Row:
    """`hawserd function`: a classifying forwarder, and functions traversed in both directions.

    `tables` are further parts of the forwarder's configuration.
    """
    gen, sff, sink = (lab.namespace(label) for label in ("gen", "sff", "sink"))
    functions = [lab.namespace(f"f{number}") for number in range(1, length + 1)]
    way = [gen, sff, *functions, *([sff] if functions else []), sink]
    first, *between, end = _links(lab, way)
    ports = {"gen": first.into, "sink": end.out}
    hops: list[object] = [
        {"spi": spi, "si": 255 - length, "end": {"port": port}}
        for spi, port in ((1, "sink"), (2, "gen"))
    ]
    if between:
        ports |= {"out": between[0].out, "in": between[-1].into}
        hops.append(onward(1, 255, "out", between[0].into))
        hops.append(onward(2, 255, "in", between[-1].out))
    rules = [{"port": "gen", "spi": 1}, {"port": "sink", "spi": 2}]
    other = {"gen": {"port": "sink"}, "sink": {"port": "gen"}}
    start(program, sff, "sff", ports, hops=hops, rules=rules, otherwise=other, **tables)
    for number, function in enumerate(functions):
        into, out = between[number : number + 2]
        there = onward(1, 254 - number, "out", out.into)
        back = onward(2, 255 - length + number, "in", into.out)
        _forwarder(program, function, into, out, [there, back])
    return Row(gen, functions, sink, [first, *between, end], sff)


def _forwarder(
    program: str, function: Namespace, into: Link, out: Link, hops: Sequence[object]
) -> None:
    start(program, function, "forwarder", {"in": into.into, "out": out.out}, hops=hops)


def onward(spi: int, si: int, port: str, neighbour: Port) -> dict[str, object]:
    """Hop that sends frames with this SPI and decremented SI on to a neighbour."""
    return {"spi": spi, "si": si, "to": [{"port": port, "mac": neighbour.mac}]}


def firewall(program: str, rules: int, row: Row) -> None:
    """`hawserd function`: a firewall with `rules` rules; only the last one matches, and allows."""
    (function,), (into, out) = row.functions, row.links
    file = function.directory / "rules.json"
    file.write_text(json.dumps({"rules": [*map(_denied, range(rules - 1)), {"action": "allow"}]}))
    hop = onward(1, 254, "out", out.into)
    guard = {"rules_file": str(file), "otherwise": "deny"}
    ports = {"in": into.into, "out": out.out}
    start(program, function, "firewall", ports, hops=[hop], firewall=guard)


def _denied(number: int) -> dict[str, object]:
    """A rule that no frame of the bench matches; its fields vary with `number`."""
    high, low = number >> 8 & 255, number & 255
    hosts = {"source": f"10.{high}.{low}.0/24", "action": "deny"}
    looks: Sequence[dict[str, object]] = (
        {"destination": f"172.16.{high}.{low}/32", "protocol": 6},
        {"protocol": 17, "destination_ports": [number % 60_000, number % 60_000]},
        {"destination": f"192.168.{high}.0/24", "protocol": 6, "source_ports": [1024, 65_535]},
        {"dscp": number % 63},
    )
    return {**hosts, **looks[number % len(looks)]}


def start(
    program: str,
    namespace: Namespace,
    kind: str,
    ports: dict[str, Port],
    *,
    otherwise: Mapping[str, object] | None = None,
    **tables: object,
) -> Daemon:
    """Start a function, and wait until it forwards."""
    socket = namespace.directory / "control.sock"
    known = otherwise or {}
    config = {
        "version": 1,
        "control": str(socket),
        "ports": [
            {
                "name": name,
                "interface": port.device,
                "trusted": name not in known,
                "otherwise": known.get(name, "pass"),
            }
            for name, port in ports.items()
        ],
        **tables,
    }
    file = namespace.directory / "function.json"
    file.write_text(json.dumps(config))
    daemon = namespace.start([program, "function", kind, "--config", str(file)])
    until(lambda: _serves(socket), f"{kind} answers", timeout=60, daemons=[daemon])
    return daemon


def _serves(path: Path) -> bool:
    """Whether a daemon answers. It does so only once it forwards packets."""
    try:
        return b" 200 " in _answer(path, "/v1/status")[:64]
    except OSError:
        return False


def ask(socket: Path, path: str) -> bytes:
    """What a daemon's control API says.

    Raises:
        OSError: it does not answer.
    """
    return _answer(socket, path).partition(b"\r\n\r\n")[2]


def _answer(socket: Path, path: str) -> bytes:
    with Socket(AF_UNIX) as connection:
        connection.settimeout(1)
        connection.connect(str(socket))
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(functools.partial(connection.recv, 1 << 16), b""))


@contextlib.contextmanager
def redirecting(row: Row) -> Iterator[None]:
    """Minimal chain: an XDP program per node that looks up, rewrites and redirects."""
    pins: list[Path] = []
    try:
        for into, out in itertools.pairwise(row.links):
            pins.append(_PINS / f"{into.into.namespace.name}-{into.into.device}")
            _redirect(pins[-1], into.into, out)
        yield
    finally:
        for pin in filter(Path.exists, pins):
            for file in pin.glob("*"):
                file.unlink()
            pin.rmdir()


def _redirect(pin: Path, into: Port, out: Link) -> None:
    _bpftool(into.namespace, "prog", "loadall", str(_object()), str(pin), "pinmaps", str(pin))
    addresses = bytes.fromhex((out.into.mac + out.out.mac).replace(":", ""))
    for table, value in (
        ("out", struct.pack("=I", out.out.index)),
        ("entries", struct.pack("=I", 0) + addresses),
    ):
        path = ["pinned", str(pin / table), "key", "0", "0", "0", "0"]
        _bpftool(into.namespace, "map", "update", *path, "value", *map(str, value))
    program = str(pin / "redirect")
    _inside(into.namespace, "ip", "link", "set", into.device, "xdpdrv", "pinned", program)


@functools.cache
def _object() -> Path:
    return compiled(Path(__file__).with_name("redirect.bpf.c"))


def _bpftool(namespace: Namespace, *words: str) -> None:
    _inside(namespace, "bpftool", *words)


def _inside(namespace: Namespace, *command: str) -> None:
    """Run a command in the namespace with this process's mounts, which hold the pins."""
    words = ["nsenter", f"--net=/run/netns/{namespace.name}", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise SampleError(f"{' '.join(command)}: {done.stderr or done.stdout}")


def python(way: str, row: Row) -> None:
    """Python script `nsh_forward.py` as the only function; `way` is its first argument."""
    (namespace,), (into, out) = row.functions, row.links
    script = str(Path(__file__).with_name("nsh_forward.py"))
    command = [sys.executable, script, way, into.into.device, out.out.device, out.into.mac]
    daemon = namespace.start(command)
    _take_frames(into, out)
    until(lambda: "ready" in daemon.said(), "the script is ready", daemons=[daemon])


def open_vswitch(row: Row) -> None:
    """Open vSwitch (userspace datapath) as the only function; it decrements SI and TTL."""
    (namespace,), (into, out) = row.functions, row.links
    folder = namespace.directory
    share = Path("/usr/share/openvswitch/vswitch.ovsschema")
    database, socket = folder / "conf.db", f"unix:{folder / 'db.sock'}"
    environment = ["env", f"OVS_RUNDIR={folder}"]
    namespace.run([*environment, "ovsdb-tool", "create", str(database), str(share)])
    server = ["ovsdb-server", str(database), f"--remote=p{socket}"]
    daemons = [namespace.start([*environment, *server])]
    until((folder / "db.sock").exists, "the database answers", daemons=daemons)
    daemons.append(namespace.start([*environment, "ovs-vswitchd", socket]))
    bridge = ["add-br", "b", "--", "set", "bridge", "b", "datapath_type=netdev"]
    ports = [word for link in (into.into, out.out) for word in ("--", "add-port", "b", link.device)]
    vsctl = ["ovs-vsctl", f"--db={socket}", "--timeout=10"]
    namespace.run([*environment, *vsctl, *bridge, *ports], timeout=20)
    actions = (
        f"decap(),set_field:254->nsh_si,dec_nsh_ttl,encap(ethernet),"
        f"set_field:{out.out.mac}->eth_src,set_field:{out.into.mac}->eth_dst,output:2"
    )
    flow = f"in_port=1,dl_type=0x894f,nsh_spi=1,nsh_si=255,actions={actions}"
    ofctl = ["ovs-ofctl", "--protocols=OpenFlow13,OpenFlow15"]
    namespace.run([*environment, "ovs-vsctl", f"--db={socket}", "set", "bridge", "b",
                   "protocols=OpenFlow13,OpenFlow15"])  # fmt: skip
    namespace.run([*environment, *ofctl, "-O", "OpenFlow15", "add-flow", "b", flow])
    _take_frames(into, out)


def _take_frames(into: Link, out: Link) -> None:
    """Enable GRO at the inbound port: a veth accepts XDP frames only with a program or GRO."""
    into.into.namespace.run(["ethtool", "-K", into.into.device, "gro", "on"])
    out.out.namespace.run(["ethtool", "-K", out.out.device, "tx", "off"])
