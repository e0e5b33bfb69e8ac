"""`hawser ids`: from records to a model and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flow_models import CONTENT, sealed
from flow_records import random, record
from hawser.cli import main

HEADER = ",".join(record())


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(["ids", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """600 flows; every third, from port 80, has a duration a hundred times longer."""
    lines = [HEADER]
    for number, row in enumerate(random(600).rows.to_pylist()):
        is_attack = number % 3 == 0
        row |= {"dstport": 80 if is_attack else 443, "srcport": number + 1}
        row["duration"] *= 100 if is_attack else 1
        lines.append(",".join(map(str, row.values())))
    file = tmp_path / "flows.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    file = tmp_path / "labels.csv"
    file.write_text("label,target_port,first_us,last_us\nslow,80,0,9\n")
    return file


def test_a_model_is_trained_judged_and_explained(
    records: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.json"
    assert run("train", records, "--labels", labels, "--share", 0.5, "-o", model, "--json") == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["training"]["sources"][1]["format"] == "hawser"
    assert next(iter(trained["training"]["importance"])) == "duration"
    assert next(iter(trained["training"]["given_away"])) == "dstport"

    options = ("--labels", labels, "--model", model)
    assert run("evaluate", records, *options, "--json") == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["all"]["flows"]["accuracy"] > 0.9
    assert run("evaluate", records, *options, "--unseen", "--json") == 0
    unseen = json.loads(capsys.readouterr().out)
    flows = sum(trained["training"]["flows"].values())
    cells = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    assert sum(unseen["all"]["flows"][cell] for cell in cells) == 600 - flows

    assert run("explain", records, "--model", model, "--record", 1) == 0
    assert "duration" in capsys.readouterr().out
    assert run("drift", records, "--model", model) == 0
    assert run("evaluate", records, *options) == 0
    assert "slow" in capsys.readouterr().out


def test_a_threshold_that_depends_on_a_single_flow_is_reported(
    records: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benign flow looks a little like the attack, and 0.1 % of 399 is none."""
    rows = records.read_text().splitlines()
    (column,) = (place for place, name in enumerate(HEADER.split(",")) if name == "duration")
    words = rows[2].split(",")
    words[column] = str(float(words[column]) * 12)
    records.write_text("\n".join([*rows[:2], ",".join(words), *rows[3:], ""]))
    options = ("--labels", labels, "--kind", "forest", "-o", tmp_path / "model.json")
    assert run("train", records, *options) == 0
    assert "0.001 of 399 benign flows is less than one" in (said := capsys.readouterr().err)
    assert "--false-alarms 0.0026 or more" in said
    assert run("train", records, *options, "--false-alarms", 0.0026) == 0
    assert "benign flows" not in capsys.readouterr().err


def test_a_model_is_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, strict = tmp_path / "model.json", tmp_path / "strict.json"
    model.write_bytes(sealed(CONTENT))
    assert run("export", model, "--threshold", 0.9, "-o", strict) == 0
    assert run("export", strict, "--format", "rules") == 0
    assert "malicious from 0.9 on" in capsys.readouterr().out


def test_drift_has_an_exit_code(
    records: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, others = tmp_path / "model.json", tmp_path / "others.csv"
    assert run("train", records, "--labels", labels, "-o", model) == 0
    rows = [row | {"max_fpktl": 1e9} for row in random(600).rows.to_pylist()]
    others.write_text("\n".join([HEADER, *(",".join(map(str, row.values())) for row in rows)]))
    assert run("drift", others, "--model", model) == 1
    assert "max_fpktl" in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["records", "labels", "model"])
def test_bad_input_is_named_and_nothing_written(
    bad: str, records: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "model.json", tmp_path / "out.json"
    model.write_bytes(sealed(CONTENT))
    chosen = {"records": records, "labels": labels, "model": model}
    chosen[bad].write_text("nonsense\n")
    if bad == "model":
        code = run("export", model, "-o", out)
    else:
        code = run("train", records, "--labels", labels, "-o", out)
    assert code == 2
    assert chosen[bad].name in capsys.readouterr().err
    assert not out.exists()
