"""What a finished run leaves, and the reports that are made of it.

   h1: p ----x, 20 Mbit/s (variant slow: 5)---- p :h2

The workflow is that of lab/run/cable.py; all tests share one run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hawser.store import Bundle
from lab.run import cli
from lab.run.cable import only_bundle, write
from lab.run.cli import hawser, trials

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A whole run: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder)
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
    assert 0 < rows["slow", "goodput"]["median"] < 5
    assert not cli.remains(cli.lab_of(bundle))
    _check_bundle(bundle)


def _check_bundle(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["state"] == "done"
    assert {"iperf3", "ping", "ip"} <= manifest["tools"].keys()
    assert "net.ipv4.tcp_rmem" in manifest["kernel"]
    written = bundle.parents[1] / "cable.yaml"
    assert (bundle / "workflow.yaml").read_text() == written.read_text()
    assert (bundle / "report.html").stat().st_size > 10_000
    assert (bundle / "samples.parquet").exists()
    raw = {path.name for path in bundle.glob("trials/0001-*/raw/*")}
    assert raw == {"rtt.ping.txt", "tcp.iperf3.json", "tcp.iperf3-server.json"}
    settings = json.loads(next(bundle.glob("trials/0001-*/config/kernel.json")).read_text())
    assert settings.keys() == {"h1", "h2"}
    assert settings["h1"]["net.ipv4.tcp_no_metrics_save"] == "1"  # the machine itself has 0
    assert [trial["valid"] for trial in trials(bundle)] == [True] * 4


def test_counters_agree_with_what_was_measured(finished: tuple[Path, dict[str, Any]]) -> None:
    trial = next(trial for trial in Bundle.open(finished[0]).trials if trial.record.valid)
    found = {
        (s.measurement, s.metric, s.subject): s.value for s in trial.samples() if s.time is None
    }
    sent = found["passive", "tx_bytes", "port:h1.p"]
    payload = found["tcp", "goodput", ""] * 1e6 / 8
    assert payload < sent < 2 * payload + 200_000  # headers, echoes, retransmissions
    assert found["passive", "rx_bytes", "port:h2.p"] == sent
    assert found["passive", "tx_bytes", "link:x:forward"] == pytest.approx(sent, rel=0.01)
    assert found["passive", "cpu", "machine"] > 0


def test_a_resume_of_a_changed_workflow_is_refused(finished: tuple[Path, dict[str, Any]]) -> None:
    bundle, folder = finished[0], finished[0].parents[1]
    changed = hawser("run", "cable.yaml", "--only", "fast", "--resume", bundle, cwd=folder)
    assert changed.returncode == 2
    assert "made from another workflow" in changed.stderr
    before = trials(bundle)
    same = hawser("run", "cable.yaml", "--resume", bundle, cwd=folder)
    assert same.returncode == 0, same.stderr
    assert trials(bundle) == before


FORMS = {"html": "<!doctype html>", "md": "# ", "json": "{", "csv": "v_rate,", "png": "\ufffdpng"}


def test_results_in_every_form(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    bundle, folder = finished[0], finished[0].parents[1]
    for form, beginning in FORMS.items():
        target = tmp_path / f"out.{form}"
        assert hawser("report", bundle.name, "-o", target, cwd=folder).returncode == 0
        head = target.read_bytes()[:20].decode(errors="replace").lower()
        assert head.startswith(beginning), form
    assert "Goodput, Mbit/s" in hawser("report", "latest", cwd=folder).stdout
    again = shutil.copytree(bundle, tmp_path / "again" / bundle.name)
    compared = hawser("compare", bundle, again, "--json", cwd=folder)
    assert len(json.loads(compared.stdout)["runs"]) == 2
    asked = hawser("query", "latest", "SELECT count(*) AS n FROM trials", "--json", cwd=folder)
    assert json.loads(asked.stdout) == [{"n": 4}]
    listed = json.loads(hawser("runs", "--json", cwd=folder).stdout)
    assert [run["run"] for run in listed] == [bundle.name]
