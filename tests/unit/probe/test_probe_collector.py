"""Sums over sensors, and the records in a history that Spark writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hawser.control.model import SensorFlows, SensorPackets, SensorRecords, SensorStatus
from hawser.probe.collector import stored
from hawser.probe.sensors import samples


def status(flows: int, dropped: int, *, logged: bool = True) -> SensorStatus:
    return SensorStatus(
        packets=SensorPackets(observed=100, lost=3),
        flows=SensorFlows(begun=flows, records=2 * flows),
        records=SensorRecords(written=2 * flows - dropped, dropped=dropped, failed=1)
        if logged
        else None,
    )


def test_sensors_are_summed_up() -> None:
    found = {each.metric: each.value for each in samples([status(10, 2), status(5, 0)])}
    assert found == {
        "flows_seen": 15,
        "records_made": 30,
        "records_lost": 4,
        "packets_unseen": 6,
    }


def test_a_sensor_without_a_log_loses_no_records() -> None:
    found = {each.metric: each.value for each in samples([status(10, 2, logged=False)])}
    assert found["records_lost"] == 0


def batch(folder: Path, number: int, seqs: list[int], *, done: bool = True) -> None:
    target = folder / "store" / "records" / f"batch={number}"
    target.mkdir(parents=True)
    rows = pa.table({"id": [f"ab-{seq}" for seq in seqs], "seq": seqs, "score": [0.5] * len(seqs)})
    pq.write_table(rows, target / "part-0.parquet")
    if done:
        (target / "_SUCCESS").touch()


def test_records_are_counted_once_and_only_in_finished_batches(tmp_path: Path) -> None:
    assert stored(tmp_path) == 0
    batch(tmp_path, 0, [1, 2, 3])
    batch(tmp_path, 1, [3, 4])
    batch(tmp_path, 2, [5, 6], done=False)
    assert stored(tmp_path) == 4
