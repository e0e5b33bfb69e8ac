"""What `hawserd load` writes on the wire, as tshark reads it, and what its meter makes of it.

 a                            b
+--------------------+       +---------------------+
| gen  10.21.5.1/24  |-------| sink  10.21.5.2/24  |
| hawserd load sends |       | counts and captures |
+--------------------+       +---------------------+
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.load.wire import Wire, load, over_sockets, published_flows, tshark

pytestmark = pytest.mark.root

IPV6 = {"source": {"first": "fd00::1", "count": 3}, "target": {"first": "fd00::2"}, "flows": 3}
MACS = {"source": "02:00:00:00:00:03", "destination": "02:00:00:00:00:04"}
FORMATS: dict[str, dict[str, Any]] = {
    "ipv4": {},
    "ipv6": {**IPV6, "sizes": {"fixed": 80}},
    "vlan": {
        "ethernet": {"destination": "02:00:00:00:00:02", "tags": [{"id": 7, "priority": 5}]},
        "sizes": {"fixed": 64},
    },
    "two tags": {
        "ethernet": {
            "destination": "02:00:00:00:00:02",
            "tags": [{"id": 7, "service": True}, {"id": 8}],
        },
        "sizes": {"fixed": 68},
    },
    "odd size": {"sizes": {"fixed": 101}},
    "imix": {"sizes": {"imix": {"genome": "aaaaaaaddddg"}}, **published_flows()},
    "srv6": {
        "outer": {"srv6": {"source": "fd00::1", "segments": ["fd00::2", "fd00::3"]}},
        "sizes": {"fixed": 200},
    },
    "srv6 ipv6": {
        **IPV6,
        "outer": {"srv6": {"source": "fd00::1", "segments": ["fd00::2"] * 4}},
        "sizes": {"weighted": [{"size": 220, "weight": 3}, {"size": 1400, "weight": 1}]},
    },
    "nsh": {"outer": {"nsh": {"spi": 70, "si": 255}}, "sizes": {"fixed": 300}},
    "vxlan": {
        "outer": {
            "vxlan": {"source": "10.0.0.1", "target": "10.0.0.2", "vni": 70, "ethernet": MACS}
        },
        "sizes": {"fixed": 300},
        **published_flows(),
    },
    "vxlan ipv6": {
        **IPV6,
        "outer": {"vxlan": {"source": "fd01::1", "target": "fd01::2", "vni": 70, "ethernet": MACS}},
        "sizes": {"fixed": 1000},
    },
}


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire.direct() as wire:
        yield wire


@pytest.mark.parametrize("backend", ["xdp", "packet"])
@pytest.mark.parametrize("name", FORMATS)
def test_frames_are_as_described(wire: Wire, tmp_path: Path, name: str, backend: str) -> None:
    file = tmp_path / "frames.pcap"
    config = wire.config(**FORMATS[name], rate={"frames_per_s": 20_000}, amount={"frames": 600})
    config["send"]["backend"] = backend
    config["receive"]["backend"] = backend
    config["receive"]["capture"] = {"file": str(file)}
    result = load(config)
    received = result["received"]
    assert (result["lost"], received["duplicated"], received["reordered"]) == (0, 0, 0)
    assert received["unique"] == 600
    assert received["captured"] >= 600
    wrong = "ip.checksum.status == 0 || udp.checksum.status == 0 || _ws.malformed"
    assert tshark(file, "-Y", wrong) == []
    if name != "vxlan" and name != "vxlan ipv6":  # an outer checksum of zero means none
        assert len(tshark(file, "-Y", "udp.checksum.status == 1")) == 600


def test_the_hundred_published_flows(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcap"
    config = wire.config(**published_flows(), amount={"frames": 1000})
    config["receive"]["capture"] = {"file": str(file)}
    result = load(config)
    fields = ["ip.src", "udp.srcport", "ip.dst", "udp.dstport"]
    options = [word for field in fields for word in ("-e", field)]
    seen = Counter(tshark(file, "-Y", "udp", "-T", "fields", *options))
    expected = {
        f"10.21.5.{32 + i % 5}\t{10000 + i}\t10.22.5.{204 + i % 5}\t{10500 + i}": 10
        for i in range(100)
    }
    assert seen == expected
    flow = result["sent"]["flows"][99]
    assert (flow["source"], flow["target"]) == ("10.21.5.36:10099", "10.22.5.208:10599")
    assert all(flow["frames"] == 10 for flow in result["received"]["flows"])


def test_an_imix_has_its_sizes_in_order(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcap"
    imix = {"genome": "aAbg", "custom": {"A": 361}}
    config = wire.config(sizes={"imix": imix}, amount={"frames": 8})
    config["receive"]["capture"] = {"file": str(file)}
    load(config)
    sizes = tshark(file, "-Y", "udp", "-T", "fields", "-e", "frame.len")
    assert sizes == ["60", "357", "124", "1514"] * 2


def test_what_is_captured_can_be_replayed(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcap"
    config = wire.config(**FORMATS["imix"], amount={"frames": 120})
    config["receive"]["capture"] = {"file": str(file)}
    load(config)
    for backend in ("xdp", "packet"):
        again = tmp_path / f"{backend}.pcap"
        replay = wire.config()
        replay["run"] = config["run"]
        replay["send"]["backend"] = backend
        replay["send"]["traffic"] = {
            "replay": {"file": str(file), "times": 3, "rate": {"frames_per_s": 10_000}}
        }
        replay["receive"]["streams"] = [{"name": "s", "flows": 100}]
        replay["receive"]["capture"] = {"file": str(again)}
        result = load(replay)
        received = result["received"]
        assert result["sent"]["frames"] == 360
        # each frame is the same three times
        assert (received["unique"], received["duplicated"]) == (120, 240)
        fields = ["-Y", "udp", "-T", "fields", "-e", "frame.len", "-e", "udp.payload"]
        assert tshark(again, *fields) == tshark(file, *fields) * 3


def test_two_streams_at_once(wire: Wire) -> None:
    config = wire.config(amount={"frames": 3000}, rate={"frames_per_s": 10_000})
    other = wire.config(name="t", amount={"frames": 900}, rate={"frames_per_s": 3000}, dscp=46)
    config["send"]["traffic"]["streams"] += other["send"]["traffic"]["streams"]
    result = load(config)
    assert [stream["frames"] for stream in result["sent"]["streams"]] == [3000, 900]
    assert [flow["frames"] for flow in result["received"]["flows"]] == [3000, 900]
    delays = [stream["delay"]["count"] for stream in result["received"]["streams"]]
    assert delays == [3000, 900]


def test_bursts_are_not_early(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcap"
    config = wire.config(burst=10, amount={"frames": 200}, rate={"frames_per_s": 1000})
    config["receive"]["capture"] = {"file": str(file)}
    result = load(config)
    assert (result["sent"]["frames"], result["sent"]["unsent"]) == (200, 0)
    payloads = tshark(file, "-Y", "udp", "-T", "fields", "-e", "udp.payload")
    times = [written(bytes.fromhex(payload)) for payload in payloads]
    assert len(times) == 200
    bursts = [times[first : first + 10] for first in range(0, 200, 10)]
    due = [times[0] + number * 10_000_000 for number in range(20)]
    assert all(burst[0] > at - 1_000_000 for burst, at in zip(bursts, due, strict=True))
    # frames one by one would take 9 ms, where none is late
    assert min(burst[-1] - burst[0] for burst in bursts) < 5_000_000


def written(payload: bytes) -> int:
    """When a frame was written, ns of a clock of 40 bits (crates/wire/src/load.rs)."""
    return int.from_bytes(payload[5:10])


def test_a_ramp_sends_the_area_under_it(wire: Wire) -> None:
    config = wire.config(rate={"ramp": {"from": 10_000, "to": 50_000}}, amount={"seconds": 1})
    result = load(config)
    stream = result["sent"]["streams"][0]
    assert stream["scheduled"] == stream["frames"] == 30_000
    assert stream["unsent"] == 0
    assert (result["lost"], result["received"]["unique"]) == (0, 30_000)


def test_a_reflector_gives_two_way_delays(wire: Wire) -> None:
    config = wire.config()
    config["receive"]["port"] = dict(config["send"]["port"])
    config["reflect"] = {"interface": "sink", "netns": wire.receiver}
    result = load(config)
    assert (result["reflected"], result["lost"]) == (2000, 0)
    assert result["received"]["streams"][0]["delay"]["count"] == 2000


def test_udp_sockets(wire: Wire) -> None:
    result = load(over_sockets(wire, frames_per_s=4000, frames=4000))
    received = result["received"]
    assert (result["sent"]["frames"], result["sent"]["unsent"]) == (4000, 0)
    assert result["lost"] == received["duplicated"] == received["reordered"] == 0
    assert received["unique"] == 4000
    assert all(flow["frames"] == 500 for flow in received["flows"])


def test_frames_of_another_run_are_foreign(wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcap"
    config = wire.config(amount={"frames": 50})
    config["receive"]["capture"] = {"file": str(file)}
    load(config)
    replay = wire.config()
    traffic = {"replay": {"file": str(file), "rate": {"frames_per_s": 10_000}}}
    replay["send"]["traffic"] = traffic
    replay["receive"]["streams"] = [{"name": "s", "flows": 1}]
    received = load(replay)["received"]
    assert (received["frames"], received["foreign"]) == (0, 50)
