"""`hawser exec --trace` shows the route of packets through the chains of a deployed lab.

client --in-- n1 --between-- n2 --out-- server 10.255.0.10
              |              |
              f              fw: allows ICMP only
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.run import cli
from lab.run.cli import hawser

pytestmark = pytest.mark.root

WORKFLOW = """\
hawser: 1
name: traced
title: A chain
topology:
  nodes: [client, n1, n2, server]
  links:
    in: {ends: [client.eth, n1.in]}
    between: {ends: [n1.far, n2.near]}
    out: {ends: [n2.out, server.eth]}
functions:
  f: {kind: forwarder, node: n1}
  fw: {kind: firewall, node: n2, otherwise: deny, rules: [{protocol: icmp, action: allow}]}
chains:
  c: {from: client, to: server, functions: [f, fw]}
measurements:
  rtt: {probe: ping, from: client, to: server}
"""
SERVER = "10.255.0.10"
_CONNECT = f"""
import socket, sys
try:
    socket.create_connection(({SERVER!r}, 80), timeout=0.5)
except TimeoutError:
    sys.exit(7)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    name = f"tr{os.getpid()}"
    file = tmp_path / "traced.yaml"
    file.write_text(WORKFLOW)
    try:
        deployed = hawser("deploy", file, "--name", name, cwd=tmp_path)
        assert deployed.returncode == 0, deployed.stderr
        yield name
    finally:
        hawser("destroy", name, cwd=tmp_path)
        assert not cli.remains(name)


def steps(text: str) -> list[tuple[str, str, str]]:
    """Where, what and on which path, line by line."""
    of = r"^ *[\d.]+ +(\S+) +(\w+(?:: \w+)?) +(c:\w+)? .*> "
    return [(m[1], m[2], m[3] or "") for m in re.finditer(of, text, re.M)]


def test_a_packets_way_is_shown_to_where_it_is_dropped(lab: str, tmp_path: Path) -> None:
    ping = ["--", "ping", "-q", "-c", "1", SERVER]
    hawser("exec", f"{lab}/client", *ping, cwd=tmp_path)
    done = hawser("exec", "--trace", f"{lab}/client", *ping, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    way = [
        ("n1", "classified"),
        ("n1", "forwarded"),
        ("f", "served"),
        ("n1", "forwarded"),
        ("n2", "forwarded"),
        ("fw", "served"),
        ("n2", "ended"),
    ]
    found = steps(done.stdout)
    assert [step[:2] for step in found if step[2] == "c:forward"][: len(way)] == way, done.stdout
    assert ("n1", "ended", "c:reverse") in found
    connect = ["python3", "-c", _CONNECT]
    done = hawser("exec", "--trace", f"{lab}/client", "--", *connect, cwd=tmp_path)
    assert done.returncode == 7, "the command's own exit code"
    assert steps(done.stdout)[-1] == ("fw", "dropped: denied", "c:forward"), done.stdout
    untold = hawser("exec", "--trace", f"{lab}/n1", "--", "true", cwd=tmp_path)
    assert "No packet from or to n1" in untold.stderr
