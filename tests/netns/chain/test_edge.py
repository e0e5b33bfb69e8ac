"""A host at the end of a chain steered by SRv6 addresses segments itself.

client --in-- n1 --between-- n2        functions f1 is at n1, f2 is at n2
              |                        (drawn in lab/plans/chains.py)
server --out--+
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.chains import SERVER, chain
from lab.traffic.forged import IPV6, MARK, ROUTING, UDP, Tap, frame, ipv6, srh, udp
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]


def test_hosts_enter_no_segment(deploy: Deploy) -> None:
    plan = chain(steering="srv6", srv6={"ipv6": True})
    lab = deploy(plan)
    client = lab.nodes["client"]
    assert ping(client, SERVER) == 3
    (forward, *_) = plan.chains[0].service_paths
    mac = bytes.fromhex(_link(lab, "n1", "in")["address"].replace(":", ""))
    last = str(forward.segments[-1])
    inside = ipv6("fd00::66", "fd00::67", udp(9, 9))
    with Tap(client.namespace, "eth") as host:
        listed = srh([last], 0, 41, inside)
        host.send(frame(IPV6, ipv6("fd00::66", last, listed, ROUTING), to=mac))
        until(lambda: _refused(lab, "n1")["untrusted_sid"] == 1)
        own = _address6(lab, "n1", "in")
        listed = srh([own, last], 1, UDP, udp(9, 9, MARK))
        host.send(frame(IPV6, ipv6("fd00::66", own, listed, ROUTING), to=mac))
        until(lambda: _refused(lab, "n1")["untrusted_srh"] == 1)
    assert _refused(lab, "n1") == {"untrusted_sid": 1, "untrusted_srh": 1}
    assert ping(client, SERVER) == 3


def _link(lab: LocalLab, node: str, interface: str) -> dict[str, str]:
    told = lab.nodes[node].run(["ip", "-j", "link", "show", interface], timeout=60).stdout
    (found,) = json.loads(told)
    return dict(found)


def _address6(lab: LocalLab, node: str, interface: str) -> str:
    command = ["ip", "-j", "-6", "address", "show", "dev", interface, "scope", "global"]
    (found,) = json.loads(lab.nodes[node].run(command, timeout=60).stdout)
    return str(found["addr_info"][0]["local"])


def _refused(lab: LocalLab, node: str) -> dict[str, int]:
    """Packets that a node refused, by cause."""
    told = lab.nodes[node].run(["nft", "-j", "list", "counters"], timeout=60).stdout
    found = [each["counter"] for each in json.loads(told)["nftables"] if "counter" in each]
    return {each["name"]: each["packets"] for each in found}
