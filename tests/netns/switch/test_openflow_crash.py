"""A maker of OpenFlow switches that is killed leaves nothing that `destroy` does not find.

   pytest --> maker --deploy--> gw1 [ovs] ==a,b== internet ==a,b== [ovs] gw2      ssc: controller
                ^
             SIGKILL

The lab is that of lab/plans/switches.py, with no entries.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from hawser.driver import names
from hawser.driver.local import LocalDriver
from hawser.driver.parts import openvswitch
from hawser.node.netns import cgroup, namespace
from lab import ROOT
from lab.run.cli import processes
from lab.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

_MAKER = """
import signal, sys
from lab.plans import switches
from hawser.driver.local import LocalDriver
print("begins", flush=True)
lab = LocalDriver().deploy(sys.argv[1], switches.plan(2, {}))
print("deployed", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("after", [0.2, 0.5, 0.8, 1.2, 1.6, None])
def test_a_killed_maker_leaves_nothing(
    driver: LocalDriver, lab_name: str, after: float | None
) -> None:
    """Killed this time after it began to deploy (s), or once it had deployed."""
    maker = begin(lab_name)
    assert maker.stdout is not None
    with maker:
        if after is None:
            assert maker.stdout.readline() == "deployed\n"
        else:
            time.sleep(after)
        os.kill(maker.pid, signal.SIGKILL)
    driver.destroy(lab_name)
    assert lab_name not in driver.labs()
    assert not (names.ROOT / lab_name).exists()
    assert not namespace.names(names.prefix(lab_name))
    assert not cgroup.names(names.prefix(lab_name))
    until(lambda: not processes(f"{names.ROOT / lab_name}/"))


def begin(lab: str) -> subprocess.Popen[str]:
    """Start a maker; it is about to deploy."""
    folders = [ROOT / "tests", ROOT / "src"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", _MAKER, lab]
    maker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    assert maker.stdout.readline() == "begins\n"
    return maker
