"""Segment routing proxies (End.AS, End.AD, End.AM) between the kernel's H.Encaps and End.DX.

ha 10.1.0.1 --- a --- r --- b --- 10.2.0.1 hb
                      |
                     px  the proxies
                    p0 p1
                     ||
                     fn  an SFC-unaware function     (drawn in lab/function/srv6.py)
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.function.srv6 import ADDRESSES, Srv6
from lab.traffic.counted import deliver_between
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root


def passed(lab: Srv6) -> list[tuple[int, int]]:
    """Packets toward the function and back, of each proxy."""
    counted = lab.proxy.counters()["proxies"]
    return [(proxy["toward"]["packets"], proxy["returned"]["packets"]) for proxy in counted]


def carried(lab: Srv6) -> list[tuple[int, int]]:
    """Bytes toward the function and back, of each proxy."""
    counted = lab.proxy.counters()["proxies"]
    return [(proxy["toward"]["bytes"], proxy["returned"]["bytes"]) for proxy in counted]


@pytest.mark.parametrize(
    ("behaviour", "mode"),
    [
        ("static", "encap"),
        ("dynamic", "encap"),
        ("dynamic", "encap.red"),
        ("masquerading", "encap.red"),
    ],
)
def test_a_router_is_a_function(behaviour: str, mode: str) -> None:
    with Srv6(behaviour, mode) as lab:
        for number, family in enumerate((4, 6), 1):
            lab.set_end(family)
            assert lab.answered(family, 10) == 10, lab.proxy.counters()
            assert passed(lab) == [(10 * number, 10 * number)] * 2
        counters = lab.proxy.counters()
        assert sum(counters["drops"].values()) == 0
        learned = [proxy["learned"] for proxy in counters["proxies"]]
        assert learned == ([2, 2] if behaviour == "dynamic" else [0, 0]), "once a family"


@pytest.mark.parametrize(
    ("behaviour", "family"), [("static", 4), ("dynamic", 6), ("masquerading", 4)]
)
def test_tcp_passes_a_proxy(behaviour: str, family: int) -> None:
    with Srv6(behaviour) as lab:
        lab.set_end(family)
        before = carried(lab)
        size, target = 4_000_000, ADDRESSES["b"][family == 6]
        deliver_between(lab.namespace("ha"), lab.namespace("hb"), target, size)
        forward, reverse = (
            tuple(late - early for late, early in zip(now, then, strict=True))
            for now, then in zip(carried(lab), before, strict=True)
        )
        assert min(forward) > size, "all of it went to the function and came back"
        assert min(reverse) > 0, "so did acknowledgements"
        drops = lab.proxy.counters()["drops"]
        assert drops["malformed"] == drops["too_big"] == 0


@pytest.mark.parametrize("behaviour", ["static", "dynamic"])
def test_a_function_may_change_addresses(behaviour: str) -> None:
    with Srv6(behaviour) as lab:
        lab.set_end(4)
        table = "table ip n { chain c { type nat hook postrouting priority 100;"
        lab.at("fn", "nft", f"{table} oifname f1 snat to 10.9.9.9 ; }}; }}")
        from_b = "route add 10.9.9.9 encap seg6 mode encap segs 5f00:f::2,5f00:a::4 dev c0"
        lab.ip("b", from_b)
        seen = _captured(lab, "hb", "c0", "icmp", lambda: lab.ping(4, "-c", "8", "-i", "0.05"))
        rows = _tshark(seen, "-Y", "icmp", "-T", "fields", "-e", "ip.src")
        assert set(rows) == {"10.9.9.9", ADDRESSES["b"][0]}
        assert lab.answered(4, 5) == 5


def test_a_masked_address_must_come_back_unchanged() -> None:
    with Srv6("masquerading") as lab:
        table = "table ip6 n { chain c { type filter hook prerouting priority 0;"
        lab.at("fn", "nft", f"{table} ip6 daddr 5f00:b::4 ip6 daddr set 5f00:b::9 ; }}; }}")
        assert "100% packet loss" in lab.ping(4, "-c", "3", "-i", "0.02")
        until(lambda: lab.proxy.counters()["drops"]["changed"] == 3)


def test_nothing_is_known_before_the_first_packet() -> None:
    with Srv6("dynamic") as lab:
        ping = lab.inside("fn", "ping", "-c", "2", "-i", "0.02", "-W", "1", "-q")
        subprocess.run([*ping, "-I", "f1", "10.9.1.1"], stdout=subprocess.DEVNULL, check=False)
        until(lambda: lab.proxy.counters()["drops"]["no_cache"] == 2)


@pytest.mark.parametrize(
    ("behaviour", "family"), [("static", 4), ("dynamic", 6), ("masquerading", 4)]
)
def test_tshark_reads_what_leaves_a_proxy(behaviour: str, family: int) -> None:
    with Srv6(behaviour) as lab:
        lab.set_end(family)
        ping = partial(lab.ping, family, "-c", "8", "-i", "0.05")
        file = _captured(lab, "r", "b", "ip6 proto 43", ping)
        wrong = "_ws.malformed || _ws.expert.severity >= 6291456"
        assert _tshark(file, "-Y", wrong) == []
        shown = ["-e", "ipv6.routing.segleft", "-e", "ipv6.routing.type"]
        rows = _tshark(file, "-Y", "icmp || icmpv6", "-T", "fields", *shown)
        assert set(rows) == {"0\t4", "1\t4"}, "from the proxy, and from b to it"


def test_packets_that_do_not_fit_are_counted() -> None:
    with Srv6("static") as lab:
        ping = lab.inside("fn", "ping", "-c", "2", "-i", "0.02", "-W", "1", "-q", "-s", "1572")
        subprocess.run([*ping, "-I", "f1", "10.9.1.1"], stdout=subprocess.DEVNULL, check=False)
        until(lambda: lab.proxy.counters()["drops"]["too_big"] == 2)


def _captured(lab: Srv6, label: str, device: str, what: str, traffic: Callable[[], object]) -> Path:
    file = lab.folder / f"{label}.pcap"
    file.unlink(missing_ok=True)
    options = ["-U", "-i", device, "-c", "6", "-w", str(file), *what.split()]
    command = lab.inside(label, "timeout", f"{PATIENCE:.0f}", "tcpdump", *options)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL):
        until(file.exists, "tcpdump captures")
        traffic()
    return file


def _tshark(file: Path, *options: str) -> list[str]:
    command = ["tshark", "-r", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()
