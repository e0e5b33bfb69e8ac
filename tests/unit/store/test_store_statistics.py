"""Statistics over time: the ring, minutes and hours, what a crash leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.store.errors import StoreError
from hawser.store.statistics import index as indexes
from hawser.store.statistics.archive import HOUR, LATE_S, part, parts
from hawser.store.statistics.index import MOST_OF_BRANCH, Index
from hawser.store.statistics.ring import ROWS, Ring, end_of
from hawser.store.statistics.roll import roll
from hawser.store.statistics.store import StatisticsStore
from hawser.store.statistics.summary import summary

DAY = int(datetime(2026, 1, 30, tzinfo=UTC).timestamp())


class Clock:
    now = float(DAY)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[StatisticsStore]:
    made = StatisticsStore(tmp_path, clock)
    yield made
    made.close()


def test_seconds_are_there_for_an_hour(store: StatisticsStore, clock: Clock) -> None:
    layout = store.layout("b1", ["a/x", "a/y"])
    for second in range(2 * ROWS):
        clock.now = DAY + second
        assert store.write(layout, DAY + second, [second, math.nan])
    end = int(clock.now) + 1
    found = store.history("b1", "a/x", end - HOUR, end, 1)
    assert found.times.tolist() == list(range(end - HOUR, end))
    assert (found.times - DAY == found.mean).all()
    assert len(store.history("b1", "a/y", end - HOUR, end, 1).times) == 0
    assert len(store.history("b1", "a/x", 0, end + 1000, 1).times) >= HOUR
    assert len(store.history("b1", "a/z", 0, end, 1).times) == 0
    assert len(store.history("b2", "a/x", end, end - 5, 1).times) == 0
    assert len(store.history("b1", "a/x", end - 3 * ROWS, end - 2 * ROWS, 1).times) == 0
    assert len(store.history("b1", "a/x", end + 1000, end + 2000, 1).times) == 0


def test_what_was_written_outlasts_a_kill(tmp_path: Path, clock: Clock) -> None:
    store = StatisticsStore(tmp_path, clock)
    names = [f"a/{n}" for n in range(700)]  # over two segments
    store.write(store.layout("b1", names), DAY, np.arange(700))
    # The process is killed here: nothing is closed, nothing synchronised.
    other = StatisticsStore(tmp_path, clock)
    for n in (0, 255, 256, 699):
        assert other.history("b1", f"a/{n}", DAY, DAY + 1, 1).mean.tolist() == [n]
    assert other.layout("b1", names).refused == 0
    other.write(other.layout("b1", names), DAY, np.arange(700))  # again: it comes once
    assert other.history("b1", "a/3", DAY, DAY + 60, 60).mean.tolist() == [3]
    store.close()
    other.close()


def test_late_early_and_overwritten_reports(store: StatisticsStore, clock: Clock) -> None:
    layout = store.layout("b1", ["a/x"])
    assert store.write(layout, DAY - LATE_S, [1])
    assert not store.write(layout, DAY - LATE_S - 1, [1])
    assert store.write(layout, DAY + 30, [1])
    assert not store.write(layout, DAY + 31, [1])
    clock.now = DAY + 2**33  # a clock that jumps, and comes back
    assert store.write(layout, int(clock.now), [1])
    clock.now = DAY


def test_a_clock_that_was_wrong_blocks_nothing(tmp_path: Path, clock: Clock) -> None:
    clock.now = DAY + 400 * 24 * HOUR
    store = StatisticsStore(tmp_path, clock)
    for second in range(ROWS):
        clock.now += 1
        store.write(store.layout("b1", ["a/x"]), int(clock.now), [second])
    store.close()
    clock.now = DAY
    store = StatisticsStore(tmp_path, clock)
    assert store.write(store.layout("b1", ["a/x"]), DAY, [1])
    store.close()


def fill(store: StatisticsStore, clock: Clock, begin: int, end: int, step: int = 20) -> None:
    """Values of two branches: the time in the hour."""
    layouts = [store.layout(branch, ["a/x", "b/y"]) for branch in ("b2", "b1")]
    for second in range(begin, end, step):
        clock.now = second
        for layout in layouts:
            store.write(layout, second, [second % HOUR, math.nan if second % 60 else 5.0])


def test_minutes_and_hours(store: StatisticsStore, clock: Clock, tmp_path: Path) -> None:
    fill(store, clock, DAY, DAY + HOUR + LATE_S + 60)
    store.roll()
    fill(store, clock, DAY + HOUR + LATE_S + 60, DAY + 2 * HOUR + LATE_S + 60)
    before = [store.history("b1", "a/x", DAY + HOUR, DAY + 3 * HOUR, each) for each in (60, HOUR)]
    assert store.due()
    store.roll()
    assert not store.due()
    assert len(parts(tmp_path, "minutes")) == len(parts(tmp_path, "hours")) == 2
    for earlier, each in zip(before, (60, HOUR), strict=True):
        found = store.history("b1", "a/x", DAY + HOUR, DAY + 3 * HOUR, each)
        assert found.times.tolist() == earlier.times.tolist()
        for name in ("mean", "low", "high"):
            one, other = getattr(found, name), getattr(earlier, name)
            assert np.allclose(one, other, rtol=3e-4, atol=1e-3)
    minutes = store.history("b1", "a/x", DAY, DAY + 3 * HOUR, 60)
    assert len(minutes.times) == (2 * HOUR + LATE_S + 60) // 60
    assert minutes.low[:2].tolist() == [0, 60]
    assert minutes.high[:2].tolist() == [40, 100]
    hours = store.history("b2", "b/y", DAY, DAY + 3 * HOUR, HOUR)
    assert hours.times.tolist() == [DAY, DAY + HOUR, DAY + 2 * HOUR]
    assert hours.mean.tolist() == [5, 5, 5]
    file = tmp_path / "minutes" / "2026-01-30T01.parquet"
    rows = duckdb.read_parquet(str(file)).filter("series = 'b/y' AND branch = 'b2'").fetchall()
    assert rows[0] == ("b2", "b/y", datetime(2026, 1, 30, 1), 5.0, 5.0, 5.0, 1)  # noqa: DTZ001 (UTC)


def test_days_and_months_are_put_together(tmp_path: Path, clock: Clock) -> None:
    store = StatisticsStore(tmp_path, clock)
    hours = (0, 7, 23, 24, 40, 47, 48, 49)  # to the first hours of February
    for hour in hours:
        begin = DAY + hour * HOUR
        fill(store, clock, begin, begin + HOUR, 600)
        clock.now = begin + HOUR + LATE_S
        roll(tmp_path, int(clock.now))
    days = [each.path.name for each in parts(tmp_path, "minutes")]
    assert days == [
        "2026-01-30.parquet",
        "2026-01-31.parquet",
        "2026-02-01T00.parquet",
        "2026-02-01T01.parquet",
    ]
    months = [each.path.name for each in parts(tmp_path, "hours")]
    assert months == ["2026-01.parquet", "2026-02-01T00.parquet", "2026-02-01T01.parquet"]
    assert sorted(each.name for each in (tmp_path / "hours").iterdir()) == months
    found = store.history("b1", "a/x", DAY, DAY + 50 * HOUR, HOUR)
    assert found.times.tolist() == [DAY + hour * HOUR for hour in hours]
    minutes = store.history("b2", "a/x", DAY, DAY + 50 * HOUR, 60)
    assert len(minutes.times) == 6 * len(hours)
    # What is older than a month goes, the hours stay.
    roll(tmp_path, DAY + 40 * 24 * HOUR)
    assert not [each for each in parts(tmp_path, "minutes") if each.begin < DAY + 9 * 24 * HOUR]
    assert len(store.history("b1", "a/x", DAY, DAY + 50 * HOUR, HOUR).times) == len(hours)
    store.close()


def test_an_hour_that_ended_while_nobody_worked_is_written(tmp_path: Path, clock: Clock) -> None:
    store = StatisticsStore(tmp_path, clock)
    fill(store, clock, DAY + 600, DAY + 1800)
    store.close()
    clock.now = DAY + 30 * HOUR
    store = StatisticsStore(tmp_path, clock)
    assert len(store.history("b1", "a/x", DAY, DAY + HOUR, 60).times) == 20
    store.close()


def test_what_a_killed_process_left_is_done_again(tmp_path: Path, clock: Clock) -> None:
    store = StatisticsStore(tmp_path, clock)
    fill(store, clock, DAY, DAY + HOUR + LATE_S + 1, 60)
    (tmp_path / "minutes").mkdir()
    (tmp_path / "minutes" / ".2026-01-30T00.parquet").write_bytes(b"half")
    (tmp_path / "minutes" / "notes.parquet").write_bytes(b"of somebody")
    store.roll()
    assert len(store.history("b1", "a/x", DAY, DAY + HOUR, 60).times) == 60
    (tmp_path / "hours" / "2026-01-30T00.parquet").unlink()
    store.roll()
    assert len(store.history("b1", "a/x", DAY, DAY + HOUR, HOUR).times) == 1
    (tmp_path / "minutes" / "2026-01-30T00.parquet").write_bytes(b"damaged")
    with pytest.raises(StoreError):
        store.history("b1", "a/x", DAY, DAY + HOUR, 60)
    store.close()


def test_files_of_another_version_are_refused(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "seconds.0").write_bytes(b"x" * 100)
    with pytest.raises(StoreError, match=r"seconds\.0: this is no ring"):
        StatisticsStore(tmp_path, clock)


@given(st.binary(max_size=60))
def test_what_is_no_index_is_refused(content: bytes) -> None:
    """Whatever the lines are."""
    for line in content.split(b"\n"):
        try:
            column, branch, name = indexes._assignment(Path("x"), 1, line)
        except ValueError:
            continue
        assert 0 <= column < 2**24
        assert isinstance(branch, str)
        assert isinstance(name, str)


def test_columns_are_used_again_when_they_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    one = Index(path, 0)
    one.layout("b1", ["a/x", "a/y"], 0)
    one.layout("b1", ["a/y"], 100)
    one.layout("b2", ["a/z"], 200)
    assert one.of("b1") == {"a/x": 0, "a/y": 1}
    assert one.of("b2") == {"a/z": 2}
    one.layout("b3", ["a/n"], 100 + ROWS + 61)
    assert one.of("b1") == {"a/y": 1}
    assert one.of("b3") == {"a/n": 0}
    one.close()
    with path.open("ab") as file:
        file.write(b'[3, "b4", "a/to')  # torn by a loss of power
    two = Index(path, 0)
    assert [*two.all()] == [("b1", "a/y", 1), ("b2", "a/z", 2), ("b3", "a/n", 0)]
    two.layout("b4", ["a/m"], 0)
    two.close()
    assert [*Index(path, 0, read_only=True).all()][-1] == ("b4", "a/m", 3)


def test_a_branch_has_a_limit(tmp_path: Path) -> None:
    index = Index(tmp_path / "series.jsonl", 0)
    for turn in range(4):
        layout = index.layout("b1", [f"a/{turn}x{n}" for n in range(4096)], turn)
    assert layout.refused == 4096
    assert index.width == MOST_OF_BRANCH
    assert index.layout("b2", ["a/x"], 9).refused == 0
    index.close()


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6, width=32) | st.just(math.nan), min_size=6, max_size=6))
)
def test_summaries(series: list[list[float]]) -> None:
    values = np.array(series, np.float32).reshape(len(series), 6).T
    found = summary(values, 3)
    for at in range(len(series)):
        for row in range(2):
            there = [v for v in series[at][3 * row : 3 * row + 3] if not math.isnan(v)]
            assert found.count[row, at] == len(there)
            if there:
                assert found.low[row, at] == min(there)
                assert found.high[row, at] == max(there)
                assert math.isclose(found.mean[row, at], sum(there) / len(there), abs_tol=0.1)
            else:
                assert math.isnan(found.mean[row, at] + found.low[row, at] + found.high[row, at])


def test_names_of_files() -> None:
    assert part(Path("2026-02.parquet")) is not None
    for name in ("2026-13.parquet", "2026-01-32.parquet", "x.parquet", "2026-01-01T24.parquet"):
        assert part(Path(name)) is None
    february = part(Path("2026-02.parquet"))
    assert february is not None
    assert february.width == 28 * 24 * HOUR


def test_segments(tmp_path: Path) -> None:
    ring = Ring(tmp_path, DAY)
    ring.grow(300)
    assert [end_of(n) for n in range(6)] == [256, 768, 1792, 3840, 7936, 12032]
    assert len(ring.segments) == 2
    with pytest.raises(ValueError, match="at most"):
        ring.read(0, ROWS + 1, [0])
    ring.close()
