"""How tests on real network namespaces are handed to the processes that run them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hawser.node.turn import VARIABLE
from lab.fixtures import deploy, driver, lab_name

# Tests of correctness run side by side, and judge no figure: they take no turns with measurements.
os.environ[VARIABLE] = "tests"

__all__ = ["deploy", "driver", "lab_name"]

TOGETHER = (
    "bench/test_lab.py",
    "function/test_behaviours.py",
    "run/test_attacks.py",
    "run/test_finished.py",
)
"""Files whose tests one process runs in turn: one test removes what another left, or all share a
run or a lab."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401
    """Give each process of pytest-xdist the next test, or file of `TOGETHER`.

    Its own `--dist loadgroup` does nothing with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

    return Scheduling(config, log)
