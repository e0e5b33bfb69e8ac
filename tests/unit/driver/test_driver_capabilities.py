from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hawser.driver.capabilities import capabilities
from hawser.node.base import NodeError
from hawser.node.netns import features


@pytest.mark.root
def test_probes_say_the_truth_in_plain_words() -> None:
    found = {each.name: each for each in capabilities()}
    for name in ("namespaces", "veth", "tun", "htb", "tbf", "u32", "root"):
        assert found[name].found, found[name]  # without these no other test here would run
    for each in found.values():
        assert "qdisc kind is unknown" not in each.detail
        assert each.found or each.how, f"{each.name}: what should a user do?"


@pytest.mark.root
@pytest.mark.parametrize("kind", ["netem", "htb", "tbf", "bfifo"])
def test_tc_agrees(kind: str) -> None:
    """The oracle: iproute2's own attempt, in a namespace of its own."""
    options = {"tbf": "rate 1mbit burst 2000 limit 3000", "bfifo": "limit 3000"}.get(kind, "")
    script = f"ip link add va type veth peer name vb && tc qdisc add dev va root {kind} {options}"
    tc = subprocess.run(["unshare", "-n", "sh", "-c", script], capture_output=True, check=False)
    assert (features.fault(getattr(features, kind)) is None) is (tc.returncode == 0)


@pytest.mark.root
def test_probes_leave_nothing() -> None:
    before = subprocess.run(["ip", "link"], capture_output=True, check=True).stdout
    handles = len(list(Path("/proc/self/fd").iterdir()))
    capabilities()
    assert subprocess.run(["ip", "link"], capture_output=True, check=True).stdout == before
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


@pytest.mark.root
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(2, "No such file or directory"), "No such file or directory"),
        (OSError("odd"), "odd"),
        (NodeError("why"), "why"),
    ],
)
def test_whatever_a_probe_raises_becomes_a_reason(error: Exception, text: str) -> None:
    def probe() -> None:
        raise error

    assert features.fault(probe) == text
