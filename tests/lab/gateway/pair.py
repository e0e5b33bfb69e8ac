"""Two gateways in network namespaces, made with `ip` and `tc` alone: for tests.

Direct (`Lab.direct`), as fast as the machine:

   hawsergw-PID-N-1                                              hawsergw-PID-N-2
  +------------------------+                                +------------------------+
  | hawser0    10.1.0.1/24 |                                | hawser0    10.2.0.1/24 |
  |   hawserd gateway (b1) |                                |   hawserd gateway (b2) |
  | wa       198.18.0.1/24 |--------------------------------| wa       198.18.0.2/24 |
  +------------------------+                                +------------------------+

Paths (`Lab.paths`), each with its own rate in each direction, and a queue of 50 packets:

   hawsergw-PID-N-1             hawsergw-PID-N-0            hawsergw-PID-N-2
  +-----------------+        +-------------------+        +-----------------+
  | wa 198.18.1.2   |--------| 1a  p1 1a>2a  2a  |--------| wa 198.18.3.2   |
  |                 |        |     p2 1a>2b      |        |                 |
  | wb 198.18.2.2   |--------| 1b  p3 1b>2a  2b  |--------| wb 198.18.4.2   |
  +-----------------+        |     p4 1b>2b      |        +-----------------+
                             +-------------------+
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.daemon import Daemon
from lab.namespace import Namespaces, run
from lab.traffic.echoes import echoes
from lab.waiting import PATIENCE, until

QUEUE_BYTES = 50 * 1500


class Gateway(Daemon):
    """One `hawserd gateway` in a namespace."""

    def __init__(self, namespace: str, config: dict[str, Any], folder: Path) -> None:
        super().__init__(namespace, "gateway", config, folder, config["branch"])

    def answers(self) -> bool:
        try:
            return bool(self.get("/v1/status")["ready"])
        except OSError:
            return False

    def group(self) -> dict[str, Any]:
        """Counters of the first group of the first peer."""
        found: dict[str, Any] = self.get("/v1/counters")["peers"][0]["groups"][0]
        return found

    def up(self) -> bool:
        return all(peer["up"] for peer in self.get("/v1/status")["peers"])

    def subflows(self) -> int:
        return sum(
            g["subflows"] for peer in self.get("/v1/status")["peers"] for g in peer["groups"]
        )

    def memory(self) -> tuple[int, int]:
        """Resident memory now and at its peak, in KiB."""
        assert self.process
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        values = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
        return int(values["VmRSS"]), int(values["VmHWM"])


@dataclass
class Lab:
    """Namespaces, and what runs in them. Leaving the context removes everything."""

    folder: Path
    namespaces: Namespaces = field(default_factory=lambda: Namespaces("hawsergw"))
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    gateways: list[Gateway] = field(default_factory=list)
    wans: dict[int, list[str]] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return self.namespaces.prefix

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        for gateway in self.gateways:
            if not gateway.ended():
                gateway.stop(signal.SIGKILL)
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        self.namespaces.__exit__()

    def namespace(self, number: int) -> str:
        """Make a namespace."""
        name = self.namespaces.add(number)
        run("ip", "-n", name, "link", "set", "lo", "up")
        return name

    def at(self, number: int, *command: str, check: bool = True) -> str:
        """Run a command in a namespace."""
        return self.namespaces.at(number, *command, check=check)

    def start(self, number: int, *command: str, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401 (JSON, or another function's arguments)
        """Start a command in a namespace; it ends with the lab."""
        process = subprocess.Popen(self.namespaces.inside(number, *command), text=True, **options)
        self.processes.append(process)
        return process

    def cable(self, a: tuple[int, str, str], b: tuple[int, str, str], offload: bool = True) -> None:
        """Join two namespaces; each end is number, interface, address with prefix length."""
        ends = [["name", end[1], "netns", f"{self.prefix}-{end[0]}"] for end in (a, b)]
        run("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for number, interface, address in (a, b):
            name = f"{self.prefix}-{number}"
            run("ip", "-n", name, "addr", "add", address, "dev", interface)
            run("ip", "-n", name, "link", "set", interface, "up")
            if not offload:
                self.at(
                    number, "ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off"
                )

    def direct(self) -> Lab:
        """Two namespaces joined by one unlimited cable."""
        self.namespace(1)
        self.namespace(2)
        self.cable((1, "wa", "198.18.0.1/24"), (2, "wa", "198.18.0.2/24"))
        self.wans = {1: ["198.18.0.1"], 2: ["198.18.0.2"]}
        return self

    def paths(self, rates: Sequence[float]) -> Lab:
        """Two namespaces joined by four paths of these rates (Mbit/s, each way)."""
        for number in range(3):
            self.namespace(number)
        self.at(0, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        nets = {"1a": 1, "1b": 2, "2a": 3, "2b": 4}
        for port, net in nets.items():
            number, wan = int(port[0]), f"w{port[1]}"
            inner = (0, f"i{port}", f"198.18.{net}.1/24")
            self.cable((number, wan, f"198.18.{net}.2/24"), inner, offload=False)
            self._source_route(number, wan, net)
        self.wans = {1: ["198.18.1.2", "198.18.2.2"], 2: ["198.18.3.2", "198.18.4.2"]}
        pairs = list(itertools.product(("1a", "1b"), ("2a", "2b")))
        for to in nets:
            classes = {
                f"198.18.{nets[a if b == to else b]}.0/24": rate
                for (a, b), rate in zip(pairs, rates, strict=True)
                if to in (a, b)
            }
            self._shape(f"i{to}", classes)
        self._manage()
        return self

    def _source_route(self, number: int, wan: str, net: int) -> None:
        """Packets from a WAN address leave by its port."""
        name, gateway = f"{self.prefix}-{number}", f"198.18.{net}.1"
        table = str(100 + net)
        run("ip", "-n", name, "route", "add", "default", "via", gateway, "dev", wan, "table", table)
        run("ip", "-n", name, "rule", "add", "from", f"198.18.{net}.2", "table", table)
        metric = str(net)
        run("ip", "-n", name, "route", "add", "default", "via", gateway, "metric", metric)

    def _shape(self, interface: str, classes: dict[str, float]) -> None:
        tc = ("tc", "qdisc", "add", "dev", interface)
        self.at(0, *tc, "root", "handle", "1:", "htb")
        for number, (source, rate) in enumerate(classes.items(), start=1):
            bits = f"{round(rate * 1e6)}bit"
            self.at(0, "tc", "class", "add", "dev", interface, "parent", "1:", "classid",
                    f"1:{number}", "htb", "rate", bits, "burst", "1600",
                    "cburst", "1600")  # fmt: skip
            self.at(0, *tc, "parent", f"1:{number}", "bfifo", "limit", str(QUEUE_BYTES))
            self.at(0, "tc", "filter", "add", "dev", interface, "parent", "1:", "protocol", "ip",
                    "prio", "1", "u32", "match", "ip", "src", source,
                    "flowid", f"1:{number}")  # fmt: skip

    def _manage(self) -> None:
        """Let the gateways make the subflows."""
        for number in self.wans:
            self.at(number, "sysctl", "-qw", "net.mptcp.pm_type=1")

    def cut(self, a: str, b: str) -> Callable[[], None]:
        """Cut a path between two ports such as `1a` silently; gives what mends it."""
        nets = {"1a": 1, "1b": 2, "2a": 3, "2b": 4}
        one, two = (f"198.18.{nets[port]}.0/24" for port in (a, b))
        rules = [("from", x, "to", y, "blackhole") for x, y in ((one, two), (two, one))]
        for rule in rules:
            run("ip", "-n", f"{self.prefix}-0", "rule", "add", *rule)

        def mend() -> None:
            for rule in rules:
                run("ip", "-n", f"{self.prefix}-0", "rule", "del", *rule)

        return mend

    def member_paths(self, own: int, other: int) -> list[dict[str, str]]:
        """All pairs of WAN addresses, as a configuration has them."""
        pairs = itertools.product(self.wans[min(own, other)], self.wans[max(own, other)])
        return [
            {"local": a if own < other else b, "remote": b if own < other else a} for a, b in pairs
        ]

    def gateway(self, number: int, other: int, **changes: Any) -> Gateway:  # noqa: ANN401 (JSON, or another function's arguments)
        """A gateway of branch `number`, whose peer is branch `other`; not yet started."""
        peer = {
            "branch": f"b{other}",
            "id": other,
            "prefixes": [f"10.{other}.0.0/24"],
            "groups": [{"id": 0, "paths": self.member_paths(number, other)}],
        }
        config: dict[str, Any] = {
            "version": 1,
            "branch": f"b{number}",
            "id": number,
            "control": str(self.folder / f"b{number}.sock"),
            "tun": {"name": "hawser0", "mtu": 1500, "address": f"10.{number}.0.1/24"},
            "source": f"10.{number}.0.1",
            "transport": {"kind": "mptcp", "tls": None, "insecure": True},
            "queue_bytes": 1_000_000,
            "peers": [peer],
        } | changes
        gateway = Gateway(f"{self.prefix}-{number}", config, self.folder)
        self.gateways.append(gateway)
        return gateway

    def pair(self, subflows: int = 1, **changes: Any) -> tuple[Gateway, Gateway]:  # noqa: ANN401 (JSON, or another function's arguments)
        """Both gateways, started, with a connection of this number of subflows."""
        one = self.gateway(1, 2, **changes)
        two = self.gateway(2, 1, **changes)
        one.start()
        two.start()
        until(lambda: one.up() and two.up(), "both are up")
        if one.config["transport"]["kind"] == "mptcp":
            until(lambda: one.subflows() >= subflows, f"{subflows} subflows")
        return one, two

    def iperf(self, *options: str, seconds: float = 5, to: str = "10.2.0.1") -> dict[str, Any]:
        """Run iperf3 from branch 1 to branch 2; the server's view is in `server_output_json`."""
        return self._iperf("-t", str(seconds), *options, to=to)

    def transfer(self, size: str, *options: str, to: str = "10.2.0.1") -> dict[str, Any]:
        """Send bytes (such as `8M`) from branch 1 to branch 2 by iperf3, however long it takes."""
        return self._iperf("-n", size, *options, to=to)

    def _iperf(self, *options: str, to: str) -> dict[str, Any]:
        server = self.start(2, "iperf3", "-s", "-1", "-J", stdout=subprocess.DEVNULL)
        until(lambda: ":5201" in self.at(2, "ss", "-Hltn"), "iperf3 listens")
        command = ["iperf3", "-c", to, "-J", "--get-server-output", *options]
        result: dict[str, Any] = json.loads(self.at(1, *command, check=False))
        server.wait(PATIENCE)
        if "error" in result:
            raise RuntimeError(result["error"])
        return result

    def ping(self, count: int, interval: float = 0.05, to: str = "10.2.0.1") -> list[float]:
        """Round-trip times from branch 1 to branch 2, in milliseconds, sorted.

        Answers may come at any time, so a missing one was lost.
        """
        return echoes(f"{self.prefix}-1", to, count, interval)


def pki(folder: Path, branches: Sequence[str], authority: str = "ca") -> dict[str, dict[str, str]]:
    """Certificates of an authority of our own for these branches, by openssl; as in `tls`."""
    ca_key, ca = folder / f"{authority}.key", folder / f"{authority}.pem"
    new = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
    ]  # fmt: skip
    run(*new, "-keyout", str(ca_key), "-out", str(ca), "-subj", f"/CN={authority}", "-days", "2")
    made = {}
    for name in branches:
        key, certificate = folder / f"{authority}-{name}.key", folder / f"{authority}-{name}.pem"
        run(*new, "-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}",
            "-days", "2", "-CA", str(ca), "-CAkey", str(ca_key),
            "-addext", f"subjectAltName=DNS:{name}",
            "-addext", "basicConstraints=critical,CA:FALSE")  # fmt: skip
        made[name] = {"certificate": str(certificate), "key": str(key), "ca": str(ca)}
    return made


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="hawser-gateway-") as folder:
        yield Path(folder)
