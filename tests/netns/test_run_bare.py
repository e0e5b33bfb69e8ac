"""Whole runs over a bare cable, as a user starts them: h1 --20 Mbit/s-- h2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import run_cli
from run_cli import hawser, start, trials, until

from hawser.store import Bundle

pytestmark = pytest.mark.root

WORKFLOW = """
hawser: 1
name: {name}
title: A cable at two rates
topology:
  nodes: [h1, h2]
  links: {{x: {{ends: [h1.p, h2.p], rate: 20 Mbit/s}}}}
measurements:
  rtt: {{probe: ping, from: h1, to: h2, count: 5, interval: 10 ms}}
  tcp: {{probe: iperf3, from: h1, to: h2, duration: 1 s, warmup: 0 s}}
variants:
  product:
    rate: {{slow: {{topology.links.x.rate: 5 Mbit/s}}, fast: {{}}}}
settle: 0 s
repeat: 2
assert:
  - {{variant: {{rate: fast}}, metric: goodput, at_least: 17, at_most: 20}}
  - {{variant: {{rate: slow}}, metric: goodput, at_least: 3, at_most: 5}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cable.yaml"
    path.write_text(WORKFLOW.format(name=f"t{os.getpid()}"))
    return path


def only_bundle(folder: Path) -> Path:
    (bundle,) = run_cli.bundles(folder)
    return bundle


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A whole run: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "cable.yaml").write_text(WORKFLOW.format(name=f"t{os.getpid()}"))
    done = hawser("run", "cable.yaml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_bundle(folder), json.loads(done.stdout)


def test_a_run_measures_reports_and_leaves_nothing(
    finished: tuple[Path, dict[str, Any]],
) -> None:
    bundle, document = finished
    assert (document["valid"], document["passed"]) == (True, True)
    rows = {
        (row["variant"]["rate"], row["metric"]): row
        for row in document["rows"]
        if row["measurement"] == "tcp"
    }
    assert rows["slow", "goodput"]["n"] == 2
    assert rows["slow", "goodput"]["unit"] == "Mbit/s"
    assert rows["slow", "goodput"]["direction"] == "forward"
    assert 3 < rows["slow", "goodput"]["median"] < 5
    assert not run_cli.remains(run_cli.lab_of(bundle))
    _check_bundle(bundle)


def _check_bundle(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["state"] == "done"
    assert {"iperf3", "ping", "ip"} <= manifest["tools"].keys()
    assert "net.ipv4.tcp_rmem" in manifest["kernel"]
    assert (bundle / "workflow.yaml").read_text().startswith("\nhawser: 1")
    assert (bundle / "report.html").stat().st_size > 10_000
    assert (bundle / "samples.parquet").exists()
    raw = {path.name for path in bundle.glob("trials/0001-*/raw/*")}
    assert raw == {"rtt.ping.txt", "tcp.iperf3.json", "tcp.iperf3-server.json"}
    settings = json.loads(next(bundle.glob("trials/0001-*/config/kernel.json")).read_text())
    assert settings.keys() == {"h1", "h2"}
    assert settings["h1"]["net.ipv4.tcp_no_metrics_save"] == "1"  # the machine itself has 0
    assert [trial["valid"] for trial in trials(bundle)] == [True] * 4


def test_counters_agree_with_what_was_measured(finished: tuple[Path, dict[str, Any]]) -> None:
    trial = Bundle.open(finished[0]).trials[0]
    found = {
        (s.measurement, s.metric, s.subject): s.value for s in trial.samples() if s.time is None
    }
    sent = found["passive", "tx_bytes", "port:h1.p"]
    payload = found["tcp", "goodput", ""] * 1e6 / 8
    assert payload < sent < 2 * payload + 200_000  # headers, echoes, retransmissions
    assert found["passive", "rx_bytes", "port:h2.p"] == sent
    assert found["passive", "tx_bytes", "link:x:forward"] == pytest.approx(sent, rel=0.01)
    assert found["passive", "cpu", "machine"] > 0


def test_people_see_a_table_and_where_the_report_is(file: Path, tmp_path: Path) -> None:
    done = hawser("run", file, "--repeat", 1, "--only", "rate=fast", cwd=tmp_path)
    bundle = only_bundle(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "goodput Mbit/s" in done.stdout
    assert "assertion holds" in done.stdout
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"runs/{bundle.name}: 1 trial")
    assert lines[-1] == f"Report: runs/{bundle.name}/report.html"
    assert len(lines) == 2


EVENTS = """
variants: null
assert: null
repeat: 1
measurements: {rtt: null, tcp: {duration: 3 s}}
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
    # Nothing was left, so nothing came back before the cable did.
    assert found["failover_time"] == pytest.approx(1000 * (up["at"] - down["at"]), abs=1)
    assert 0 < found["reversion_time"] < 3000
    assert found["goodput_min"] < 15  # of a second in which 0.4 s are missing, at 20 Mbit/s


def test_an_assertion_that_fails_is_exit_code_1(file: Path, tmp_path: Path) -> None:
    done = hawser(
        "run", file, "--repeat", 1, "--only", "fast", "--set", "assert.0.at_most=18", cwd=tmp_path
    )
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
    assert not run_cli.bundles(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_but_a_run_to_resume(
    file: Path, tmp_path: Path, number: int
) -> None:
    run = start("run", file, "--json", cwd=tmp_path)
    until(lambda: len(run_cli.bundles(tmp_path)) == 1 and trials(only_bundle(tmp_path)))
    os.killpg(run.pid, number)  # as a terminal does: to all of the group
    out, err = run.communicate(timeout=30)
    assert run.returncode == 1
    bundle = only_bundle(tmp_path)
    said = json.loads(out)
    assert (said["error"], said["resume"]) == ("interrupted", f"runs/{bundle.name}")
    assert "Traceback" not in err
    assert not run_cli.remains(run_cli.lab_of(bundle))
    kept = trials(bundle)
    _resume_and_check(tmp_path, bundle, kept)


def test_a_killed_run_is_resumed_and_nothing_counted_twice(file: Path, tmp_path: Path) -> None:
    run = start("run", file, cwd=tmp_path)
    until(lambda: len(run_cli.bundles(tmp_path)) == 1 and trials(only_bundle(tmp_path)))
    bundle = only_bundle(tmp_path)
    until(lambda: run_cli.remains(run_cli.lab_of(bundle)))
    run.kill()
    run.communicate()
    assert run_cli.remains(run_cli.lab_of(bundle)), "it was killed between two trials"
    kept = trials(bundle)
    assert hawser("runs", cwd=tmp_path).stdout.count("incomplete") == 1
    _resume_and_check(tmp_path, bundle, kept)
    assert not run_cli.remains(run_cli.lab_of(bundle))


def _resume_and_check(folder: Path, bundle: Path, kept: list[dict[str, object]]) -> None:
    done = hawser("run", "--resume", bundle, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert run_cli.bundles(folder) == [bundle]
    found = trials(bundle)
    assert 1 <= len(kept) < len(found) == 4
    assert found[: len(kept)] == kept
    places = Counter((trial["variant"]["rate"], trial["repeat"]) for trial in found)
    assert set(places.values()) == {1}
    rows = [row for row in json.loads(done.stdout)["rows"] if row["metric"] == "goodput"]
    assert [row["n"] for row in rows] == [2, 2]


def test_a_resume_of_a_changed_workflow_is_refused(finished: tuple[Path, dict[str, Any]]) -> None:
    bundle, folder = finished[0], finished[0].parents[1]
    changed = hawser("run", "cable.yaml", "--only", "fast", "--resume", bundle, cwd=folder)
    assert changed.returncode == 2
    assert "made from another workflow" in changed.stderr
    before = trials(bundle)
    same = hawser("run", "cable.yaml", "--resume", bundle, cwd=folder)
    assert same.returncode == 0, same.stderr
    assert trials(bundle) == before


def test_a_tool_that_dies_makes_its_trial_void(file: Path, tmp_path: Path) -> None:
    run = start("run", file, "--only", "fast", "--repeat", 1, cwd=tmp_path)
    until(lambda: run_cli.bundles(tmp_path))
    lab = run_cli.lab_of(only_bundle(tmp_path))
    until(lambda: run_cli.clients(lab))
    os.kill(run_cli.clients(lab)[0], signal.SIGKILL)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    void, again = trials(only_bundle(tmp_path))
    assert (void["valid"], again["valid"]) == (False, True)
    assert void["reason"].startswith("iperf3 h1 -> h2: iperf3's client left no readable result")
    assert "is void: iperf3 h1 -> h2" in err
    assert (again["variant"], again["repeat"]) == (void["variant"], void["repeat"])


FORMS = {"html": "<!doctype html>", "md": "# ", "json": "{", "csv": "v_rate,", "png": "\ufffdpng"}


def test_results_in_every_form(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    bundle, folder = finished[0], finished[0].parents[1]
    for form, beginning in FORMS.items():
        target = tmp_path / f"out.{form}"
        assert hawser("report", bundle.name, "-o", target, cwd=folder).returncode == 0
        head = target.read_bytes()[:20].decode(errors="replace").lower()
        assert head.startswith(beginning), form
    assert "Goodput, Mbit/s" in hawser("report", "latest", cwd=folder).stdout
    compared = hawser("compare", bundle, "latest", "--json", cwd=folder)
    assert len(json.loads(compared.stdout)["runs"]) == 2
    asked = hawser("query", "latest", "SELECT count(*) AS n FROM trials", "--json", cwd=folder)
    assert json.loads(asked.stdout) == [{"n": 4}]
    listed = json.loads(hawser("runs", "--json", cwd=folder).stdout)
    assert [run["run"] for run in listed] == [bundle.name]


ALL = """
mount -t tmpfs none /run/netns && mkdir -p /run/hawser && mount -t tmpfs none /run/hawser
set -e
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
        env=run_cli.environment(),
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
