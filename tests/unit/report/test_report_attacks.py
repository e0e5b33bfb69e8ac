"""What of attacks got through, as tables of a report."""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic
from hawser.report import attacks, tables
from hawser.report.build import build
from hawser.report.model import Report
from hawser.report.render import render
from hawser.spec.workflow import Reference
from hawser.store import Bundle, Sample


def sample(metric: str, value: float, unit: str = "flows", subject: str = "") -> Sample:
    return Sample(measurement="attacks", metric=metric, unit=unit, value=value, subject=subject)


EXTRA = [
    sample("accuracy", 99.5, "%"),
    sample("benign_blocked", 1),
    sample("benign_passed", 1000),
    sample("malicious_blocked", 430),
    sample("malicious_passed", 9),
    sample("malicious_volume_blocked", 98.7, "%"),
    sample("malicious_blocked", 400, subject="attack:syn-flood"),
    sample("malicious_passed", 3, subject="attack:syn-flood"),
    sample("time_to_block", 87.5, "ms", "attack:syn-flood"),
    sample("malicious_passed", 6, subject="flows:short"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    published = Reference(metric="accuracy", value=72.7, unit="%", source="table I")
    workflow = synthetic.quickstart(3).model_copy(update={"reference": (published,)})
    folder = tmp_path_factory.mktemp("runs")
    return build(Bundle.open(synthetic.write(folder, workflow, extra=EXTRA)))


def test_the_confusion_matrix_stands_beside_the_published_one(report: Report) -> None:
    table = attacks.matrix(report)
    assert table is not None
    assert table.columns[table.names :][:4] == (
        "malicious blocked", "malicious passed", "benign blocked", "benign passed",
    )  # fmt: skip
    assert len(table.rows) == len(report.workflow.variants) + 1
    assert table.rows[0][table.names :][:5] == ("430", "9", "1", "1000", "99.5")
    assert table.rows[-1][0] == "published (table I)"
    assert table.rows[-1][table.names :] == ("", "", "", "", "72.7", "", "", "")
    assert len({len(row) for row in (table.columns, *table.rows)}) == 1


def test_each_attack_has_a_row_and_no_table_of_its_own(report: Report) -> None:
    table = attacks.by_attack(report)
    assert table is not None
    names = [row[table.names - 1] for row in table.rows]
    assert names[:2] == ["syn-flood", "flows under 2 s"]
    assert table.rows[0][table.names :][:2] == ("400", "3")
    assert not any("syn-flood" in one.caption for one in tables.results(report))


@pytest.mark.parametrize("form", ["html", "md", "text"])
def test_forms_for_people_have_both(report: Report, form: str) -> None:
    text = render(report, form).decode()  # type: ignore[arg-type]
    assert "Confusion matrix: flows blocked and passed" in text
    assert "syn-flood" in text


def test_runs_without_attacks_have_neither(quickstart: Report) -> None:
    assert attacks.tables(quickstart) == []


def test_counts_alone_are_no_comparison(tmp_path: Path) -> None:
    extra = [Sample(measurement="attacks", metric="attack_episodes", unit="episodes", value=3)]
    path = synthetic.write(tmp_path, synthetic.quickstart(3), extra=extra)
    assert attacks.tables(build(Bundle.open(path))) == []
