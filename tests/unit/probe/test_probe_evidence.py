"""Counters as evidence."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from hawser.overlay.lab.plan import ClassPlan, ShaperPlan
from hawser.probe import evidence, queues, sockets
from hawser.probe.evidence import vanished
from hawser.probe.watch import Watch
from hawser.spec.measurement import Measurement
from hawser.spec.units import Rate
from lab.waiting import until

SS = """\
ESTAB 0 0 10.0.0.1:60040 10.0.0.2:5201 cubic rto:204 bytes_sent:164 busy:4ms snd_wnd:65536
ESTAB 0 0 10.0.0.1:60042 10.0.0.2:5201 cubic rto:204 bytes_sent:1742139270 app_limited busy:972ms rwnd_limited:560ms(57.6%) sndbuf_limited:31ms(3.2%) retrans:0/4
ESTAB 131072 0 [::ffff:127.0.0.1]:5201 [::ffff:127.0.0.1]:60042 bbr bytes_received:1744437285 snd_wnd:65536
junk
"""  # noqa: E501 (as ss prints it)


def test_connections_that_send_are_read_and_others_not() -> None:
    assert sockets.parse(SS) == {
        "10.0.0.1:60042 10.0.0.2:5201": sockets.Connection(972, 560, 31),
    }


def counts(**added: int) -> dict[str, int]:
    names = (
        "IpInReceives", "IpInDelivers", "IpForwDatagrams", "IpInDiscards", "IpReasmReqds",
        "IpReasmOKs", "IpOutRequests", "IpOutTransmits", "IpOutDiscards", "IpOutNoRoutes",
    )  # fmt: skip
    return dict.fromkeys(names, 0) | added


@pytest.mark.parametrize(
    ("added", "lost"),
    [
        (counts(IpInReceives=100, IpForwDatagrams=90, IpOutTransmits=90, IpInDelivers=10), 0),
        (counts(IpInReceives=100, IpForwDatagrams=70, IpOutTransmits=70), 30),
        (counts(IpInReceives=100, IpForwDatagrams=100, IpOutTransmits=60), 40),
        (counts(IpInReceives=8, IpReasmReqds=8, IpReasmOKs=2, IpInDelivers=2), 0),
        (counts(IpOutRequests=50, IpOutTransmits=50), 0),
        (counts(IpOutTransmits=7), 0),  # raw sockets count no requests
    ],
)
def test_what_a_node_swallowed_is_what_no_count_explains(added: dict[str, int], lost: int) -> None:
    assert vanished(added) == lost


def test_older_kernels_count_only_on_the_way_in() -> None:
    added = counts(IpInReceives=100, IpForwDatagrams=60)
    del added["IpOutTransmits"]
    assert vanished(added) == 40


@pytest.mark.parametrize("version", ["Udp", "Udp6"])
def test_sockets_that_dropped_are_told_whatever_the_ip_version(version: str) -> None:
    none = {"UdpInDatagrams": 0, "UdpRcvbufErrors": 0}
    seen = {f"{version}InDatagrams": 90, f"{version}RcvbufErrors": 10}
    found = list(evidence._protocols("b", counts() | none | seen))
    assert found[2:] == [
        ("socket:b", "packets", "packets", 90.0),
        ("socket:b", "drop_buffer", "packets", 10.0),
    ]


def shaper(rate: float | None, *classes: float | None) -> ShaperPlan:
    plans = tuple(
        ClassPlan(name=f"path:p{n}:forward", rate=None if r is None else Rate(r))
        for n, r in enumerate(classes)
    )
    whole = None if rate is None else Rate(rate)
    return ShaperPlan(node="n", interface="i", name="port:n.i:reverse", rate=whole, classes=plans)


def moved(*values: tuple[int, int]) -> dict[str, dict[str, int]]:
    return {
        f"path:p{n}:forward": {"bytes": size, "packets": size // 1000, "drop_queue": drops}
        for n, (size, drops) in enumerate(values)
    }


def rows(plan: ShaperPlan, after: queues.Counts) -> dict[tuple[str, str], float]:
    found: dict[str, queues._Queue] = {}
    queues._add(found, plan, queues.Moment(0.0, 1.0), {}, after)
    return {
        (name.split(":")[1], what): value
        for name, queue in found.items()
        for what, value in (("load", queue.busiest), ("drops", queue.drops))
    }


def test_a_path_that_is_full_drops_for_itself() -> None:
    found = rows(shaper(40e6, 8e6, 8e6), moved((1_000_000, 5), (100_000, 0)))
    assert found == {
        ("n.i", "load"): pytest.approx(0.22),
        ("n.i", "drops"): 0,
        ("p0", "load"): pytest.approx(1.0),
        ("p0", "drops"): 5,
        ("p1", "load"): pytest.approx(0.1),
        ("p1", "drops"): 0,
    }


def test_where_the_port_is_full_its_paths_drop_for_it() -> None:
    found = rows(shaper(8e6, 8e6, 8e6), moved((500_000, 5), (500_000, 7)))
    assert found["n.i", "drops"] == 12
    assert found["p0", "drops"] == found["p1", "drops"] == 0


def test_a_direction_with_one_class_is_one_queue() -> None:
    plan = shaper(8e6, 8e6)
    assert rows(plan, moved((500_000, 3))) == {("n.i", "load"): 0.5, ("n.i", "drops"): 3}


def test_a_path_alone_behind_a_port_without_a_rate() -> None:
    assert rows(shaper(None, 8e6), moved((500_000, 3)))["p0", "drops"] == 3


def test_a_sender_with_so_little_to_send_that_no_tick_was_busy_is_evidence() -> None:
    line = "ESTAB 0 0 10.0.0.1:60042 10.0.0.2:5201 cubic bytes_sent:{} app_limited\n"
    texts = itertools.count(200_000, 50_000)
    node = SimpleNamespace(
        name="h1",
        programs=lambda: (),
        run=lambda *_, **__: SimpleNamespace(stdout=line.format(next(texts))),
    )
    plan = SimpleNamespace(cross_traffic=(), shapers=(), daemons=())
    lab = SimpleNamespace(plan=plan, nodes={"h1": node}, daemons={})
    watch = Watch(lab, ("h1", "h2"))  # type: ignore[arg-type]
    for _ in range(3):
        watch.look()
    assert {metric: value for _, metric, _, value in watch.rows()} == {
        "busy": 0.0,
        "receive_window_limited": 0.0,
        "send_buffer_limited": 0.0,
    }


def test_what_a_reader_left_in_its_buffer_is_read() -> None:
    text = (
        "ESTAB 131072 0 10.0.0.2:5201 10.0.0.1:60042 skmem:(r98304,rb131072,t0,tb87040,f0)"
        " cubic bytes_received:1744437285\n"
        "ESTAB 0 0 10.0.0.2:5201 10.0.0.1:60040 skmem:(r0,rb131072,t0,tb87040) bytes_received:40\n"
    )
    assert sockets.unread(text) == {"10.0.0.2:5201 10.0.0.1:60042": 0.75}


def test_drops_of_the_start_alone_span_little_of_the_time() -> None:
    plan, found = shaper(None, 8e6), dict[str, queues._Queue]()
    counts: list[queues.Counts] = [moved((500_000 * n, 30 if n else 0)) for n in range(11)]
    for n, (before, after) in enumerate(itertools.pairwise(counts)):
        queues._add(found, plan, queues.Moment(n, n + 1.0), before, after)
    rows = {metric: value for _, metric, _, value in found["path:p0:forward"].rows("p0", 10.0)}
    assert (rows["drop_queue"], rows["drop_span"]) == (30, 10)


def test_the_time_before_traffic_begins_is_no_time_of_low_load() -> None:
    plan, found = shaper(None, 8e6), dict[str, queues._Queue]()
    counts: list[queues.Counts] = [moved((0, 0)), moved((1000, 0)), moved((1_001_000, 0))]
    for n, (before, after) in enumerate(itertools.pairwise(counts)):
        queues._add(found, plan, queues.Moment(n, n + 1.0), before, after)
    rows = {metric: value for _, metric, _, value in found["path:p0:forward"].rows("p0", 2.0)}
    assert rows["load"] == 100


def test_only_the_measured_window_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    class Watch:
        def __init__(self, *_: object) -> None:
            pass

        def look(self) -> None:
            looks.append(time.monotonic())

        def rows(self) -> Iterator[queues.Row]:
            yield "link:x:forward", "load", "%", 50.0

    def state(_: object) -> evidence._State:
        return evidence._State(time.monotonic(), {}, {}, ())

    monkeypatch.setattr(evidence, "Watch", Watch)
    monkeypatch.setattr(evidence, "_state", state)
    lab = SimpleNamespace(plan=SimpleNamespace(nodes=()))
    window = evidence.Window(after=0.2, seconds=0.3)
    with evidence.EvidenceRecorder(lab, "m", ("h1", "h2"), window) as recorder:  # type: ignore[arg-type]
        began = time.monotonic()
        recorder.begin()
        until(lambda: len(recorder._states) == 2)
        seen = len(looks)
        time.sleep(0.3)  # the measurement goes on, but counts no more
        samples = recorder.finish()
    early, late = recorder._states
    assert early.at - began >= 0.2
    assert late.at - early.at >= 0.3
    assert len(looks) == seen
    assert [sample.value for sample in samples] == [50.0]


def test_a_measurement_that_ends_before_its_window_leaves_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def state(_: object) -> evidence._State:
        raise AssertionError("nothing is to be read in the warm-up")

    monkeypatch.setattr(evidence, "_state", state)
    lab = SimpleNamespace(plan=SimpleNamespace(cross_traffic=(), shapers=(), daemons=()), nodes={})
    recorder = evidence.EvidenceRecorder(lab, "m", ("h1", "h2"), evidence.Window(60, 10))  # type: ignore[arg-type]
    with recorder:
        recorder.begin()
        assert recorder.finish() == ()


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ({"probe": "iperf3", "duration": "10 s", "warmup": "2 s"}, evidence.Window(2, 10)),
        ({"probe": "http", "duration": "4 s", "warmup": "0 s"}, evidence.Window(0, 4)),
        ({"probe": "throughput", "sizes": {"fixed": "100 B"}}, evidence.Window()),
    ],
)
def test_each_measurement_has_its_window(text: dict[str, object], window: evidence.Window) -> None:
    given = TypeAdapter[Measurement](Measurement).validate_python(text | {"from": "h1", "to": "h2"})
    assert evidence.counted(given) == window
