"""What segment routing proxies counted is told by chain and direction."""

from __future__ import annotations

from ipaddress import IPv6Address

from hawser.control.model import FunctionCounters, ProxyCounters, Tally
from hawser.overlay.lab.plan import ChainPlan, ServicePathPlan
from hawser.probe.function import samples
from hawser.spec.chain import Steering

FORWARD, REVERSE = IPv6Address("5f00:0:1:1::1"), IPv6Address("5f00:0:1:1::2")


def counted(toward: int, returned: int, dropped: int) -> FunctionCounters:
    def of(segment: IPv6Address, more: int) -> ProxyCounters:
        tallies = (Tally(packets=n + more, bytes=0) for n in (toward, returned))
        return ProxyCounters(
            segment=segment, toward=next(tallies), returned=next(tallies), learned=1
        )

    return FunctionCounters(proxies=(of(FORWARD, 0), of(REVERSE, 5)), drops={"no_cache": dropped})


def test_each_direction_has_its_packets() -> None:
    service_paths = tuple(
        ServicePathPlan(name=f"c:{name}", number=n, functions=("f",), way=(), segments=(segment,))
        for n, (name, segment) in enumerate({"forward": FORWARD, "reverse": REVERSE}.items(), 1)
    )
    chain = ChainPlan(
        name="c", steering=Steering.SRV6, fail="closed", mtu=1400, service_paths=service_paths
    )
    found = samples("f-proxy", [chain], counted(1, 1, 0), counted(11, 9, 2))
    assert {(each.subject, each.metric): each.value for each in found} == {
        ("chain:c:forward:f-proxy", "toward_packets"): 10,
        ("chain:c:forward:f-proxy", "returned_packets"): 8,
        ("chain:c:reverse:f-proxy", "toward_packets"): 10,
        ("chain:c:reverse:f-proxy", "returned_packets"): 8,
        ("daemon:f-proxy", "drop_no_cache"): 2,
    }
