"""How much gateways carry. That they carry everything, and unchanged, is tested in tests/netns.

b1 10.1.0.1 -- wa ----------------- wa -- 10.2.0.1 b2     one unlimited link (`Lab.direct`)

b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2  four paths with a rate each
               wb -- 1b          2b -- wb                 (`Lab.paths` of lab/gateway/pair.py)

gw1 ==a,b== the internet ==a,b== gw2, through gw3-5       (lab/gateway/switch.py)

h1 -- gw1 == tunnel == gw2 -- h2                          (lab/plans/tunnels.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from lab.gateway.encrypted import encrypted_pair
from lab.gateway.pair import Gateway, Lab
from lab.gateway.quic import lose_large_packets, paths_of, quic_pair
from lab.gateway.switch import (
    gateways,
    start,
    switched,
    transit_example,
    worked_example,
)
from lab.namespace import run
from lab.plans.tunnels import OUTER_PORT, TARGET, planned
from lab.traffic.nodes import tcp
from lab.waiting import until

pytestmark = pytest.mark.root

PATHS = 4


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def goodput(lab: Lab, *options: str, seconds: float = 2, to: str = "10.2.0.1") -> float:
    """TCP from branch 1 to branch 2, Mbit/s."""
    result = lab.iperf(*options, seconds=seconds, to=to)
    return float(result["end"]["sum_received"]["bits_per_second"]) / 1e6


@pytest.mark.parametrize("kind", ["mptcp", "mptcp+tls", "ipip", "quic"])
def test_a_link_is_used(lab: Lab, kind: str) -> None:
    lab.direct()
    if kind == "quic":
        quic_pair(lab)
    elif kind == "mptcp+tls":
        encrypted_pair(lab)
    else:
        plain: dict[str, Any] = {"kind": kind, "insecure": True}
        lab.pair(transport=plain)
    assert goodput(lab, seconds=1) > 50


def test_a_link_is_used_by_ipv6(lab: Lab) -> None:
    lab.direct()
    for own, other in ((1, 2), (2, 1)):
        gateway = lab.gateway(own, other)
        gateway.config["peers"][0]["prefixes"].append(f"fd00:{other}::/64")
        gateway.config["tun"]["address"] = f"fd00:{own}::1/64"
        del gateway.config["source"]
        gateway.start()
    until(lambda: all(gateway.up() for gateway in lab.gateways), "all are up")
    assert goodput(lab, seconds=1, to="fd00:2::1") > 50


@pytest.mark.parametrize("rates", [(10, 10, 10, 10), (1, 2, 4, 33)])
def test_unequal_paths_add_up(lab: Lab, rates: tuple[float, ...]) -> None:
    """The best path alone carries 31.5 of 33 Mbit/s."""
    one, two = quic_pair(lab.paths(rates), paths=PATHS)
    assert goodput(lab, "-O", "2", seconds=6) > 32.5
    found = [path["rate_bps"] / 1e6 for path in paths_of(one)]
    assert found == pytest.approx(rates, rel=0.35)
    order = two.group()["order"]
    assert order["in_order"] + order["resequenced"] > 0
    assert order["late"] < 0.01 * (order["in_order"] + order["resequenced"])


@pytest.mark.parametrize("congestion", ["delay", "cubic", "bbr"])
def test_each_congestion_control_uses_the_paths(lab: Lab, congestion: str) -> None:
    one, _ = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS, congestion=congestion)
    result = lab.iperf(seconds=1.5)
    assert result["end"]["sum_received"]["bytes"] > 1_000_000
    assert all(path["sent_bytes"] > 100_000 for path in paths_of(one))


@pytest.mark.parametrize("recovery", ["resend", "none"])
def test_loss_leaves_much(lab: Lab, recovery: str) -> None:
    """One large packet in a hundred is lost; TCP sees little of it where gateways resend."""
    one, two = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS, recovery=recovery)
    lose_large_packets(lab, one_in=100)
    result = lab.iperf("-O", "1", seconds=3)
    assert result["end"]["sum_received"]["bits_per_second"] > 10e6
    retransmitted = result["end"]["sum_sent"]["retransmits"]
    recovered = one.group()["recovery"]
    resent, copied = recovered["retransmitted"], recovered["duplicated"]
    if recovery == "resend":
        assert resent > 40
        assert retransmitted < resent / 4
        assert two.group()["order"]["duplicates"] < copied + resent / 4
    else:
        assert resent == 0
        assert retransmitted > 20


def test_three_paths_go_on_beside_a_dark_one(lab: Lab) -> None:
    one, _ = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS)
    rule = ("from", "198.18.1.0/24", "to", "198.18.3.0/24", "priority", "50", "blackhole")
    lab.at(0, "ip", "rule", "add", *rule)
    assert goodput(lab, "-O", "1", seconds=3) > 20
    assert paths_of(one)[0]["state"] in ("degraded", "down"), "within four seconds"


@pytest.mark.parametrize("streams", [1, 4])
def test_acknowledgements_are_superseded_at_full_speed(lab: Lab, streams: int) -> None:
    _, two = quic_pair(lab.direct())
    lab.iperf("-P", str(streams), seconds=2)
    read = two.get("/v1/counters")["tun"]["read"]["packets"]
    assert two.group()["acks_filtered"] > read / 50


def test_the_switch_carries(lab: Lab) -> None:
    worked_example(lab)
    assert goodput(lab, "-P", "4") > 100
    assert goodput(lab, "-R") > 100
    udp = lab.iperf("-u", "-b", "20M", seconds=1)["end"]["sum"]
    assert udp["lost_packets"] < 5


def smaller_mtu(namespace: str, interface: str) -> None:
    run("ip", "-n", namespace, "link", "set", interface, "mtu", "1280")


def in_the_internet(lab: Lab) -> dict[int, Gateway]:
    made = transit_example(lab)
    smaller_mtu(f"{lab.prefix}-0", "i2a")
    return made


def of_a_transit_port(lab: Lab) -> dict[int, Gateway]:
    made = transit_example(lab)
    smaller_mtu(made[3].namespace, "wb")
    return made


def of_the_first_port(lab: Lab) -> dict[int, Gateway]:
    made = transit_example(lab)
    smaller_mtu(made[1].namespace, "wa")
    return made


def of_another_port(lab: Lab) -> dict[int, Gateway]:
    switched(lab, (1, 2, 3))
    made = gateways(lab, 4, {1: ("1a", "2a", "1b>3a>3b>2b")})
    smaller_mtu(made[1].namespace, "wb")
    start(made, 1)
    return made


@pytest.mark.parametrize(
    "where", [in_the_internet, of_a_transit_port, of_the_first_port, of_another_port]
)
def test_a_smaller_mtu_slows_nothing(lab: Lab, where: Callable[[Lab], dict[int, Gateway]]) -> None:
    where(lab)
    assert goodput(lab) > 50


@pytest.mark.parametrize("kind", OUTER_PORT)
def test_tunnels_carry(deploy: Callable[[NetworkPlan], LocalLab], kind: str) -> None:
    lab = deploy(planned(kind))
    assert tcp(lab.nodes["h1"], lab.nodes["h2"], TARGET, 1)["bits_per_second"] > 5e6
