"""How the command line ends: exit codes, one clear message, JSON where JSON was asked for."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hawser.cli import failure, labs, main, results
from hawser.driver.base import MissingCapability
from hawser.engine.errors import LackingError
from hawser.node.base import NodeError

MALFORMED = sorted((Path(__file__).parents[1] / "spec" / "malformed").glob("*.yaml"))
GOOD = """
hawser: 1
name: good
title: Good
topology: {nodes: [h1, h2], links: {x: {ends: [h1.p, h2.p]}}}
measurements: {rtt: {probe: ping, from: h1, to: h2}}
variants:
  product: {size: {small: {measurements.rtt.size: 8}, large: {measurements.rtt.size: 900}}}
repeat: 2
"""

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
    "PYTHONPATH": os.pathsep.join(sys.path)
}

Said = tuple[int, str, str]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """The command line ends its process, so it need not put back how signals are handled."""
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def hawser(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Said:
    with pytest.raises(SystemExit) as ended:
        main.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_there_are_enough_malformed_workflows() -> None:
    assert len(MALFORMED) >= 20


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: path.stem)
@pytest.mark.parametrize("verb", ["validate", "run"])
def test_a_malformed_workflow_is_refused_with_the_place(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    path: Path,
    verb: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = hawser(capsys, verb, path)
    assert (code, out) == (2, "")
    assert re.match(rf"{re.escape(str(path))}:\d+:\d+: ", err)
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir()), "nothing may be half done"


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: path.stem)
def test_with_json_the_mistakes_are_a_document(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    code, out, _ = hawser(capsys, "validate", path, "--json")
    assert code == 2
    errors = json.loads(out)["errors"]
    assert errors
    assert all(error["line"] >= 1 and error["message"] for error in errors)


def test_a_good_workflow_is_planned(capsys: pytest.CaptureFixture[str], good: Path) -> None:
    code, out, _ = hawser(capsys, "plan", good, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["variants"], document["trials"]) == (2, 4)
    assert [trial["trial"] for trial in document["order"]] == [1, 2, 3, 4]
    assert document["plans"][0]["network"]["addresses"]["h1"]


def test_a_plan_for_people_names_nodes_and_order(
    capsys: pytest.CaptureFixture[str], good: Path
) -> None:
    code, out, _ = hawser(capsys, "plan", good, "--only", "small")
    assert code == 0
    assert "Order of trials (seed 1): 1 | 1" in out
    assert re.search(r"1 +small +A +none +\d+ s", out)
    assert re.search(r"h1 +host +p 10\.", out)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "FILE"),
        (
            ["--only", "medium"],
            "found 'medium', expected a value of a variant: size=large, size=small",
        ),
        (["--only", "small", "--only", "large"], "no variant satisfies all"),
        (["--repeat", "0"], "repeat"),
        (["--repeat", "two"], "--repeat"),
        (["--duration", "0"], "--duration"),
        (["--duration", "1.5"], "--duration"),
        (["--set", "nonsense"], "--set nonsense"),
        (["--set", "topology.links.x.rate=fast"], "topology.links.x.rate"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_bad_options_are_told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    good: Path,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = [str(good)] if arguments else []
    code, out, err = hawser(capsys, "run", *file, *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert [path.name for path in tmp_path.iterdir()] == ["good.yaml"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "latest"),
        ("report", "nothing-20260101T000000-0000"),
        ("compare", "latest"),
        ("query", "latest", "SELECT 1"),
        ("run", "--resume", "nowhere"),
        ("destroy",),
        ("inspect", "no-such-lab"),
        ("exec", "no-such-lab/h1", "--", "true"),
        ("deploy", "good.yaml"),
        ("deploy", "good.yaml", "--variant", "small", "--name", "Not a name"),
        ("deploy", "good.yaml", "--variant", "small", "--variant", "no-such-label"),
    ],
)
def test_what_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    good: Path,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = hawser(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err


def test_a_mistake_of_the_program_is_told_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("hawser.engine.plan.plan", lambda *_: 1 // 0)
    code, out, err = hawser(capsys, "plan", good)
    assert (code, out) == (failure.INTERNAL, "")
    assert "Traceback" not in err
    (file,) = tmp_path.glob("hawser-error-*.txt")
    assert str(file) in err
    assert "ZeroDivisionError" in file.read_text()


@pytest.mark.parametrize("name", ["chain-compare", "aws-sfc-sydney", "mms-fig6"])
def test_networks_of_shipped_workflows_are_shown(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    workflow = Path(__file__).parents[3] / "workflows" / f"{name}.yaml"
    code, out, _ = hawser(capsys, "plan", workflow)
    assert code == 0
    assert "Network A" in out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LackingError(["program iperf3: install the Debian package iperf3"]), 3),
        (MissingCapability("netem is not in this kernel"), 3),
        (NodeError("h1: ping: failed"), 1),
        (KeyboardInterrupt(), 1),
        (OSError(errno.ENOSPC, "No space left on device", "runs/x/samples.jsonl"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    found = failure.explain(error)
    assert found.code == code
    assert found.text
    assert json.loads(json.dumps(found.document))["error"]


@pytest.mark.parametrize("verb", sorted(main.EXAMPLES))
def test_help_has_examples(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = hawser(capsys, verb, "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"hawser {verb}" in out


def test_examples_name_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    helps: dict[tuple[str, ...], str] = {}
    for example in itertools.chain.from_iterable(main.EXAMPLES.values()):
        words = tuple(example.split()[1:3])
        known = helps.get(words)
        if known is None:
            # The second word is a command of its own (`runs archive`) or the first one's argument.
            known = helps[words] = "".join(
                hawser(capsys, *words[:depth], "--help")[1].partition("Examples:")[0]
                for depth in (1, 2)
            )
        for option in re.findall(r"(--[a-z]+|\s-o)\b", example):
            assert option.strip() in known, example


def test_help_comes_at_once() -> None:
    """Counted in processor time: the wall clock would measure what else the machine does."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "hawser.cli", "--help"],
            check=True,
            stdout=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < 0.5


def test_heavy_libraries_are_loaded_when_needed() -> None:
    code = (
        "import sys, hawser.cli.main; heavy = 'pydantic numpy duckdb pyroute2 httpx'.split();"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert done.stdout.strip() == "[]"


def test_formats_of_the_command_line_are_those_of_the_reports() -> None:
    from hawser.report.compare import FORMS
    from hawser.report.render import FORMATS

    assert {form.value for form in results.ReportFormat} == set(FORMATS)
    assert {form.value for form in results.ComparisonFormat} == set(FORMS)


def test_a_daemon_that_does_not_answer_is_described() -> None:
    from hawser.engine.labs import DaemonInfo

    info = DaemonInfo("gw1", "gw1", 7, 0, None, "no control socket")
    assert labs.describe(info) == "does not answer: no control socket"


def test_an_output_that_is_closed_is_no_internal_error(good: Path) -> None:
    plan = subprocess.Popen(
        [sys.executable, "-m", "hawser.cli", "plan", str(good), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert plan.stdout is not None
    plan.stdout.close()
    assert plan.stderr is not None
    with plan.stderr as errors:
        assert errors.read() == b""
    assert plan.wait() in (0, 1)


def test_a_terminal_that_knows_few_characters_is_no_error(good: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hawser.cli", "plan", str(good)],
        capture_output=True,
        env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        check=True,
    )
    assert b"2 variants ? 2 = 4 trials" in done.stdout
