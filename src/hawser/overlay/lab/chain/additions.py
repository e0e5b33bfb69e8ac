"""What chains add to a plan, gathered node by node."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Interface
from typing import Any

from hawser.overlay.config.srv6_proxy import Proxy
from hawser.overlay.lab.plan import (
    Daemon,
    InterfacePlan,
    NodePlan,
    RoutePlan,
    RulePlan,
    SegmentPlan,
    VrfPlan,
)
from hawser.spec.port import Port

_FIRST_TABLE = 1001
"""Number of the first routing table of chains; others follow."""


def _lists() -> defaultdict[Any, list[Any]]:
    return defaultdict(list)


@dataclass
class Additions:
    """By node."""

    routes: defaultdict[str, list[RoutePlan]] = field(default_factory=_lists)
    rules: defaultdict[str, list[RulePlan]] = field(default_factory=_lists)
    segments: defaultdict[str, list[SegmentPlan]] = field(default_factory=_lists)
    vrfs: defaultdict[str, list[VrfPlan]] = field(default_factory=_lists)
    addresses: defaultdict[Port, list[IPv6Interface]] = field(default_factory=_lists)
    """By port."""
    untrusted: defaultdict[str, list[str]] = field(default_factory=_lists)
    """Interfaces at which segments are refused."""
    sysctl: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    macs: dict[Port, str] = field(default_factory=dict)
    """Ethernet addresses by port."""
    xdp: set[Port] = field(default_factory=set)
    """Ports whose link carries XDP redirects."""
    daemons: list[Daemon] = field(default_factory=list)
    proxies: defaultdict[str, dict[IPv6Address, Proxy]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Proxies of SFC-unaware functions, by node and segment."""
    tables: int = 0
    """Routing tables in use."""
    steering_tables: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By number of a service path, the tables that rules select for its packets."""

    def table(self) -> int:
        """Take a routing table."""
        self.tables += 1
        return _FIRST_TABLE + self.tables - 1

    def steering_table(self, sfp: int) -> int:
        """Take a routing table for rules to select for a service path's packets."""
        self.steering_tables[sfp].append(self.table())
        return self.steering_tables[sfp][-1]

    def node(self, plan: NodePlan) -> NodePlan:
        """Give a node with its additions."""
        name = plan.name
        return plan.model_copy(
            update={
                "interfaces": tuple(self._interface(name, each) for each in plan.interfaces),
                "routes": (*plan.routes, *dict.fromkeys(self.routes[name])),
                "rules": (*plan.rules, *self.rules[name]),
                "segments": (*plan.segments, *dict.fromkeys(self.segments[name])),
                "vrfs": (*plan.vrfs, *self.vrfs[name]),
                "untrusted": (*plan.untrusted, *self.untrusted[name]),
                "sysctl": {**plan.sysctl, **self.sysctl[name]},
            }
        )

    def _interface(self, node: str, plan: InterfacePlan) -> InterfacePlan:
        port = Port(node, plan.name)
        sends = port in self.xdp
        return plan.model_copy(
            update={
                "addresses": (*plan.addresses, *dict.fromkeys(self.addresses[port])),
                "mac": plan.mac or self.macs.get(port),
                "offload": plan.offload and not sends,
                "gro": plan.gro or sends,
            }
        )
