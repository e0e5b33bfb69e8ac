"""strongSwan and wireguard-go as tunnels of a lab: they carry traffic encrypted and leave nothing.

   h1            gw1                                   gw2            h2
  +-----+       +-----------+                         +-----------+       +-----+
  | eth |--in1--| lan   wan |==== 200 Mbit/s, 20 ms ==| wan   lan |--in2--| eth | 10.255.0.10
  +-----+       +-----------+        tunnel vpn       +-----------+       +-----+

Packets of the tunnel are captured at gw1's wan.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.node.netns import namespace
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.tunnels import OUTER_PORT, TARGET, planned
from lab.traffic.echoes import echoes
from lab.traffic.nodes import transfer
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.mark.parametrize("kind", OUTER_PORT)
def test_hosts_talk_through_the_tunnel(
    deploy: Callable[[NetworkPlan], LocalLab], kind: str
) -> None:
    lab = deploy(planned(kind))
    h1, gw1, h2 = (lab.nodes[name] for name in ("h1", "gw1", "h2"))
    capture = gw1.start(["tcpdump", "-nni", "wan", "-c", "40", "--immediate-mode", "ip"])
    assert len(echoes(h1.namespace, TARGET, 3)) == 3

    def captured() -> bool:
        assert transfer(h1, h2, TARGET, "1M")["bytes"] > 0
        return not capture.running()

    until(captured, "forty packets are captured")
    seen = capture.stop()
    packets = [line for line in seen.stdout.splitlines() if " IP " in line]
    assert len(packets) >= 40
    assert all(f".{OUTER_PORT[kind]}" in line for line in packets), seen.stdout
    assert not re.search(re.escape(TARGET), seen.stdout)


@pytest.mark.parametrize("kind", OUTER_PORT)
def test_a_lab_leaves_no_tunnel_behind(
    deploy: Callable[[NetworkPlan], LocalLab], kind: str
) -> None:
    lab = deploy(planned(kind))
    processes = [process.pid for process in lab.tunnels]
    assert len(processes) == 2
    lab.destroy()
    assert not any(process.running() for process in lab.tunnels)
    assert not namespace.names(f"hawser.{lab.name}.")
    assert not lab.directory.exists()
