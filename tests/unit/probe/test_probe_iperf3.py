"""What iperf 3.12 prints, as samples. The data are real runs through a 20 Mbit/s shaper."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe import iperf3_result as result
from hawser.probe.base import ProbeError
from hawser.spec.measurement import Iperf3
from hawser.store.sample import Sample

DATA = Path(__file__).parent / "data"


def spec(**fields: object) -> Iperf3:
    given = {"probe": "iperf3", "from": "h1", "to": "h2", "duration": "2 s", "warmup": "1 s"}
    return Iperf3.model_validate(given | fields)


TCP = spec(streams=2)
TCP_REVERSE = spec(reverse=True)
UDP = spec(protocol="udp", rate="40 Mbit/s", streams=2)
UDP_REVERSE = spec(protocol="udp", rate="40 Mbit/s", reverse=True)


def report(name: str) -> dict[str, Any]:
    return dict(result.parse(name, (DATA / f"{name}.json").read_text()))


def samples(measured: Iperf3, name: str) -> list[Sample]:
    pair = result.pair(measured, report(f"{name}-client"), report(f"{name}-server"))
    return result.samples("m", measured, pair)


def summary(measured: Iperf3, name: str) -> dict[str, float]:
    return {s.metric: s.value for s in samples(measured, name) if s.kind == "summary"}


def test_tcp_goodput_is_what_was_received() -> None:
    found = summary(TCP, "tcp")
    assert found.keys() == {"goodput", "retransmissions", "fairness"}
    assert 0.5 < found["fairness"] <= 1
    assert found["goodput"] == pytest.approx(19.12, abs=0.01)  # 20 Mbit/s x 1448/1514
    assert found["retransmissions"] == 0  # 903 in the warm-up


def test_udp_loss_is_the_receivers_and_not_the_senders_view_of_it() -> None:
    found = summary(UDP, "udp")
    assert found["goodput"] == pytest.approx(19.44, abs=0.01)
    assert found["loss"] == pytest.approx(100 * (1 - 19.44 / 39.99), abs=0.5)
    arrived = [3503 - 1462, 3501 - 2138]  # datagrams of each stream
    squares = sum(each * each for each in arrived)
    assert found["fairness"] == pytest.approx(sum(arrived) ** 2 / (2 * squares))
    wrong = report("udp-client")["end"]["sum_received"]["lost_percent"]
    assert wrong > 76


@pytest.mark.parametrize(
    ("measured", "name", "direction"),
    [(TCP, "tcp", "forward"), (TCP_REVERSE, "tcp-reverse", "reverse")],
)
def test_direction(measured: Iperf3, name: str, direction: str) -> None:
    assert {s.direction for s in samples(measured, name)} == {direction}


def test_reverse_is_measured_by_the_client() -> None:
    assert summary(TCP_REVERSE, "tcp-reverse")["goodput"] == pytest.approx(19.13, abs=0.01)
    udp = summary(UDP_REVERSE, "udp-reverse")
    assert udp["goodput"] == pytest.approx(19.43, abs=0.01)
    assert udp["loss"] == 0


def test_the_time_series_leaves_the_warm_up_out() -> None:
    series = [s for s in samples(TCP, "tcp") if s.kind == "interval" and s.metric == "goodput"]
    assert [round(s.time or 0) for s in series] == [2, 3]
    assert all(s.value == pytest.approx(19.1, abs=0.2) for s in series)


def test_what_was_sent_after_the_last_arrival_is_lost() -> None:
    client, server = report("udp-client"), report("udp-server")
    client["end"]["sum_sent"]["packets"] += 1000
    pair = result.pair(UDP, client, server)
    (loss,) = (s.value for s in result.samples("m", UDP, pair) if s.metric == "loss" and not s.time)
    assert loss == pytest.approx(100 * (3600 + 1000) / (7004 + 1000), abs=0.5)


def test_a_warm_up_that_is_not_told_whole_is_no_contradiction() -> None:
    client = report("tcp-client")
    warmup, first, *rest = client["intervals"]
    first["sum"] |= {"start": 1.001, "end": 1.0, "seconds": 2.0}  # as iperf 3.12 does at times
    client["intervals"] = [first, *rest]
    client["end"]["sum_sent"]["bytes"] -= 3_000_000
    result.pair(TCP, client, report("tcp-server"))
    assert warmup["sum"]["omitted"]


def test_an_interval_that_contradicts_itself_is_left_out_of_the_series() -> None:
    server = report("tcp-server")
    server["intervals"][1]["sum"] |= {"start": 1.001, "end": 1.0, "seconds": 2.0}
    pair = result.pair(TCP, report("tcp-client"), server)
    found = result.samples("m", TCP, pair)
    series = [s for s in found if s.kind == "interval" and s.metric == "goodput"]
    assert [round(s.time or 0) for s in series] == [3]


def test_windows_and_round_trip_times_are_the_senders() -> None:
    found = [s for s in samples(TCP, "tcp") if s.kind == "interval"]
    windows = [s.value for s in found if s.metric == "cwnd"]
    times = [s.value for s in found if s.metric == "srtt"]
    sender = report("tcp-client")["intervals"][1:]
    assert windows == [sum(s["snd_cwnd"] for s in each["streams"]) for each in sender[:2]]
    assert len(times) == 2
    assert all(1 < srtt < 1000 for srtt in times)
    assert not [s for s in samples(UDP, "udp") if s.metric in ("cwnd", "srtt")]


def test_one_stream_is_not_fair_or_unfair() -> None:
    assert "fairness" not in summary(TCP_REVERSE, "tcp-reverse")


def test_a_finer_series_has_intervals_as_fine() -> None:
    server = report("tcp-server")
    whole = {"omitted": False, "bytes": 1, "bits_per_second": 8e6}
    server["intervals"] = [
        {"streams": [], "sum": {"start": at / 10, "end": at / 10 + size, "seconds": size, **whole}}
        for at, size in ((0, 0.1), (1, 0.1), (2, 0.01))
    ]
    fine = spec(interval="100 ms")
    rows = result._series(fine, server)
    assert [round(time, 3) for _, _, _, time in rows] == [1.1, 1.2]  # not the rest at the end


def broken(name: str, *path: str | int, value: object = None, drop: bool = False) -> dict[str, Any]:
    document = copy.deepcopy(report(name))
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if drop:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        (broken("tcp-server", "start", "cookie", value="x"), "another client"),
        (broken("tcp-server", "end", "streams", value=[]), "0 streams instead of 2"),
        (broken("tcp-server", "end", "sum_received", "seconds", value=1.0), "only 1.0 s of 2 s"),
        (broken("tcp-server", "end", "sum_received", "bytes", value=10**9), "received but only"),
        (broken("tcp-server", "end", "sum_received", "bytes", value=0), "received nothing"),
        (broken("tcp-server", "end", drop=True), "lacks 'end'"),
    ],
)
def test_counts_that_contradict_each_other_are_an_error(
    server: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ProbeError, match=complaint):
        result.pair(TCP, report("tcp-client"), server)


def test_more_lost_than_sent_is_an_error() -> None:
    server = broken("udp-server", "end", "sum_received", "lost_packets", value=-3)
    with pytest.raises(ProbeError, match="-3 lost of 7004"):
        result.pair(UDP, report("udp-client"), server)


def test_nothing_received_is_a_result_where_events_take_the_path_down() -> None:
    server = broken("tcp-server", "end", "sum_received", "bytes", value=0)
    pair = result.pair(TCP, report("tcp-client"), server, disrupted=True)
    assert result.samples("m", TCP, pair)[0].value == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "left no readable result"),
        ('{"start": {', "left no readable result"),
        ("[]", "left no readable result"),
        ('{"end": {}, "error": "unable to connect to server"}', "unable to connect to server"),
    ],
)
def test_errors_of_iperf3_are_told(text: str, complaint: str) -> None:
    with pytest.raises(ProbeError, match=complaint):
        result.parse("client", text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)
PARTS = st.sampled_from(["start", "intervals", "end"])


@given(st.dictionaries(PARTS, JSON))
def test_no_document_is_a_surprise(document: dict[str, Any]) -> None:
    client = json.loads((DATA / "tcp-client.json").read_text())
    try:
        pair = result.pair(TCP, client, client | document)
        result.samples("m", TCP, pair)
    except ProbeError:
        return
