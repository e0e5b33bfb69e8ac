"""Whole runs over one cable, as a user starts them: they end, are interrupted, and are resumed.

   h1: p ----x, 20 Mbit/s (variant slow: 5)---- p :h2

The workflow is that of lab/run/cable.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hawser.store import Bundle
from lab.run import cli
from lab.run.cable import only_bundle, write
from lab.run.cli import hawser, start, trials
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path)


def test_people_see_a_table_and_where_the_report_is(file: Path, tmp_path: Path) -> None:
    done = hawser("run", file, "--repeat", 1, "--only", "rate=fast", cwd=tmp_path)
    bundle = only_bundle(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "goodput Mbit/s" in done.stdout
    assert "assertion undecided, passes: median goodput" in done.stdout  # of one trial
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"runs/{bundle.name}: 1 trial")
    assert lines[-1] == f"Report: runs/{bundle.name}/report.html"
    assert len(lines) == 2


EVENTS = """
variants: null
assert: null
repeat: 1
measurements: {rtt: null, tcp: {duration: 4 s}}
events:
  - {at: 800 ms, element: "link:x", change: {up: false}}
  - {at: 1200 ms, element: "link:x", change: {up: true}}
"""


def test_an_outage_is_timed(file: Path, tmp_path: Path) -> None:
    outage = tmp_path / "outage.yaml"
    outage.write_text(f"extends: cable.yaml\nname: o{os.getpid()}\n{EVENTS}")
    assert hawser("run", outage.name, cwd=tmp_path).returncode == 0
    trial = next(t for t in Bundle.open(only_bundle(tmp_path)).trials if t.record.valid)
    found = {sample.metric: sample.value for sample in trial.samples() if not sample.subject}
    down, up = json.loads((trial.path / "raw" / "events.json").read_text())
    # No traffic was left, so none returned before the cable did.
    assert found["failover_time"] == pytest.approx(1000 * (up["at"] - down["at"]), abs=1)
    assert 0 < found["reversion_time"] <= 4000
    # A second in which so much was missing, and what a queue held before.
    assert found["goodput_min"] < 20 * (1 - min(up["at"] - down["at"], 1)) + 3
    # Events are never early, and are noted when they are carried out.
    assert [event["planned"] for event in (down, up)] == [0.8, 1.2]
    assert all(event["at"] >= event["planned"] for event in (down, up))


def test_an_assertion_that_fails_is_exit_code_1(file: Path, tmp_path: Path) -> None:
    more = ("--set", "assert.0.at_least=30", "--set", "assert.0.at_most=40")  # than the cable has
    done = hawser("run", file, "--repeat", 3, "--only", "fast", *more, cwd=tmp_path)
    assert done.returncode == 1
    assert "assertion failed: median goodput" in done.stdout


def test_a_machine_without_the_means_is_exit_code_3(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAWSERD", "/nowhere/hawserd")
    jitter = ("topology.links.x.delay=5 ms", "topology.links.x.jitter=1 ms")  # beyond netem
    done = hawser("run", file, "--set", jitter[0], "--set", jitter[1], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "hawserd is not built" in done.stderr
    assert not cli.bundles(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_but_a_run_to_resume(
    file: Path, tmp_path: Path, number: int
) -> None:
    run = start("run", file, "--json", cwd=tmp_path)
    until(lambda: len(cli.bundles(tmp_path)) == 1 and trials(only_bundle(tmp_path)))
    os.killpg(run.pid, number)  # as a terminal does: to the whole process group
    out, err = run.communicate(timeout=240)
    assert run.returncode == 1
    bundle = only_bundle(tmp_path)
    said = json.loads(out)
    assert (said["error"], said["resume"]) == ("interrupted", f"runs/{bundle.name}")
    assert "Traceback" not in err
    assert not cli.remains(cli.lab_of(bundle))
    finished = trials(bundle)
    _resume_and_check(tmp_path, bundle, finished)


def test_a_killed_run_is_resumed_and_nothing_counted_twice(file: Path, tmp_path: Path) -> None:
    run = start("run", file, cwd=tmp_path)
    until(lambda: len(cli.bundles(tmp_path)) == 1 and trials(only_bundle(tmp_path)))
    bundle = only_bundle(tmp_path)
    until(lambda: cli.remains(cli.lab_of(bundle)))
    run.kill()
    run.communicate()
    assert cli.remains(cli.lab_of(bundle)), "it was killed between two trials"
    finished = trials(bundle)
    assert hawser("runs", cwd=tmp_path).stdout.count("incomplete") == 1
    _resume_and_check(tmp_path, bundle, finished)
    assert not cli.remains(cli.lab_of(bundle))


def _resume_and_check(folder: Path, bundle: Path, finished: list[dict[str, object]]) -> None:
    done = hawser("run", "--resume", bundle, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert cli.bundles(folder) == [bundle]
    found = trials(bundle)
    assert 1 <= len(finished) < len(found) == 4
    assert found[: len(finished)] == finished
    places = Counter((trial["variant"]["rate"], trial["repeat"]) for trial in found)
    assert set(places.values()) == {1}
    rows = [row for row in json.loads(done.stdout)["rows"] if row["metric"] == "goodput"]
    assert [row["n"] for row in rows] == [2, 2]


def test_a_tool_that_dies_makes_its_trial_void(file: Path, tmp_path: Path) -> None:
    run = start("run", file, "--only", "fast", "--repeat", 1, cwd=tmp_path)
    until(lambda: cli.bundles(tmp_path))
    lab = cli.lab_of(only_bundle(tmp_path))
    until(lambda: cli.clients(lab))
    os.kill(cli.clients(lab)[0], signal.SIGKILL)
    _, err = run.communicate(timeout=240)
    assert run.returncode == 0, err
    void, again = trials(only_bundle(tmp_path))
    assert (void["valid"], again["valid"]) == (False, True)
    assert void["reason"].startswith("iperf3 h1 -> h2: iperf3's client left no readable result")
    assert "is void: iperf3 h1 -> h2" in err
    assert (again["variant"], again["repeat"]) == (void["variant"], void["repeat"])


ALL = """
set -e
mkdir -p /run/hawser
for all in /run/netns /run/hawser /sys/fs/cgroup; do mount -t tmpfs none $all; done
hawser() {{ {python} -m hawser.cli "$@"; }}
hawser deploy cable.yaml --variant slow --name one >/dev/null
hawser deploy cable.yaml --variant fast --name two >/dev/null
ip netns add hawser.three.h1
mkdir -p /run/hawser/four/daemons
hawser inspect --json
hawser destroy --all --json
hawser inspect --json
ls /run/netns /run/hawser
"""


def test_all_labs_and_remains_are_removed(file: Path, tmp_path: Path) -> None:
    """In a mount namespace of its own, where no other labs can be seen."""
    script = ALL.format(python=sys.executable)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=tmp_path,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    decoder, documents, text = json.JSONDecoder(), [], done.stdout
    for _ in range(3):
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    before, destroyed, after = documents
    states = {lab["name"]: lab["state"] for lab in before}
    assert states == {
        "four": "remains",
        "one": "unsupervised",
        "three": "remains",
        "two": "unsupervised",
    }
    assert destroyed == {"destroyed": ["four", "one", "three", "two"]}
    assert after == []
    assert text.split() == ["/run/hawser:", "/run/netns:"]
