"""The kernel's segment routing between our generator and our meter, each behaviour once.

 a              k: the kernel                               b
+-----+        +-----------------------------------+       +------+
| gen |--------| in    seg6, seg6local         out |-------| sink |
+-----+        |       5f00::1       fd00:2::1/64  |       +------+
               +-----------------------------------+        fd00:2::2
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.load.wire import Wire, load
from lab.namespace import Namespaces, run
from lab.waiting import PATIENCE

pytestmark = pytest.mark.root

OWN, NEXT, SINK = "5f00::1", "5f00:9::1", "fd00:2::2"
MAC = {"in": "02:00:00:00:00:01", "out": "02:00:00:00:00:02", "sink": "02:00:00:00:00:03"}
IPV6 = {"source": {"first": "fd01::1"}, "target": {"first": "fd09::1"}}
_numbers = itertools.count()


def outer(*segments: str) -> dict[str, Any]:
    return {"outer": {"srv6": {"source": "fd00:1::2", "segments": list(segments)}}}


BEHAVIOURS = {
    # the kernel's behaviour, the packets sent, and segments left afterwards (none: no header)
    "End": ("End", outer(OWN, NEXT), "0"),
    "End, two left": ("End", outer(OWN, NEXT, "5f00:9::2"), "1"),
    "End with PSP": ("End flavors psp", outer(OWN, NEXT), ""),
    "End.X": (f"End.X nh6 {SINK}", outer(OWN, "5f00:7::1"), "0"),
    "End.DX4": ("End.DX4 nh4 0.0.0.0", outer(OWN), ""),
    "End.DX6": ("End.DX6 nh6 ::", {**outer(OWN), **IPV6}, ""),
    "End.DT6": ("End.DT6 table 254", {**outer(OWN), **IPV6}, ""),
}
HEADS = {
    # how the kernel encapsulates, the packets, and the segment list of what leaves it
    "H.Encaps": ("encap", {}, [NEXT, "5f00:9::2"]),
    "H.Encaps.Red": ("encap.red", {}, ["5f00:9::2"]),
    "H.Encaps, IPv6": ("encap", IPV6, [NEXT, "5f00:9::2"]),
    "H.Encaps.Red, IPv6": ("encap.red", IPV6, ["5f00:9::2"]),
    "H.Insert": ("inline", IPV6, [NEXT, "5f00:9::2", "fd09::1"]),
}


@pytest.fixture
def kernel() -> Iterator[str]:
    """The kernel's node, with neighbours and routes to the sink."""
    with Namespaces("hawserls") as made:
        a, k, b = (made.add(label) for label in "akb")
        cable(a, "gen", k, "in")
        cable(b, "sink", k, "out")
        run("ip", "-n", b, "link", "set", "dev", "sink", "address", MAC["sink"])
        router(k)
        yield k


def cable(namespace: str, device: str, k: str, port: str) -> None:
    peer = ["peer", "name", port, "address", MAC[port], "netns", k]
    run("ip", "-n", namespace, "link", "add", "name", device, "type", "veth", *peer)
    for where, name in ((namespace, device), (k, port)):
        run("ip", "-n", where, "link", "set", "dev", name, "up")


def router(k: str) -> None:
    inside = ["ip", "netns", "exec", k, "sysctl", "-qw"]
    names = ("all", "default", "in", "out")
    run(*inside, "net.ipv4.ip_forward=1", *(f"net.ipv4.conf.{n}.rp_filter=0" for n in names))
    for key in ("forwarding", "seg6_enabled"):
        run(*inside, *(f"net.ipv6.conf.{n}.{key}=1" for n in names))
    ip(k, "address add 192.0.2.1/24 dev out")
    ip(k, "-6 address add fd00:2::1/64 dev out nodad")
    ip(k, f"neighbour add 192.0.2.2 lladdr {MAC['sink']} dev out")
    ip(k, f"neighbour add {SINK} lladdr {MAC['sink']} dev out")
    ip(k, "route add 10.22.0.0/16 via 192.0.2.2")
    for prefix in ("5f00:9::/64", "fd09::/64"):
        ip(k, f"-6 route add {prefix} via {SINK}")


def ip(namespace: str, words: str) -> None:
    run("ip", "-n", namespace, *words.split())


def through(kernel: str, stream: dict[str, Any], file: Path) -> None:
    """Send frames through the kernel, and check that none is lost."""
    wire = Wire(kernel[:-1] + "a", kernel[:-1] + "b")
    sizes = {"sizes": {"fixed": 300}, "rate": {"frames_per_s": 5_000}, "amount": {"frames": 300}}
    config = wire.config(ethernet={"destination": MAC["in"]}, **sizes, **stream)
    config["receive"]["capture"] = {"file": str(file)}
    # Not by XDP: the kernel's port has no program, so it would not accept redirected frames.
    config["send"]["backend"] = "packet"
    result = load(config)
    assert (result["lost"], result["received"]["unique"]) == (0, 300)
    wrong = "_ws.malformed || _ws.expert.severity >= 6291456"
    assert tshark(file, "-Y", wrong) == []


def tshark(file: Path, *options: str) -> list[str]:
    command = ["tshark", "-r", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_the_kernel_takes_our_headers(kernel: str, tmp_path: Path, name: str) -> None:
    behaviour, stream, left = BEHAVIOURS[name]
    ip(kernel, f"-6 route add {OWN} encap seg6local action {behaviour} dev out")
    file = tmp_path / "frames.pcap"
    through(kernel, stream, file)
    rows = tshark(file, "-Y", "udp", "-T", "fields", "-e", "ipv6.routing.segleft")
    assert set(rows) == {left}


@pytest.mark.parametrize("name", HEADS)
def test_our_meter_takes_the_kernels_headers(kernel: str, tmp_path: Path, name: str) -> None:
    mode, stream, segments = HEADS[name]
    target = "fd09::1" if stream else "10.22.5.204"
    encap = f"encap seg6 mode {mode} segs {NEXT},5f00:9::2"
    ip(kernel, f"-{6 if stream else 4} route add {target} {encap} dev out")
    file = tmp_path / "frames.pcap"
    through(kernel, stream, file)
    rows = tshark(file, "-Y", "udp", "-T", "fields", "-e", "ipv6.routing.srh.addr")
    assert {tuple(row.split(",")) for row in rows} == {tuple(reversed(segments))}
