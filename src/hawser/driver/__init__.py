"""Where labs come from: drivers, and the choice of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawser.driver.base import Driver
    from hawser.spec.workflow import Workflow


def choose(workflow: Workflow | None = None) -> Driver:
    """The driver that carries out a workflow; without one, that of the labs on this machine.

    Every workflow runs on this machine so far.
    """
    from hawser.driver.local import LocalDriver

    return LocalDriver()
