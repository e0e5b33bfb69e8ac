"""Run bundles: what is finished stays, what is not leaves no trace, what is damaged says so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import synthetic
from hawser.spec.workflow import Workflow
from hawser.store import Bundle, BundleError, RunWriter, Sample, runs
from hawser.store.bundle import folder_name


@pytest.fixture
def workflow() -> Workflow:
    return synthetic.quickstart(repeat=2)


def begin(folder: Path, workflow: Workflow) -> RunWriter:
    ticks = synthetic.clock()
    plan = synthetic.manifest(workflow)
    return RunWriter.create(folder, plan, workflow, {"workflow.yaml": b"x"}, lambda: next(ticks))


def interrupted(run: RunWriter, number: int) -> None:
    with run.trial(number, {"transport": "ipomp"}, 2) as trial:
        trial.add([SAMPLE])
        raise KeyboardInterrupt


SAMPLE = Sample(measurement="tcp", metric="goodput", unit="Mbit/s", value=1.5, direction="forward")


def test_a_finished_run_reads_back_as_it_was_written(tmp_path: Path, workflow: Workflow) -> None:
    bundle = Bundle.open(synthetic.write(tmp_path, workflow, void={2: "ping: no answer"}))
    assert bundle.path.name == bundle.manifest.run == "quickstart-20260105T120000-c0de"
    assert bundle.workflow == workflow
    assert bundle.state == "done"
    assert bundle.manifest.finished is not None
    assert [t.record.trial for t in bundle.trials] == [1, 2, 3, 4, 5, 6]
    assert [t.record.reason for t in bundle.trials if not t.record.valid] == ["ping: no answer"]
    order = [(p.trial, p.variant, p.repeat) for p in bundle.manifest.order]
    assert [(t.record.trial, t.record.variant, t.record.repeat) for t in bundle.trials] == order
    lost = bundle.trials[1].record.variant["transport"]
    assert bundle.problems() == (f"only 1 of 2 repeats of {lost} have a valid trial",)
    assert (bundle.path / "samples.parquet").is_file()


def test_an_interrupted_trial_is_not_there_and_the_next_attempt_is(
    tmp_path: Path, workflow: Workflow
) -> None:
    with begin(tmp_path, workflow) as run:
        with run.trial(1, {"transport": "ipomp"}, 1) as trial:
            trial.add([SAMPLE])
            (trial.raw / "tcp.iperf3.json").write_text("{}")
        with pytest.raises(KeyboardInterrupt):
            interrupted(run, 2)
        assert run.finished() == {1}
    assert Bundle.open(run.path).state == "incomplete"
    assert len(Bundle.open(run.path).trials) == 1
    assert list((run.path / "trials").glob(".tmp-*"))

    with RunWriter.resume(run.path) as again:
        assert not list((run.path / "trials").glob(".tmp-*"))
        assert again.finished() == {1}
        with again.trial(2, {"transport": "ipomp"}, 2) as trial:
            trial.add([SAMPLE])
        with pytest.raises(BundleError, match="finished already"):
            again.trial(1, {"transport": "ipomp"}, 1).__enter__()
        again.finish("failed", "interrupted by the user")
    bundle = Bundle.open(run.path)
    assert [len(trial.samples()) for trial in bundle.trials] == [1, 1]
    assert (bundle.trials[0].path / "raw" / "tcp.iperf3.json").read_text() == "{}"
    assert bundle.state == "failed"
    assert bundle.manifest.problem == "interrupted by the user"
    assert bundle.problems()[:2] == ("the run is failed", "4 of 6 trials are missing")


def test_killed_at_any_moment_the_finished_trials_are_whole(
    tmp_path: Path, workflow: Workflow
) -> None:
    """SIGKILL a real writer at a random point; resume; none is lost, none is there twice."""
    script = (
        "import sys; from pathlib import Path; import synthetic\n"
        "from hawser.store import RunWriter, Sample\n"
        "w = synthetic.quickstart(repeat=400); plan = synthetic.manifest(w)\n"
        "run = RunWriter.create(Path(sys.argv[1]), plan, w, {})\n"
        "s = [Sample(measurement='m', metric='x', unit='1', value=i) for i in range(50)]\n"
        "for p in plan.order:\n"
        "    with run.trial(p.trial, p.variant, p.repeat) as t: t.add(s)\n"
        "    print(p.trial, flush=True)\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        command = [sys.executable, "-c", script, str(folder)]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            (info,) = runs(folder)
            assert info.state == "running"
            time.sleep(0.013 * (attempt + 1))
            process.send_signal(signal.SIGKILL)
            said = [1, *(int(line) for line in process.stdout.read().split())]
        (info,) = runs(folder)
        assert info.state == "incomplete"
        with RunWriter.resume(info.path) as run:
            assert set(said) <= run.finished() <= {*said, said[-1] + 1}
        assert all(len(trial.samples()) == 50 for trial in Bundle.open(info.path).trials)


def test_only_one_process_writes_a_run(tmp_path: Path, workflow: Workflow) -> None:
    with begin(tmp_path, workflow) as run:
        with pytest.raises(BundleError, match="another process"):
            RunWriter.resume(run.path)
        assert Bundle.open(run.path).state == "running"
    RunWriter.resume(run.path).close()


def test_a_run_is_never_made_over_another(tmp_path: Path, workflow: Workflow) -> None:
    begin(tmp_path, workflow).close()
    with pytest.raises(BundleError, match="exists already"):
        begin(tmp_path, workflow)
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_folder_that_cannot_be_made_is_one_clear_error(
    tmp_path: Path, workflow: Workflow
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="Not a directory"):
        begin(tmp_path / "file", workflow)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such run"),
        (lambda p: (p / "manifest.json").unlink(), r"has no manifest\.json"),
        (lambda p: (p / "manifest.json").write_text("{"), r"manifest\.json: Invalid JSON"),
        (lambda p: (p / "manifest.json").write_bytes(b"\xff\x00"), r"manifest\.json: Invalid JSON"),
        (lambda p: (p / "manifest.json").write_text("{}"), r"manifest\.json: run: Field required"),
        (lambda p: (p / "resolved.json").unlink(), r"resolved\.json: No such file"),
        (lambda p: (p / "resolved.json").write_text('{"name": 1}'), r"resolved\.json: name: "),
        (lambda p: first(p, "trial.json").unlink(), r"trial\.json: No such file"),
        (lambda p: first(p, "trial.json").write_text("[]"), r"trial\.json: Input should be"),
        (
            lambda p: first(p, "samples.jsonl").write_text('\n{"value": "many"}'),
            r"samples\.jsonl: line 1: Invalid JSON",
        ),
        (
            lambda p: first(p, "samples.jsonl").write_text(edit(value=None)),
            r"samples\.jsonl: line 1: value: Input should be a valid number",
        ),
        (
            lambda p: shutil.copytree(first(p, ""), p / "trials" / "0099-copy"),
            "0099-copy: trial 1 exists twice",
        ),
    ],
)
def test_damage_is_one_error_that_names_the_place(
    tmp_path: Path, workflow: Workflow, damage: object, message: str
) -> None:
    path = synthetic.write(tmp_path, workflow)
    (path / "samples.parquet").unlink()
    damage(path)  # type: ignore[operator]
    with pytest.raises(BundleError, match=message) as caught:
        read_all(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def first(path: Path, name: str) -> Path:
    return min((path / "trials").iterdir()) / name


def edit(**fields: object) -> str:
    return json.dumps(json.loads(SAMPLE.model_dump_json()) | fields)


def read_all(path: Path) -> None:
    bundle = Bundle.open(path)
    assert bundle.workflow
    for trial in bundle.trials:
        trial.samples()


def test_a_huge_file_is_refused_and_not_read(tmp_path: Path, workflow: Workflow) -> None:
    path = synthetic.write(tmp_path, workflow)
    with (path / "manifest.json").open("r+b") as stream:
        stream.truncate(2**40)  # sparse
    with pytest.raises(BundleError, match="larger than 256 MiB"):
        Bundle.open(path)


def test_the_list_of_runs_passes_over_what_is_no_run(tmp_path: Path, workflow: Workflow) -> None:
    assert runs(tmp_path / "absent") == ()
    good = synthetic.write(tmp_path, workflow, void={1: "lost"})
    (tmp_path / "notes").mkdir()
    (tmp_path / "README").write_text("")
    bad = tmp_path / "damaged"
    bad.mkdir()
    (bad / "manifest.json").write_text("nothing")
    listed = {info.run: info for info in runs(tmp_path)}
    assert set(listed) == {good.name, "damaged"}
    assert listed["damaged"].state == "damaged"
    assert "manifest.json" in listed["damaged"].problems[0]
    info = listed[good.name]
    assert (info.state, info.planned, info.trials, info.void, info.valid) == (
        "done",
        6,
        6,
        1,
        False,
    )


def test_a_run_without_a_valid_trial_of_a_variant_is_not_valid(
    tmp_path: Path, workflow: Workflow
) -> None:
    plan = synthetic.manifest(workflow)
    lost = {p.trial: "late" for p in plan.order if p.variant == {"transport": "ipomp"}}
    path = synthetic.write(tmp_path, workflow, void=lost)
    assert Bundle.open(path).problems() == ("no valid trial of ipomp",)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({}, "0007-all"),
        ({"rates": "1:2:4:33", "scheme": "UDP over IPoMP"}, "0007-1-2-4-33-udp-over-ipomp"),
        ({"x": "../../etc/passwd"}, "0007-etc-passwd"),
        ({"x": "é\n\0"}, "0007-"),
        ({"x": "a" * 300}, "0007-" + "a" * 60),
    ],
)
def test_names_of_trial_folders_are_file_names(labels: dict[str, str], name: str) -> None:
    assert folder_name(7, labels) == name


def test_a_void_trial_keeps_its_first_reason(tmp_path: Path, workflow: Workflow) -> None:
    with begin(tmp_path, workflow) as run:
        with run.trial(1, {"transport": "ipomp"}, 1) as trial:
            trial.void("gateway b1 died")
            trial.void("iperf3: connection reset")
        run.finish("done")
    assert Bundle.open(run.path).trials[0].record.reason == "gateway b1 died"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e200])
def test_a_number_without_bounds_is_no_sample(value: float) -> None:
    with pytest.raises(ValueError, match="Input should be"):
        Sample(measurement="m", metric="x", unit="1", value=value)
