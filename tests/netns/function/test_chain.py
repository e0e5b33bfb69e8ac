"""Real traffic through chains of `hawserd function` by NSH: order, headers, loops, updates, traces.

client 10.0.0.1 ---- sff ---- 10.0.0.2 server
                     ||
                  f1 ... fN               (drawn in lab/function/chain.py)
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.daemon import hawserd
from lab.function.chain import FORWARD, REVERSE, Chain, Node, hop_packets
from lab.traffic.chains import kernel_counts
from lab.traffic.counted import deliver_between
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.mark.parametrize("transport", ["ethernet", "vxlan_gpe"])
@pytest.mark.parametrize("functions", [0, 1, 3])
def test_packets_pass_every_function_in_order(functions: int, transport: str) -> None:
    with Chain(functions, transport) as chain:
        assert chain.answered(20) == 20
        counters = chain.sff.counters()
        assert hop_packets(counters, FORWARD) == [20] * (functions + 1)
        assert hop_packets(counters, REVERSE) == [20] * (functions + 1)
        served = [node.counters()["served"]["packets"] for node in chain.functions]
        assert served == [40] * functions
        assert sum(counters["drops"].values()) == 0


@pytest.mark.parametrize("transport", ["ethernet", "vxlan_gpe"])
def test_tcp_passes_a_chain(transport: str) -> None:
    with Chain(2, transport) as chain:
        deliver_between(chain.namespace("client"), chain.namespace("server"), "10.0.0.2", 4_000_000)
        assert hop_packets(chain.sff.counters(), FORWARD)[-1] > 1000


def test_tshark_reads_what_is_on_the_wire(tmp_path: Path) -> None:
    for transport, fields in (
        ("ethernet", ["nsh.spi", "nsh.si", "nsh.mdtype"]),
        ("vxlan_gpe", ["vxlan.vni", "nsh.spi", "nsh.si"]),
    ):
        with Chain(1, transport) as chain:
            chain.functions[0].stop()
            file = _captured(chain, "f1", tmp_path / f"{transport}.pcap")
            shown = [option for field in fields for option in ("-e", field)]
            assert _tshark(file, "-Y", _WRONG) == []
            rows = _tshark(file, "-Y", "nsh && icmp", "-T", "fields", *shown)
            assert rows
            expected = {"ethernet": "1\t255\t1", "vxlan_gpe": "7\t1\t255"}[transport]
            assert set(rows) == {expected}


@pytest.mark.parametrize("transport", ["ethernet", "vxlan_gpe"])
def test_unknown_context_headers_are_carried_whole(transport: str, tmp_path: Path) -> None:
    known_to_nobody = [
        {"class": 0xFFF6, "type": 0x7E, "data": "c0ffee"},
        {"class": 0x1234, "type": 0x81, "data": "00112233445566778899"},
        {"class": 9, "type": 1, "data": ""},
    ]
    with Chain(2, transport) as chain:
        config = chain.sff.config
        for rule in config["rules"]:
            rule["metadata"] = {"variable": known_to_nobody}
        status, answer = chain.sff.call("PUT", "/v1/config", config)
        assert status == 200, answer
        assert chain.answered(3) == 3
        chain.functions[1].stop()
        file = _captured(chain, "f2", tmp_path / "variable.pcap")
    assert _tshark(file, "-Y", _WRONG) == []
    fields = ["nsh.si", "nsh.mdtype", "nsh.metadataclass", "nsh.metadatatype", "nsh.metadata"]
    shown = [option for field in fields for option in ("-e", field)]
    rows = _tshark(file, "-Y", "nsh && icmp", "-T", "fields", *shown)
    assert rows
    assert set(rows) == {"254\t2\t65526,4660,9\t126,129,1\tc0ffee,00112233445566778899"}


_WRONG = "_ws.malformed || _ws.expert.severity >= 6291456"
"""What tshark finds wrong with a packet: not decoded, or a warning or more."""


def _captured(chain: Chain, label: str, file: Path) -> Path:
    """Capture echoes that come to a function whose program does not run.

    Without it the port takes frames only with GRO, and shows them to tcpdump.
    """
    chain.at(label, "ethtool", "-K", "f0", "gro", "on")
    capture = ["ip", "netns", "exec", chain.namespace(label), "timeout", "120", "tcpdump"]
    options = ["-U", "-i", "f0", "-c", "4", "-w", str(file)]
    with subprocess.Popen([*capture, *options], stderr=subprocess.DEVNULL):
        until(file.exists, "tcpdump captures")
        chain.ping("-c", "8", "-i", "0.05")
    return file


def _tshark(file: Path, *options: str) -> list[str]:
    command = ["tshark", "-r", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def test_a_trace_follows_a_packet() -> None:
    with Chain(2) as chain:
        assert chain.answered(1) == 1
        nodes = [chain.sff, *chain.functions]
        for node in nodes:
            request = {"events": 50, "spi": FORWARD, "destination": "10.0.0.2"}
            assert node.call("PUT", "/v1/trace", request)[0] == 204
        assert chain.answered(1) == 1
        events: list[tuple[Any, ...]] = []
        until(lambda: len(told(events, nodes)) >= 6, "six events")
        assert [event[1:] for event in sorted(events)] == [
            ("classified", 255, None),
            ("forwarded", 255, "f1"),
            ("served", 255, None),
            ("forwarded", 254, "f2"),
            ("served", 254, None),
            ("ended", 253, "server"),
        ]


def told(events: list[tuple[Any, ...]], nodes: list[Node]) -> list[tuple[Any, ...]]:
    """Add what nodes traced since they were asked last."""
    for node in nodes:
        traced = node.call("GET", "/v1/trace")[1]["events"]
        events += [(each["time_ns"], each["step"], each["si"], each["to"]) for each in traced]
    return events


def test_a_loop_ends_by_time_to_live() -> None:
    with Chain(1) as chain:
        config = chain.sff.config
        looping = [hop for hop in config["hops"] if hop["si"] == 255 and hop["spi"] == FORWARD]
        back = [{**looping[0], "si": si} for si in range(100, 256)]
        config["hops"] = back
        status, answer = chain.sff.call("PUT", "/v1/config", config)
        assert status == 200, answer
        chain.ping("-c", "1")
        until(lambda: chain.sff.counters()["drops"]["ttl"] >= 1)
        assert chain.functions[0].counters()["served"]["packets"] == 62


def test_entries_are_replaced_without_loss() -> None:
    with Chain(2) as chain:
        config = json.loads(json.dumps(chain.sff.config))
        client = chain.namespace("client")
        ping = ["ip", "netns", "exec", client, "ping", "-q", "-i", "0.002", "10.0.0.2"]

        def count(what: str) -> int:
            return kernel_counts(client, "Icmp")[what]

        with subprocess.Popen(ping, stdout=subprocess.DEVNULL) as pings:
            for _ in range(20):
                before = count("InEchoReps")
                assert chain.sff.call("PUT", "/v1/config", config)[0] == 200
                until(lambda before=before: count("InEchoReps") > before + 20)
            pings.send_signal(signal.SIGINT)
        until(lambda: count("InEchoReps") == count("OutEchos"), "every echo is answered")
        broken = {**config, "hops": [{"spi": 1, "si": 255}]}
        status, answer = chain.sff.call("PUT", "/v1/config", broken)
        assert status == 422
        assert answer["errors"][0]["field"] == "hops[0]"
        assert chain.answered(2) == 2


def test_flows_are_shared_among_instances() -> None:
    with Chain(3) as chain:
        config = chain.sff.config
        targets = [{"port": f"f{n}", "mac": f"02:00:00:00:00:{n:02x}"} for n in (1, 2, 3)]
        config["hops"] = [
            {"spi": 1, "si": 255, "to": targets},
            {"spi": 1, "si": 254, "end": {"port": "server"}},
            {"spi": 2, "si": 255, "end": {"port": "client"}},
        ]
        assert chain.sff.call("PUT", "/v1/config", config)[0] == 200
        script = (
            "import socket, sys\n"
            "first = int(sys.argv[1])\n"
            "for port in range(first, first + 60):\n"
            "    with socket.socket(type=socket.SOCK_DGRAM) as s:\n"
            "        s.bind(('10.0.0.1', port))\n"
            "        for _ in range(3): s.sendto(b'x', ('10.0.0.2', 9))\n"
        )

        def served() -> list[int]:
            return [node.counters()["served"]["packets"] for node in chain.functions]

        for batch in range(5):  # a port's ring has room for one
            chain.at("client", "python3", "-c", script, str(20000 + 60 * batch))
            until(lambda batch=batch: sum(served()) >= 180 * (batch + 1), "all are served")
        assert sum(served()) == 900
        assert all(share % 3 == 0 and share > 90 for share in served())


def test_a_dead_function_stops_its_chain_and_no_other() -> None:
    with Chain(1) as chain:
        chain.functions[0].stop(9)
        assert "100% packet loss" in chain.ping("-c", "3", "-i", "0.05")
        chain.functions[0].start()
        assert chain.answered(3) == 3


@pytest.mark.parametrize(
    ("mistakes", "messages"),
    [
        ({"control": "", "oam": "maybe"}, ('control: found ""', 'oam: found "maybe"')),
        ({"ports": []}, ("ports: found [], expected at least one port",)),
    ],
)
def test_mistakes_have_one_message_with_the_place(
    tmp_path: Path, mistakes: dict[str, object], messages: tuple[str, ...]
) -> None:
    file = tmp_path / "sff.json"
    file.write_text(json.dumps({"version": 1, "control": "x", "ports": []} | mistakes))
    command = [str(hawserd()), "function", "sff", "--config", str(file), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert all(message in done.stderr for message in messages), done.stderr
