"""Traffic goes on on the last good groups when what chooses paths, or one of the gateways, dies.

See tests/lab/controller/network.py for the topology.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lab.controller.network import Deployment
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

PORTS = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2, 3) for port in ("wa", "wb")}


def solvers(network: Deployment) -> set[int]:
    """Processes of the controller's own that solve the path program."""
    assert network.controller.process
    threads = Path(f"/proc/{network.controller.process.pid}/task").glob("*/children")
    found = [int(pid) for children in threads for pid in children.read_text().split()]
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found}
    return {pid for pid, line in lines.items() if b"spawn_main" in line}


def planned(network: Deployment) -> bool:
    """Whether the solver has answered, and has not failed since."""
    found = network.controller.ask("GET", "/v1/paths")
    return found["time"] is not None and found["error"] is None


def carried(network: Deployment, port: int) -> None:
    """Traffic passes from b1 to b2 now."""
    Transfer(network.lab, 1 << 20, port=port).end()


def test_traffic_goes_on_without_solver_controller_or_gateway(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as network:
        controller = network.controller
        controller.begin()
        controller.patch({"overlay": {"paths": "automatic"}, "ports": PORTS})
        network.join_all()
        until(network.connected, "every branch reaches every other")
        until(lambda: planned(network), "paths are looked at")
        going = Transfer(network.lab, port=7001, pause=0.02)

        (solver,) = solvers(network)
        os.kill(solver, signal.SIGKILL)
        carried(network, 7002)
        until(lambda: solvers(network) - {solver}, "another one is started")
        until(lambda: planned(network), "and it answers")

        controller.patch({"policy": {"II": {"max_rate": "10 Mbit/s"}}})
        os.kill(network.branches[3].daemon(), signal.SIGKILL)
        controller.stop(signal.SIGKILL)
        carried(network, 7003)

        controller.begin()
        until(controller.settled, "the change is kept everywhere")
        until(network.connected, "every branch reaches every other")
        until(lambda: planned(network), "paths are looked at again")
        carried(network, 7004)
        network.ping(1, 3)
        going.end()
