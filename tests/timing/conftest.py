"""Tests of speed and punctuality, judged by what the machine could do meanwhile.

Each runs alone. One that fails is red only where the machine was undisturbed; elsewhere it is
skipped, and what disturbed it is the reason. What a program does is tested in tests/netns, never
here.
"""

from __future__ import annotations

import sys
from functools import partial

import pytest
from _pytest.runner import runtestprotocol

from hawser.node.turn import Turns
from lab import machine
from lab.fixtures import deploy, driver, lab_name

__all__ = ["deploy", "driver", "lab_name"]


def pytest_report_header() -> str:
    return f"machine: {machine.idle()}; one core counts {machine.core_rate():.0f} M a second"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test and judge it by the conditions from its setup to its teardown."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with Turns(f"test {item.name}").take(partial(print, file=sys.stderr)):
        watch = machine.Watch()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        conditions = watch.end()
    marker = item.get_closest_marker("stalls")
    stalls = marker.args[0] if marker else machine.STALLS
    for report in reports:
        machine.judge(report, conditions, stalls)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
