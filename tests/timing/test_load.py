"""The load generator keeps its schedule, and a throughput search comes close to the real limit.

   a: gen 10.21.5.1 ------------------------ sink 10.21.5.2 :b         (`Wire.direct`)

   a: gen 10.21.5.1 --- m0 police() m1 ----- sink 10.21.5.2 :b         (`addressed`)

Drawn in lab/load/wire.py and lab/load/search.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from hawser.probe.base import ProbeError
from lab.daemon import hawserd
from lab.load.search import FRAME, addressed, context, faults, throughput, values
from lab.load.wire import Wire, load, over_sockets, published_flows, tshark

pytestmark = pytest.mark.root

LIMIT = 80_000
DEPTH = LIMIT // 100
"""10 ms: a generator that has to wait for its core catches up without loss."""


@pytest.fixture(scope="module")
def direct() -> Iterator[Wire]:
    with Wire.direct() as wire:
        yield wire


@pytest.fixture(scope="module")
def faulty() -> Iterator[Wire]:
    with addressed() as wire:
        yield wire


@pytest.fixture(autouse=True)
def _daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAWSERD", str(hawserd()))


def test_bursts_keep_the_rate(direct: Wire, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcap"
    config = direct.config(burst=10, amount={"frames": 200}, rate={"frames_per_s": 1000})
    config["receive"]["capture"] = {"file": str(file)}
    load(config)
    times = tshark(file, "-Y", "udp", "-T", "fields", "-e", "frame.time_relative")
    gaps = [float(b) - float(a) for a, b in itertools.pairwise(times)]
    assert sum(gap > 0.005 for gap in gaps) == 19
    assert 0.17 < sum(gaps) < 0.2


def test_a_ramp_takes_its_time(direct: Wire) -> None:
    config = direct.config(rate={"ramp": {"from": 10_000, "to": 50_000}}, amount={"seconds": 1})
    result = load(config)
    assert result["sent"]["streams"][0]["seconds"] == pytest.approx(1, abs=0.02)


def test_udp_sockets_keep_up(direct: Wire) -> None:
    result = load(over_sockets(direct, frames_per_s=50_000, frames=8000))
    assert result["sent"]["frames"] + result["sent"]["unsent"] == 8000
    received = result["received"]
    assert result["lost"] == received["duplicated"] == received["reordered"] == 0
    assert received["unique"] == result["sent"]["frames"] > 7000


def test_nothing_is_lost_or_left_unsent_at_400_000_frames_a_second(faulty: Wire) -> None:
    frames = 40_000
    faults(faulty).set("none")
    config = faulty.config(
        **published_flows(), rate={"frames_per_s": 400_000}, amount={"frames": frames}
    )
    result = load(config)
    assert (result["sent"]["frames"], result["sent"]["unsent"]) == (frames, 0)
    assert (result["lost"], result["received"]["unique"]) == (0, frames)


@pytest.mark.parametrize("mode", ["rfc2544", "mlr"])
def test_both_modes_come_near_to_the_limit(faulty: Wire, tmp_path: Path, mode: str) -> None:
    faults(faulty).set("police", rate=LIMIT, depth=DEPTH)
    probe = throughput(mode=mode, part_load="50 %")
    found = values(probe.measure(context(faulty, tmp_path)))
    assert found["conditional_throughput_frames"] == pytest.approx(LIMIT, rel=0.03)
    assert found["conditional_throughput"] == pytest.approx(LIMIT * FRAME * 8 / 1e6, rel=0.03)
    assert 0 < found["delay"] < 50
    assert 0 < found["part_load_delay"] < 50
    assert (tmp_path / "m.throughput.json").exists()


def test_all_of_what_the_generator_is_good_for_gets_through(faulty: Wire, tmp_path: Path) -> None:
    """Nothing is lost, so the limit found is the generator's, not the path's."""
    faults(faulty).set("none")
    probe = throughput(mode="rfc2544", max_load=None, backend="packet")
    with pytest.raises(ProbeError, match="80% of what the generator"):
        probe.measure(context(faulty, tmp_path))
