"""The record log of a sensor, read whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hawser.ids.errors import IdsError
from hawser.ids.features import NAMES
from hawser.ids.records import read


def line(number: int = 1, **given: object) -> str:
    usual = {
        "schema": 1, "id": f"8c1f-{number}", "seq": number, "reason": "window",
        "first_us": 10, "last_us": 20, "srcip": "10.0.0.1", "srcport": 40000 + number,
        "dstip": "fd00::1", "dstport": 443, "proto": 6, "is_conversation": True,
        "features": [float(n) for n in range(len(NAMES))], "score": None, "model": None,
    }  # fmt: skip
    return json.dumps(usual | given) + "\n"


def test_files_of_a_log_are_read_and_torn_lines_are_not(tmp_path: Path) -> None:
    (tmp_path / "records-0000000001.jsonl").write_text(line(1) + line(2, new_field=[1]))
    (tmp_path / "records-0000000002.jsonl").write_text(line(3) + line(4)[:50])
    (tmp_path / "records-0000000003.jsonl").write_text("")
    found = read([tmp_path])
    assert found.integers("srcport").tolist() == [40001, 40002, 40003]
    assert found.features[0].tolist() == list(range(len(NAMES)))
    assert found.texts("dstip").tolist() == ["fd00::1"] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{\n", "records-1.jsonl"),
        (line(features=[1.0]), "features: expected 40 numbers"),
        (line(features=None), "features: expected 40 numbers"),
        (line(features=[None] * len(NAMES)), "total_fpackets"),
        (line(reason="why"), "reason: found 'why'"),
        (line(srcport=70000), "records-1.jsonl"),
        (line(srcip=None), "srcip: found a missing value"),
    ],
)
def test_bad_lines_are_told_with_their_file(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "records-1.jsonl"
    file.write_text(text)
    with pytest.raises(IdsError, match=said):
        read([file])


def test_a_folder_without_records_is_told(tmp_path: Path) -> None:
    with pytest.raises(IdsError, match="found no Parquet file and no record log"):
        read([tmp_path])
