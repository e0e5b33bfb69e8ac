"""What a scenario asks of the machine."""

from __future__ import annotations

import pytest
from spec_files import SMALL, WORKFLOWS, loaded, read

from hawser.spec import Feature, load, needs

BARE = SMALL.replace(", rate: 1 Mbit/s", "")


@pytest.mark.parametrize(
    ("channel", "wanted"),
    [
        ("", set()),
        (", rate: 1 Mbit/s", {Feature.HTB}),
        (", delay: 1 ms", {Feature.WAN}),
        (", delay: 0 s, loss: 0 %", {Feature.WAN}),
        (", reverse: {loss: 1 %}", {Feature.WAN}),
        (", rate: 1 Mbit/s, reverse: {jitter: 1 ms}", {Feature.HTB, Feature.WAN}),
    ],
)
def test_channels(channel: str, wanted: set[Feature]) -> None:
    workflow = loaded(BARE.replace("b.eth]", f"b.eth]{channel}"))
    assert needs(workflow.variants[0].scenario) == wanted


def test_overlay_and_measurements() -> None:
    path = next(path for path in WORKFLOWS if path.stem == "mms-table1")
    found = {
        v.labels["scheme"]: needs(v.scenario) - {Feature.HTB}
        for v in load(str(path), read).variants
    }
    assert found == {
        "tcp-over-ipomp": {Feature.MPTCP, Feature.TUN},
        "udp-over-ipomp": {Feature.MPTCP, Feature.TUN},
        "tcp-over-quic": {Feature.TUN},
        "tcp-over-quic-lane": {Feature.TUN},
        "udp-over-quic": {Feature.TUN},
        "end-to-end-mptcp": {Feature.MPTCP},
        "ip-in-ip": {Feature.TUN},
        "best-path": set(),
    }
