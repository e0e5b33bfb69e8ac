"""What the WAN emulator's counters say of a trial."""

from __future__ import annotations

from hawser.control.model import WanCounters
from hawser.probe.emulator import dropped, late, samples

QUANTILES = {"count": 1000, "mean": 20, "p50": 20, "p90": 40, "p99": 60, "p999": 90, "max": 100}
PATH = {
    "name": "path:p:forward",
    "rx_packets": 1000,
    "rx_bytes": 10**6,
    "tx_packets": 990,
    "tx_bytes": 990_000,
    "drop_loss": 10,
    "drop_queue": 0,
    "drop_buffer": 0,
    "duplicated": 0,
    "reordered": 0,
    "held": 3,
    "delay_us": 10_000,
    "lateness_us": QUANTILES,
}
PORT = {
    "name": "w0a",
    "rx_packets": 1000,
    "rx_bytes": 10**6,
    "tx_packets": 0,
    "tx_bytes": 0,
    "drop_ring": 0,
    "drop_oversize": 0,
    "drop_send": 0,
}


def counters(
    late: float = 60, count: int = 1000, delay: float = 10_000, **more: int
) -> WanCounters:
    quantiles = QUANTILES | {"p99": late, "count": count}
    quantiles |= {name: value for name, value in more.items() if name in QUANTILES}
    port = {name: value for name, value in more.items() if name not in QUANTILES}
    path = PATH | {"lateness_us": quantiles, "delay_us": delay}
    document = {"interfaces": [PORT | port], "paths": [path], "buffered_bytes": 0}
    return WanCounters.model_validate(document)


START = counters(late=0, count=0)


def test_a_trial_on_time_is_valid() -> None:
    assert late(START, counters()) == dropped(START, counters()) == ()


def test_a_late_one_is_void() -> None:
    assert late(START, counters(late=1001)) == (
        "the WAN emulator was late: path:p:forward by 1.00 ms in the 99th percentile",
    )


def test_long_delays_forgive_five_percent() -> None:
    assert not late(START, counters(late=4900, delay=100_000))
    assert late(START, counters(late=5100, delay=100_000))


def test_a_few_packets_have_no_99th_percentile() -> None:
    assert not late(START, counters(late=9000, count=99))


def test_what_was_late_before_the_measurement_does_not_count() -> None:
    """The quantiles are since the lab was made: 40 of 1000 late while it settled, none after."""
    before = counters(late=9000, count=1000, p90=20, p999=9500, max=9900)
    after = counters(late=9000, count=4000, p90=20, p999=9500, max=9900)
    assert not late(before, after)
    assert late(START, after)


def test_packets_lost_unasked_make_it_void() -> None:
    (fault,) = dropped(START, counters(drop_ring=7))
    assert fault == "the WAN emulator lost 7 packets by itself (drop_ring)"
    assert not dropped(counters(drop_ring=7), counters(drop_ring=7))


def test_samples_are_what_was_added() -> None:
    found = {(s.subject, s.metric): s.value for s in samples(counters(), counters())}
    assert found["path:p:forward", "drop_loss"] == 0
    assert found["path:p:forward", "lateness_p99"] == 60
    assert found["port:wan.w0a", "drop_ring"] == 0
