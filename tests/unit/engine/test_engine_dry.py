"""Workflows run to their end on a driver of another kind, through the unchanged engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_fakes import Silent

from hawser.engine import select, source
from hawser.engine.execute import Request, execute
from hawser.engine.signals import StopRequest
from hawser.overlay.lab.plan import NetworkPlan
from hawser.report.build import build
from hawser.report.data import document
from hawser.report.render import render
from hawser.spec.units import Duration
from hawser.store import Bundle
from lab import ROOT
from lab.dry.answers import RATE, REQUESTS, RTT_MS
from lab.dry.driver import SIMULATED, DryDriver


def carried_out(folder: Path, name: str, driver: DryDriver, *only: str) -> Bundle:
    """Run a workflow, or some of its variants, once and briefly."""
    read = source.read(ROOT / "workflows" / f"{name}.yaml", ["repeat=1", "settle=0 s"])
    chosen = select.only(read.workflow, only) if only else read.workflow
    wanted = select.lasting(chosen, Duration(1))
    request = Request(wanted, read.files, folder, None, ["test"])
    bundle = execute(request, driver, Silent(), StopRequest())
    assert [trial.record.reason for trial in bundle.trials] == [None] * len(wanted.variants)
    assert bundle.state == "done", bundle.problems()
    return bundle


def means(bundle: Bundle, metric: str) -> list[float]:
    rows = document(build(bundle))["rows"]
    return [row["mean"] for row in rows if row["metric"] == metric]


@pytest.fixture
def driver() -> DryDriver:
    return DryDriver()


def test_multipath_transfers_run_on_a_dry_driver(tmp_path: Path, driver: DryDriver) -> None:
    bundle = carried_out(tmp_path, "mms-table1", driver)
    assert len(driver.deployed) == len(bundle.trials) == 32
    assert set(means(bundle, "goodput")) == {RATE / 1e6}
    assert {"gateway"} == set().union(*map(_roles, driver.deployed))
    clients = [words for words in driver.commands if "-c" in words]
    assert len(clients) == 32
    assert {words[0] for words in clients} == {"iperf3", "mptcpize"}


def test_chains_run_on_a_dry_driver(tmp_path: Path, driver: DryDriver) -> None:
    bundle = carried_out(tmp_path, "sfc-fig9", driver)
    assert len(bundle.trials) == 7
    assert means(bundle, "rtt") == [RTT_MS] * 7
    assert means(bundle, "requests") == [REQUESTS] * 7
    assert all("sff" in _roles(plan) for plan in driver.deployed)
    assert "firewall" in set().union(*map(_roles, driver.deployed))


def _roles(plan: NetworkPlan) -> set[str]:
    return {daemon.role for daemon in plan.daemons}


def test_it_is_asked_for_each_thing_in_its_turn(tmp_path: Path, driver: DryDriver) -> None:
    bundle = carried_out(tmp_path, "sfc-fig8", driver, "together", "1,2")
    lab = driver.asked[1].partition(" ")[2]
    trial = [f"deploy {lab}", f"collect {lab}", f"destroy {lab}"]
    assert driver.asked == ["acquire", *trial, *trial, "release"]
    logs = sorted(path.name for path in (bundle.trials[0].path / "logs").iterdir())
    assert "n1.log" in logs


def test_results_say_that_they_are_simulated(tmp_path: Path, driver: DryDriver) -> None:
    bundle = carried_out(tmp_path, "sfc-fig8", driver, "together", "1")
    assert bundle.manifest.machine.cpu == SIMULATED
    assert SIMULATED in render(build(bundle), "html").decode()
