"""NATs of a lab: a node between each WAN port that is behind one and the internet.

gw1.a 100.64.0.2/29 ---- .1 in  nat:gw1:a  out 198.18.0.2/29 ---- .1 internet
"""

from __future__ import annotations

from collections.abc import Iterator

from hawser.overlay.lab.address import NatAccess, WanAccess
from hawser.overlay.lab.plan import InterfacePlan, LinkPlan, NatPlan, NodePlan, RoutePlan
from hawser.overlay.lab.resolved import Resolved
from hawser.overlay.lab.route import EVERYTHING
from hawser.overlay.lab.sysctl import settings
from hawser.spec.names import INTERNET
from hawser.spec.port import Port
from hawser.spec.topology import Nat

_INSIDE, _OUTSIDE = "in", "out"


def links(port: Port, access: WanAccess) -> Iterator[LinkPlan]:
    """Give the cables between a WAN port and the internet."""
    here, there = (port.node, port.name), (INTERNET, access.interface)
    if access.nat is None:
        yield LinkPlan(name=port, ends=(here, there))
        return
    node = access.nat.node
    yield LinkPlan(name=port, ends=(here, (node, _INSIDE)))
    yield LinkPlan(name=node, ends=((node, _OUTSIDE), there))


def nodes(lab: Resolved, *, offload: bool) -> Iterator[NodePlan]:
    """Give the nodes that translate addresses."""
    internet = lab.topology.internet
    for port, described in internet.ports.items() if internet else ():
        access = lab.addresses.wan[port]
        if internet is not None and access.nat is not None and described.nat is not None:
            yield _node(access, access.nat, described.nat, internet.mtu_of(port), offload=offload)


def _node(access: WanAccess, nat: NatAccess, kind: Nat, mtu: int, *, offload: bool) -> NodePlan:
    ends = ((_INSIDE, nat.inside), (_OUTSIDE, nat.outside))
    return NodePlan(
        name=nat.node,
        role="nat",
        interfaces=tuple(
            InterfacePlan(name=name, addresses=(address,), mtu=mtu, offload=offload)
            for name, address in ends
        ),
        routes=(RoutePlan(to=EVERYTHING, via=access.internet.ip, interface=_OUTSIDE),),
        nat=NatPlan(outside=_OUTSIDE, mapping=kind),
        sysctl=settings([_INSIDE, _OUTSIDE], forwards=True, mptcp=False),
    )
