"""A lab's NATs: they translate what leaves, and pass nothing else.

h1 -- gw1 a -- in NAT out --+          +-- out NAT in -- a gw2 -- h2
                            | internet |
                            +----------+-- a gw3 -- h3
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from hawser.control.client import DaemonClient
from hawser.control.model import PathStatus
from hawser.driver.local import LocalLab
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec.workflow import Scenario
from lab.traffic.nodes import ping
from lab.waiting import until

Deploy = Callable[[NetworkPlan], LocalLab]
pytestmark = pytest.mark.root


def planned(nat: str) -> NetworkPlan:
    ports: dict[str, Any] = {f"gw{number}.a": {"nat": nat} for number in (1, 2)}
    scenario = {
        "topology": {
            "nodes": {f"{kind}{number}": {} for number in (1, 2, 3) for kind in ("h", "gw")},
            "links": {f"lan{n}": {"ends": (f"h{n}.lan", f"gw{n}.lan")} for n in (1, 2, 3)},
            "internet": {"ports": ports | {"gw3.a": {}}},
        },
        "overlay": {
            "transport": "quic",
            "rendezvous": "b3",
            "branches": {
                f"b{n}": {
                    "id": n,
                    "gateway": f"gw{n}",
                    "wan": ["a"],
                    "lan": "lan",
                    "prefix": f"10.{n}.0.0/24",
                }
                for n in (1, 2, 3)
            },
        },
        "measurements": {"rtt": {"probe": "ping", "from": "h1", "to": "h2"}},
    }
    return network(Scenario.model_validate(scenario))


def path(lab: LocalLab, peer: str) -> PathStatus:
    """What gw1 says of its path to a branch."""
    with DaemonClient(lab.daemons["gw1"].control) as client:
        peers = {each.branch: each for each in client.status().peers}
    return peers[peer].groups[0].paths[0]


@pytest.mark.parametrize(
    ("nat", "via"), [("endpoint-independent", None), ("address-and-port-dependent", "b3")]
)
def test_hosts_behind_nats_reach_each_other(deploy: Deploy, nat: str, via: str | None) -> None:
    lab = deploy(planned(nat))
    until(lambda: ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3, "echoes pass")
    assert ping(lab.nodes["h2"], str(lab.plan.addresses["h1"])) == 3
    assert path(lab, "b2").via == via
    until(lambda: path(lab, "b3").reflexive is not None, "gw1 is told where it is seen")
    seen = str(path(lab, "b3").reflexive)
    assert seen.startswith("198.18.0.2:")
    assert (seen == "198.18.0.2:4161") is (via is None)


def test_nothing_passes_uninvited(deploy: Deploy) -> None:
    lab = deploy(planned("endpoint-independent"))
    capture = lab.nodes["gw3"].start(
        ["tcpdump", "-nni", "a", "-c", "1", "--immediate-mode", "icmp"]
    )

    def captured() -> bool:
        assert ping(lab.nodes["gw1"], str(lab.plan.addresses["gw3.a"])) == 3
        return not capture.running()

    until(captured, "an echo is captured")
    assert re.search(r"198\.18\.0\.2 > 198\.18\.0\.18: ICMP", capture.stop().stdout)
    for hidden in ("198.18.0.2", str(lab.plan.addresses["gw1.a"])):
        assert ping(lab.nodes["gw3"], hidden) == 0
