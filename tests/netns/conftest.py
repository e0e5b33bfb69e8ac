"""Fixtures for tests on real network namespaces."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disturbance import run_undisturbed

from hawser.driver.local import LocalDriver, LocalLab
from hawser.overlay.plan import NetworkPlan

TOGETHER = {"test_bench_lab.py", "test_function_behaviours.py", "test_run_finished.py"}
"""Files of which one process runs all: one test removes what another left, or all need one run, or
one lab."""

_numbers = itertools.count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401
    """Give each process of pytest-xdist the next test, or file of `TOGETHER`.

    Its own `--dist loadgroup` does nothing with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if Path(file).name in TOGETHER else nodeid

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Judge what measures only by what was not disturbed."""
    if item.get_closest_marker("measures") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    run_undisturbed(item, nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture
def driver() -> LocalDriver:
    return LocalDriver()


@pytest.fixture
def lab_name(driver: LocalDriver) -> Iterator[str]:
    """A name that no other test has; what stands under it afterwards is removed."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    yield name
    driver.destroy(name)


@pytest.fixture
def deploy(driver: LocalDriver, lab_name: str) -> Iterator[Callable[[NetworkPlan], LocalLab]]:
    """Deploy plans (one after the other is fine: each lab is removed at the end)."""
    labs: list[LocalLab] = []

    def make(plan: NetworkPlan) -> LocalLab:
        labs.append(driver.deploy(f"{lab_name}-{len(labs)}" if labs else lab_name, plan))
        return labs[-1]

    yield make
    for lab in labs:
        lab.destroy()
