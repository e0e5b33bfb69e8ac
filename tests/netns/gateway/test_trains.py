"""Trains of packets on idle paths: what a path would carry, asked for by the control API.

   b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2     four paths with a rate each, whose
                  wb -- 1b          2b -- wb                    queues hold 50 packets (`Lab.paths`)

Drawn with addresses in lab/gateway/pair.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hawser.agent.trains import measure
from hawser.control.client import DaemonClient
from hawser.control.link import Measure, Measured, Place
from lab.gateway.pair import Gateway, Lab, pki
from lab.gateway.quic import paths_of, quic_pair
from lab.traffic.transfer import send_bytes
from lab.waiting import until

pytestmark = pytest.mark.root

RATES = (4.0, 8.0, 12.0, 16.0)
"""Mbit/s."""
PORT = 20e6
MBIT = 1e6
_ATTEMPTS = 4
"""A machine that others keep busy delays frames, and the interval says so."""

TRAIN = {
    "peer": "b2",
    "group": 0,
    "member": 0,
    "port_bps": 1_000_000_000,
    "size": 1000,
    "frames": 20,
    "rate_bps": 2_000_000,
    "fill_frames": 5,
    "fill_rate_bps": 4_000_000,
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def measured(gateway: Gateway, peer: str, member: int) -> Measured:
    """Measure a path until the interval is narrow enough to go by."""
    client = DaemonClient(Path(gateway.config["control"]))
    asked = Measure(place=Place(peer=peer, group=0, member=member), port=PORT, seconds=20.0)
    for _ in range(_ATTEMPTS):
        found = asyncio.run(measure(asked, partial(asyncio.to_thread, client.train)))
        if not found.error and found.high - found.low <= 0.5 * found.available:
            break
    return found


def test_idle_paths_are_estimated_in_both_directions(lab: Lab) -> None:
    one, two = quic_pair(lab.paths(RATES), paths=4)
    before = paths_of(one)
    for member, rate in ((0, 4), (3, 16)):
        found = measured(one, "b2", member)
        assert found.error == ""
        assert found.available == pytest.approx(rate * MBIT, rel=0.2), found
    found = measured(two, "b1", 1)
    assert found.available == pytest.approx(8 * MBIT, rel=0.2), found
    for old, new in zip(before, paths_of(one), strict=True):
        assert new["state"] == "up"
        assert new["lost_bytes"] == old["lost_bytes"], "the path's model sees no train"
    send_bytes(lab, 1 << 20)
    assert one.group()["drops"]["malformed"] == two.group()["drops"]["malformed"] == 0


def test_a_train_is_answered_with_its_times(lab: Lab) -> None:
    one, two = quic_pair(lab.direct())
    assert one.get("/v1/status")["peers"][0]["groups"][0]["trains"] is True
    status, answer = one.call("POST", "/v1/trains", TRAIN)
    assert status == 200, answer
    sent, received = answer["sent_us"], answer["received_us"]
    assert answer["size"] == 1000
    assert 1 <= len(sent) == len(received) <= 25
    assert sent == sorted(sent)
    assert sum(each is not None for each in received) >= 1
    status, answer = two.call("POST", "/v1/trains", TRAIN | {"peer": "b1", "size": 9000})
    assert status == 200
    assert 1450 <= answer["size"] <= 1514, "no more than the path takes"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"peer": "b9"}, 422, "branch of a peer"),
        ({"member": 1}, 409, "no such path"),
        ({"group": 7}, 409, "no such path"),
        ({"port_bps": 1_000_000}, 200, ""),
        ({"port_bps": 300_000}, 409, "more than 1 % of the port"),
        ({"frames": 0}, 422, "1 to 50000"),
        ({"frames": 65535}, 422, "1 to 50000"),
        ({"rate_bps": 1}, 422, "at most 2 s"),
        ({"size": 20}, 422, "128 to 9230"),
        ({"size": "large"}, 422, "size"),
        ({"more": 1}, 422, "more"),
    ],
)
def test_what_is_refused_is_refused_with_the_reason(
    lab: Lab, change: dict[str, Any], code: int, words: str
) -> None:
    one, _ = quic_pair(lab.direct())
    status, answer = one.call("POST", "/v1/trains", TRAIN | change)
    assert status == code, answer
    assert words in str(answer)


def test_a_port_has_its_share_only_once_a_minute(lab: Lab) -> None:
    one, _ = quic_pair(lab.direct())
    train = TRAIN | {"port_bps": 1_000_000}  # 600 kbit a minute, and a train has 200
    answers = [one.call("POST", "/v1/trains", train)[0] for _ in range(5)]
    assert answers == [200, 200, 200, 409, 409]


@pytest.mark.parametrize("old", [1, 2])
def test_an_old_peer_is_sent_none(lab: Lab, old: int) -> None:
    lab.direct()
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, version in ((one, 3), (two, old)):
        tls = files[gateway.config["branch"]]
        gateway.config["transport"] = {"kind": "quic", "tls": tls, "wire_version": version}
        gateway.start()
    until(lambda: one.up() and two.up(), "both are up")
    assert one.get("/v1/status")["peers"][0]["groups"][0]["trains"] is False
    status, answer = one.call("POST", "/v1/trains", TRAIN)
    assert (status, answer) == (409, {"error": "the peer does not take trains"})
    assert len(lab.ping(10)) == 10
    assert two.group()["drops"]["malformed"] == 0


def test_other_transports_have_none(lab: Lab) -> None:
    one, _ = lab.direct().pair()
    status, answer = one.call("POST", "/v1/trains", TRAIN)
    assert (status, answer) == (409, {"error": "only the quic transport has trains"})
