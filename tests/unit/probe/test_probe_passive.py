"""Counters before and after, as samples."""

from __future__ import annotations

import time

import pytest

from hawser.overlay.lab.plan import LinkPlan
from hawser.probe import machine, passive
from hawser.probe.daemons import State, flatten
from hawser.store.sample import Sample
from lab.waiting import until

MIB = 2**20


def values(found: object) -> dict[tuple[str, str], float]:
    rows = list(found)  # type: ignore[call-overload]
    assert all(isinstance(row, Sample) and row.measurement == "passive" for row in rows)
    return {(row.subject, row.metric): row.value for row in rows}


def test_what_was_added_is_counted() -> None:
    before = {"gw1": {"a": {"tx_bytes": 100, "rx_drop_x": 1}}}
    after = {"gw1": {"a": {"tx_bytes": 350, "rx_drop_x": 1}}}
    assert values(passive.network(before, after)) == {
        ("port:gw1.a", "tx_bytes"): 250,
        ("port:gw1.a", "rx_drop_x"): 0,
    }


def test_a_shaper_class_is_named_by_its_element() -> None:
    after = {"internet": {"path:p1:forward": {"bytes": 9, "packets": 1, "drop_queue": 2}}}
    assert values(passive.network({}, after)) == {
        ("path:p1:forward", "tx_bytes"): 9,
        ("path:p1:forward", "tx_packets"): 1,
        ("path:p1:forward", "drop_queue"): 2,
    }


def test_a_counter_that_was_reset_is_not_reported() -> None:
    assert not values(passive.network({"n": {"p": {"rx_bytes": 9}}}, {"n": {"p": {"rx_bytes": 3}}}))


def test_the_loopback_is_no_port() -> None:
    assert not values(passive.network({}, {"n": {"lo": {"rx_bytes": 3}}}))


def test_what_waits_is_no_count() -> None:
    assert not values(passive.network({}, {"n": {"path:p:forward": {"backlog": 3}}}))


CABLE = LinkPlan(name="lan1", ends=(("h1", "e"), ("gw1", "lan")))


def test_a_link_is_counted_at_both_its_ends() -> None:
    after = {"h1": {"e": {"tx_bytes": 5, "rx_bytes": 7}}, "gw1": {"lan": {"tx_bytes": 7}}}
    assert values(passive.links([CABLE], {}, after)) == {
        ("link:lan1:forward", "tx_bytes"): 5,
        ("link:lan1:reverse", "tx_bytes"): 7,
    }


def test_a_shaped_link_is_counted_once() -> None:
    after = {"h1": {"e": {"tx_bytes": 5}, "link:lan1:forward": {"bytes": 5}}, "gw1": {"lan": {}}}
    assert not values(passive.links([CABLE], {}, after))


def state(pid: int = 7, cpu: float = 0.0, **counters: int) -> State:
    own = {("tun", name): value for name, value in counters.items()}
    return State(pid, cpu, 20 * MIB, own)


def test_a_daemon_gives_processor_time_memory_and_its_own_counters() -> None:
    found = passive.daemon("gw1", state(cpu=1.0, rx_bytes=10), state(cpu=2.0, rx_bytes=25), 4.0)
    assert values(found) == {
        ("daemon:gw1", "cpu"): 25.0,
        ("daemon:gw1", "memory"): 20.0,
        ("daemon:gw1:tun", "rx_bytes"): 15,
    }


def test_of_a_daemon_that_was_started_again_only_memory_is_known() -> None:
    found = passive.daemon("gw1", state(pid=7), state(pid=8), 4.0)
    assert values(found) == {("daemon:gw1", "memory"): 20.0}


def reading(at: float, *busy: float, memory: int = 0) -> machine.Reading:
    cores, megabytes = tuple(machine.Core(b, at) for b in busy), int(at) * MIB
    return machine.Reading(at, cores, memory, disk_read=megabytes, disk_written=2 * megabytes)


def test_processors_are_counted_as_shares_of_one_core() -> None:
    readings = [
        reading(0.0, 0.0, 0.0, memory=5 * MIB),
        reading(1.0, 1.0, 0.0, memory=9 * MIB),
        reading(2.0, 1.0, 0.5, memory=7 * MIB),
    ]
    found = list(passive.processors(readings))
    assert values(s for s in found if s.kind == "summary") == {
        ("core:0", "cpu"): 50.0,
        ("core:1", "cpu"): 25.0,
        ("machine", "cpu"): 75.0,
        ("machine", "memory"): 9.0,
        ("machine", "disk_read"): 2.0,
        ("machine", "disk_written"): 4.0,
    }
    assert [(s.time, s.value) for s in found if s.kind == "interval"] == [(1.0, 100.0), (2.0, 50.0)]


def test_an_idle_core_is_not_below_zero() -> None:
    cores = (machine.Core(busy=0.3, total=5.0), machine.Core(busy=0.3 - 1e-12, total=6.0))
    early, late = (machine.Reading(float(at), (core,), 0) for at, core in enumerate(cores))
    assert machine.shares(early, late) == (0.0,)


def test_a_busy_core_is_seen() -> None:
    """However long the machine takes for it. The kernel counts in ticks of up to 10 ms."""
    early, began = machine.read(), time.monotonic()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    took = time.monotonic() - began
    shares = machine.shares(early, machine.read())
    assert all(0 <= share <= 110 for share in shares)
    assert sum(shares) * took > 100 * 0.25


def test_the_watch_reads_while_its_block_runs() -> None:
    with machine.Watch(interval=0.01) as watch:
        until(lambda: len(watch.readings_until_now()) >= 4)
        readings = watch.readings_until_now()
    assert [r.at for r in readings] == sorted(r.at for r in readings)


def test_counters_of_a_daemon_are_named_by_their_place() -> None:
    group = {"id": 0, "sent": {"bytes": 3}, "drops": {"queue_full": 1}, "ends": {"tls": 2}}
    document = {
        "tun": {"read": {"bytes": 5}, "written": {"records": 6}},
        "unauthenticated": {"tls": 4},
        "peers": [{"branch": "b2", "groups": [group]}],
        "ready": True,
        "uptime_s": 1.5,
    }
    assert flatten(document) == {
        ("tun", "rx_bytes"): 5,
        ("tun", "tx_records"): 6,
        ("unauthenticated", "tls"): 4,
        ("peer:b2:group:0", "tx_bytes"): 3,
        ("peer:b2:group:0", "drop_queue_full"): 1,
        ("peer:b2:group:0", "end_tls"): 2,
    }


@pytest.mark.parametrize("document", [{}, {"peers": []}, {"peers": [3, None]}, {"x": [[1]]}])
def test_counters_of_an_unknown_shape_are_passed_over(document: dict[str, object]) -> None:
    assert flatten(document) == {}


def test_flow_entries_count_by_their_name_and_idle_ones_are_left_out() -> None:
    entries = [
        {"name": "b1>b2 g0 m1 forward source", "packets": 9, "bytes": 900},
        {"name": "b1>b2 g0 m2 forward source", "packets": 0, "bytes": 0},
    ]
    counters = flatten({"switch": {"entries": entries, "drops": {"no_entry": 0}}})
    used = "switch:entry:b1>b2 g0 m1 forward source"
    assert counters[used, "packets"] == 9
    early = State(pid=1, cpu_seconds=0, peak_memory=1, counters={})
    late = State(pid=1, cpu_seconds=1, peak_memory=1, counters=counters)
    found = {(s.subject, s.metric): s.value for s in passive.daemon("gw1", early, late, 1)}
    assert found["daemon:gw1:" + used, "bytes"] == 900
    assert found["daemon:gw1:switch", "drop_no_entry"] == 0
    assert not any("m2" in (subject or "") for subject, _ in found)
