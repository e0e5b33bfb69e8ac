"""Records put together to flows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flow_records import random, record, table
from hawser.ids import records
from hawser.ids.errors import IdsError
from hawser.ids.flows import drawn, group, highest
from hawser.ids.records import Records

S = 1_000_000


def one_tuple() -> Records:
    """Two flows of one tuple: the first 5 s long, the second a single packet, answered."""
    return table(
        record(reason="early", last_us=S, total_fvolume=100.0),
        record(reason="window", last_us=2 * S - 1, total_fvolume=150.0),
        record(reason="window", first_us=3 * S, last_us=4 * S, total_bvolume=50.0),
        record(reason="closed", last_us=5 * S, total_fvolume=150.0, total_bvolume=60.0),
        record(
            *(), reason="idle", first_us=9 * S, last_us=9 * S, total_fvolume=40.0,
            srcip="10.0.0.2", srcport=80, dstip="10.0.0.1", dstport=40000,
        ),
    )  # fmt: skip


def test_a_last_record_ends_a_flow() -> None:
    flows = group(one_tuple())
    assert flows.of_record.tolist() == [0, 0, 0, 0, 1]
    assert flows.first_us.tolist() == [0, 9 * S]
    assert flows.last_us.tolist() == [5 * S, 9 * S]
    assert flows.is_short().tolist() == [False, True]


def test_windows_add_up_and_other_records_count_from_the_beginning() -> None:
    flows = group(one_tuple())
    assert flows.seen.tolist() == [100, 150, 200, 210, 40]
    assert flows.volume.tolist() == [210, 40]


def test_a_record_is_known_when_its_window_or_silence_ends() -> None:
    flows = group(one_tuple())
    assert flows.decided_us.tolist() == [S, 2 * S, 5 * S, 5 * S, 609 * S]


def test_a_flow_of_few_packets_is_old_enough_after_50_ms() -> None:
    early = [
        record(srcport=port, reason="early", last_us=100, total_fpackets=packets)
        for port, packets in ((1, 2.0), (2, 8.0))
    ]
    assert group(table(*early)).decided_us.tolist() == [50_000, 100]


@given(st.permutations(range(5)))
def test_the_order_of_records_does_not_matter(order: list[int]) -> None:
    found, expected = group(one_tuple().take(np.array(order))), group(one_tuple())
    assert found.volume.tolist() == expected.volume.tolist()
    assert found.seen.tolist() == expected.seen[order].tolist()


def test_a_draw_is_the_same_whenever_it_is_made() -> None:
    many = random(2000)
    flows = group(many)
    chosen = drawn(many, flows, 0.2, seed=7)
    assert 300 < chosen.sum() < 500
    shuffled = many.take(np.random.default_rng(1).permutation(len(many)))
    again = group(shuffled)
    ports = set(many.integers("srcport")[flows.first_row[chosen]].tolist())
    chosen = drawn(shuffled, again, 0.2, seed=7)
    assert set(shuffled.integers("srcport")[again.first_row[chosen]].tolist()) == ports


def test_the_highest_score_of_a_flow() -> None:
    scores = np.array([0.1, 0.7, 0.2, 0.3, 0.4])
    assert highest(group(one_tuple()), scores).tolist() == [0.7, 0.4]


def test_no_records_are_no_flows() -> None:
    assert len(group(table())) == 0


def test_a_folder_of_parquet_is_read_without_what_is_unfinished(tmp_path: Path) -> None:
    places = {"a.parquet": 1, "batch=1/a.parquet": 3, "batch=2/a.parquet": 5, "_new/b.parquet": 7}
    for place, count in places.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        pq.write_table(random(count).rows, tmp_path / place)
    (tmp_path / "batch=1/_SUCCESS").touch()
    assert len(records.read([tmp_path])) == 4


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace("dscp", "dcsp"), "no column dscp"),
        (lambda text: text.replace("ended", "tired"), "reason: found 'tired'"),
        (lambda text: text.replace("40000", "70000"), "70000"),
        (lambda text: text.replace("10.0.0.1", ""), "srcip: found a missing value"),
        (lambda text: text.replace("0.5", "inf"), "record 1: total_fpackets: expected a finite"),
    ],
)
def test_bad_records_are_refused_with_the_place(
    tmp_path: Path, change: object, problem: str
) -> None:
    row = record(total_fpackets=0.5)
    text = f"{','.join(row)}\n{','.join(map(str, row.values()))}\n"
    file = tmp_path / "flows.csv"
    file.write_text(change(text))  # type: ignore[operator]
    with pytest.raises(IdsError, match=r"flows\.csv") as caught:
        records.read([file])
    assert problem in str(caught.value)
