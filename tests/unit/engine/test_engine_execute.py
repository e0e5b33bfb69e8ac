"""Whole runs in a thread of their own, and several in one process."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_fakes import FakeDriver, Silent, quick, workflow

from hawser.engine.errors import Interrupted
from hawser.engine.execute import Request, execute
from hawser.engine.signals import ProcessSignals, StopRequest
from hawser.spec.units import Duration
from hawser.spec.workflow import Workflow
from hawser.store import Bundle


def request(folder: Path, wanted: Workflow, resume: Path | None = None) -> Request:
    wanted = wanted.model_copy(update={"settle": Duration(0)})
    return Request(wanted, {"workflow.yaml": b"hawser: 1"}, folder, resume, ["test"])


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    quick(monkeypatch)
    return FakeDriver(tmp_path / "labs")


def test_one_process_carries_out_several_runs_in_turn(tmp_path: Path, driver: FakeDriver) -> None:
    before = signal.getsignal(signal.SIGTERM)
    names = ("a", "b", "c")
    found = [
        execute(request(tmp_path, workflow(name)), driver, Silent(), ProcessSignals())
        for name in names
    ]
    assert [bundle.state for bundle in found] == ["done"] * 3
    assert len({bundle.path for bundle in found}) == 3
    assert {t.record.variant["which"] for bundle in found for t in bundle.trials} == set(names)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not driver.standing
    assert driver.acquired == 0


def test_a_run_needs_not_be_in_the_main_thread(tmp_path: Path, driver: FakeDriver) -> None:
    with ThreadPoolExecutor(1) as pool:
        runs = [
            pool.submit(execute, request(tmp_path, workflow(name)), driver, Silent(), StopRequest())
            for name in ("a", "b")
        ]
        assert [run.result().state for run in runs] == ["done", "done"]


def test_a_run_in_a_thread_ends_when_asked_and_can_be_resumed(
    tmp_path: Path, driver: FakeDriver
) -> None:
    asked, wanted = StopRequest(), workflow("a", "b")
    seen = Asking(asked, after=2)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(execute, request(tmp_path, wanted), driver, seen, asked)
        with pytest.raises(Interrupted) as told:
            run.result()
    assert not driver.standing
    assert driver.acquired == 0
    path = told.value.resume
    assert path is not None
    assert Bundle.open(path).state == "incomplete"
    assert len(Bundle.open(path).trials) == 2
    again = execute(request(tmp_path, wanted, path), driver, Silent(), StopRequest())
    assert (again.state, len(again.trials)) == ("done", 6)


class Asking(Silent):
    """Asks the run to end, from a thread of its own, when so many trials are done."""

    def __init__(self, request: StopRequest, after: int) -> None:
        super().__init__()
        self._request = request
        self._after = after

    def stage(self, name: str) -> None:
        if name == "settle" and len(self.trials) > self._after:
            asking = threading.Thread(target=self._request.stop)
            asking.start()
            asking.join()
