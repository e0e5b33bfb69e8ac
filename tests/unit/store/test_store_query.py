"""The table of samples, and SQL about it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import synthetic
from hawser.store import Bundle, QueryError, RunWriter, table
from hawser.store.query import query


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("runs")
    return Bundle.open(synthetic.write(folder, synthetic.quickstart(3), void={4: "no answer"}))


def test_the_table_is_long_and_joined_with_the_trials(run: Bundle) -> None:
    samples = pq.read_table(run.path / "samples.parquet")
    assert samples.column_names == [
        "run", "workflow", "trial", "repeat", "v_transport", "measurement", "metric", "unit",
        "direction", "subject", "kind", "censored", "time", "value", "valid", "reason",
    ]  # fmt: skip
    assert samples.num_rows == sum(len(trial.samples()) for trial in run.trials)
    assert set(samples["reason"].to_pylist()) == {None, "no answer"}


def test_sql_agrees_with_the_files(run: Bundle) -> None:
    sql = """
        select v_transport, count(*) as n, avg(value) as mean from samples
        where metric = 'goodput' and kind = 'summary' and valid group by all order by all
    """
    answer = query([run], sql)
    assert answer.columns == ("v_transport", "n", "mean")
    for name, n, mean in answer.rows:
        values = [
            sample.value
            for trial in run.trials
            if trial.record.valid and trial.record.variant["transport"] == name
            for sample in trial.samples()
            if sample.metric == "goodput" and sample.kind == "summary"
        ]
        assert n == len(values)
        assert mean == pytest.approx(sum(values) / len(values))


def test_trials_can_be_asked_too(run: Bundle) -> None:
    sql = "select trial, reason, finished - started as took from trials where not valid"
    (row,) = query([run], sql).records()
    assert row == {"trial": 4, "reason": "no answer", "took": "P0M0DT9S"}


def test_rows_as_json_and_csv(run: Bundle) -> None:
    answer = query(
        [run], """select 'a"b' as x, null as y, 1.5 as z, 'nan'::double as n, now() as t"""
    )
    (record,) = json.loads(answer.json())
    assert (record["x"], record["y"], float(record["z"]), record["n"]) == ('a"b', None, 1.5, None)
    header, row = answer.csv().splitlines()
    assert header == "x,y,z,n,t"
    assert row.startswith('"a""b",,1.5,,')


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("selec 1", "Parser Error"),
        ("select nothing from samples", "nothing"),
        ("select * from elsewhere", "elsewhere"),
        ("select 1; select 2", "one SELECT statement"),
        ("", "one SELECT statement"),
        ("drop view samples", "one SELECT statement"),
        ("create table x as select 1", "one SELECT statement"),
        ("copy samples to 'stolen.csv'", "one SELECT statement"),
        ("set enable_external_access = true", "one SELECT statement"),
        ("select * from read_csv('/etc/passwd')", "Permission Error"),
        ("select * from read_text('/etc/passwd')", "Permission Error"),
        ("select * from 'https://example.org/x.parquet'", "query: "),
        ("select cast(v_transport as integer) from samples", "Conversion Error"),
    ],
)
def test_a_bad_statement_is_one_sentence(run: Bundle, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        query([run], sql)
    assert str(caught.value).startswith("query: ")
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_python_variables_are_out_of_reach(run: Bundle) -> None:
    secret = table.trials(run)
    assert secret.num_rows
    with pytest.raises(QueryError, match="secret"):
        query([run], "select * from secret")


def test_a_run_in_work_answers_from_its_trials(tmp_path: Path) -> None:
    """samples.parquet is used where it is current, and only there."""
    workflow = synthetic.quickstart(1)
    plan = synthetic.manifest(workflow)
    with RunWriter.create(tmp_path, plan, workflow, {}) as run:
        for place in plan.order:
            with run.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add(synthetic.samples(place.variant, synthetic.np.random.default_rng(1)))
            count = query([Bundle.open(run.path)], "select count(distinct trial) from samples")
            assert count.rows == ((place.trial,),)
            run.compile()
        (run.path / "samples.parquet").write_bytes(b"PAR1 damaged PAR1")
        assert query([Bundle.open(run.path)], "select count(*) from trials").rows == ((3,),)
        assert table.samples(Bundle.open(run.path)).num_rows > 0


def test_an_empty_run_has_empty_tables(tmp_path: Path) -> None:
    workflow = synthetic.quickstart(1)
    with RunWriter.create(tmp_path, synthetic.manifest(workflow), workflow, {}) as run:
        assert query([Bundle.open(run.path)], "select v_transport from samples").rows == ()
        assert query([Bundle.open(run.path)], "select started from trials").rows == ()
