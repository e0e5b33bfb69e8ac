"""Gateways of which one speaks an older wire version, over one path (`Lab.direct`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.pair import Gateway, Lab, pki
from lab.traffic.datagrams import send_datagrams
from lab.traffic.transfer import send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root

OLDEST, NEWEST = 1, 3


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


def wire_version(gateway: Gateway) -> object:
    return gateway.get("/v1/status")["peers"][0]["groups"][0].get("wire_version")


@pytest.mark.parametrize("versions", [(OLDEST, NEWEST), (NEWEST, OLDEST), (NEWEST, NEWEST)])
def test_the_newest_common_version_carries_traffic(lab: Lab, versions: tuple[int, int]) -> None:
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, version in zip((one, two), versions, strict=True):
        tls = files[gateway.config["branch"]]
        gateway.config["transport"] = {"kind": "quic", "tls": tls, "wire_version": version}
        gateway.start()
    until(lambda: one.up() and two.up(), "both are up")
    assert wire_version(one) == wire_version(two) == min(versions)
    assert len(lab.ping(10)) == 10
    send_bytes(lab, 2 << 20)
    delivery = send_datagrams(lab, 200).delivery()
    assert (delivery.sent, delivery.lost) == (200, 0)
    for gateway in (one, two):
        drops = gateway.group()["drops"]
        assert not drops["malformed"]
        assert not drops["unknown_context"]
