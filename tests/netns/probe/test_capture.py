"""Captures beside a measurement: what the filter wants, up to the size, in files that tshark opens.

 a                    b
+------+             +------+
| e .1 |------x------| e .2 |     10.255.0.0/30
+------+             +------+
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import documents
from documents import Document
from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe.base import ProbeError
from hawser.probe.capture import capturing
from hawser.spec.capture import Capture
from lab.traffic.echoes import echoes
from lab.traffic.nodes import transfer
from lab.waiting import PATIENCE

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not shutil.which("tshark") or not shutil.which("tcpdump"), reason="no tshark or tcpdump"
    ),
]

PAIR: Document = {
    "hawser": 1,
    "name": "pair",
    "title": "Two hosts",
    "topology": {"nodes": ["a", "b"], "links": {"x": {"ends": ["a.e", "b.e"]}}},
    "measurements": {"rtt": {"probe": "ping", "from": "a", "to": "b"}},
}
TARGET = "10.255.0.2"


@pytest.fixture
def lab(deploy: Callable[[NetworkPlan], LocalLab]) -> LocalLab:
    return deploy(documents.planned(PAIR))


def capture(**given: object) -> Capture:
    return Capture.model_validate({"at": "b.e", **given})


def packets(file: Path, condition: str = "") -> int:
    """Packets of a file as tshark counts them."""
    command = ["tshark", "-r", str(file), "-T", "fields", "-e", "frame.number"]
    wanted = ["-Y", condition] if condition else []
    done = subprocess.run(
        [*command, *wanted], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return len(done.stdout.split())


def test_what_the_filter_wants_is_captured(lab: LocalLab, tmp_path: Path) -> None:
    both = {"echoes": capture(filter="icmp"), "requests": capture(at="a.e", filter="icmp[0] == 8")}
    with capturing(lab, both, tmp_path):
        assert len(echoes(lab.nodes["a"].namespace, TARGET, 5)) == 5
        transfer(lab.nodes["a"], lab.nodes["b"], TARGET, "100K")
    assert packets(tmp_path / "capture-echoes.pcap", "icmp") == 10
    assert packets(tmp_path / "capture-echoes.pcap", "not icmp") == 0
    assert packets(tmp_path / "capture-requests.pcap") == 5
    assert "listening on e" in (tmp_path / "capture-echoes.txt").read_text()


def test_a_capture_ends_at_its_size_with_a_whole_packet(lab: LocalLab, tmp_path: Path) -> None:
    limits = {
        "small": capture(size="20 kB"),
        "heads": capture(size="20 kB", snap=64),
        "nothing": capture(filter="port 1"),
    }
    with capturing(lab, limits, tmp_path):
        transfer(lab.nodes["a"], lab.nodes["b"], TARGET, "2M")
    small, heads = (tmp_path / f"capture-{name}.pcap" for name in ("small", "heads"))
    assert 1_000 < small.stat().st_size <= 20_000
    assert 5_000 < heads.stat().st_size <= 20_000
    assert 0 < packets(small) < packets(heads)
    assert packets(tmp_path / "capture-nothing.pcap") == 0


def test_a_filter_that_is_none_is_said(lab: LocalLab, tmp_path: Path) -> None:
    with (
        pytest.raises(ProbeError, match="capture x: tcpdump did not begin"),
        capturing(lab, {"x": capture(filter="icmp and")}, tmp_path),
    ):
        pytest.fail("it began")
