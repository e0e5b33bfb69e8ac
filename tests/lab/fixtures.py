"""Fixtures of the tests that deploy labs by the local driver."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from hawser.driver.local import LocalDriver, LocalLab
from hawser.overlay.lab.emulator import realised
from hawser.overlay.lab.plan import NetworkPlan

_numbers = itertools.count()


@pytest.fixture
def driver() -> LocalDriver:
    return LocalDriver()


@pytest.fixture
def lab_name(driver: LocalDriver) -> Iterator[str]:
    """A unique lab name; whatever is left of that lab is removed afterwards."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    yield name
    driver.destroy(name)


@pytest.fixture
def deploy(driver: LocalDriver, lab_name: str) -> Iterator[Callable[[NetworkPlan], LocalLab]]:
    """Deploy plans with what this machine has; each lab is removed at the end."""
    labs: list[LocalLab] = []

    def make(plan: NetworkPlan) -> LocalLab:
        name = f"{lab_name}-{len(labs)}" if labs else lab_name
        labs.append(driver.deploy(name, realised(plan, driver.facts())))
        return labs[-1]

    yield make
    for lab in labs:
        lab.destroy()
