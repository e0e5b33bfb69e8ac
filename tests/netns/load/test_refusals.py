"""Bad configurations of `hawserd load`: exit code 2, the place is named, nothing is left.

Old names of fields are accepted, with a warning.

a: gen 10.21.5.1/24 ------------ sink 10.21.5.2/24 :b
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.load.wire import Wire, start
from lab.namespace import run

pytestmark = pytest.mark.root

Change = Callable[[dict[str, Any]], object]
STREAM = "send.traffic.streams[0]"


def stream(**values: object) -> Change:
    return lambda config: config["send"]["traffic"]["streams"][0].update(values)


def side(name: str, **values: object) -> Change:
    return lambda config: config[name].update(values)


BAD: dict[str, tuple[Change, str]] = {
    "rate 0": (stream(rate={"frames_per_s": 0}), f"{STREAM}.rate.frames_per_s: found 0"),
    "negative rate": (stream(rate={"bits_per_s": -5}), f"{STREAM}.rate.bits_per_s: found -5"),
    "beyond the MTU": (stream(sizes={"fixed": 1515}), f"{STREAM}.sizes: found 1515"),
    "too small for the payload": (stream(sizes={"fixed": 59}), f"{STREAM}.sizes: found 59"),
    "unknown letter": (stream(sizes={"imix": {"genome": "aQ"}}), f'{STREAM}.sizes: found "Q"'),
    "no such field": (stream(colour="red"), f'{STREAM}.colour: found "red"'),
    "mixed versions": (stream(target={"first": "fd00::1"}), f"{STREAM}.target.first"),
    "ports beyond the last": (
        stream(source_port={"first": 65000, "count": 1000}),
        f"{STREAM}.source_port.count: found 1000",
    ),
    "no end": (stream(rate="max", amount={"seconds": 1}), f"{STREAM}.amount"),
    "bad address": (stream(source={"first": "10.0.0.300"}), f"{STREAM}.source.first"),
    "no such interface": (
        side("receive", port={"interface": "nowhere"}),
        'receive.port.interface: found "nowhere"',
    ),
    "no such namespace": (
        side("send", port={"interface": "gen", "netns": "nowhere"}),
        'send.port.netns: found "nowhere"',
    ),
    "no such recording": (
        side("send", traffic={"replay": {"file": "/nowhere.pcap", "rate": "max"}}),
        "send.traffic.replay.file",
    ),
    "tags with sockets": (
        lambda config: (
            side("send", backend="udp")(config),
            stream(ethernet={"destination": "02:00:00:00:00:02", "tags": [{"id": 1}]})(config),
        ),
        f"{STREAM}.outer",
    ),
    "nothing to do": (lambda config: (config.pop("send"), config.pop("receive")), "the document"),
}


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire.direct() as wire:
        yield wire


@pytest.mark.parametrize("name", BAD)
def test_says_where(wire: Wire, name: str) -> None:
    change, place = BAD[name]
    config = copy.deepcopy(wire.config())
    change(config)
    done = start(config)
    assert (done.returncode, done.stdout) == (2, "")
    assert place in done.stderr
    assert "xdp" not in run("ip", "-n", wire.receiver, "link", "show", "sink")
    assert "xdp" not in run("ip", "-n", wire.sender, "link", "show", "gen")


def test_an_old_name_is_accepted_with_a_warning(wire: Wire) -> None:
    config = copy.deepcopy(wire.config())
    streams = config["send"]["traffic"]["streams"]
    config["receive"]["groups"] = [{"name": s["name"], "flows": s.get("flows", 1)} for s in streams]
    done = start(config)
    assert done.returncode == 0, done.stderr
    assert "receive.groups was renamed to receive.streams" in done.stderr
    assert json.loads(done.stdout)["received"]["streams"][0]["name"] == streams[0]["name"]
