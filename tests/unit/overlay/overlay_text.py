"""A plan as text that a person can check, one thing a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hawser.overlay.lab.plan import ClassPlan, DaemonPlan, NetworkPlan, NodePlan


def text(plan: NetworkPlan) -> str:
    """Write a plan out."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: NetworkPlan) -> Iterator[str]:
    for node in plan.nodes:
        yield from _node(node)
    for link in plan.links:
        yield f"link {link.name}: " + " -- ".join(f"{node}.{port}" for node, port in link.ends)
    for shaper in plan.shapers:
        yield f"shaper {shaper.name} at {shaper.node}.{shaper.interface}: {shaper.rate}"
        yield from (f"  class {_class(each)}" for each in shaper.classes)
    for name, address in plan.addresses.items():
        yield f"address {name}: {address}"
    for daemon in plan.daemons:
        yield f"daemon {daemon.name}: {daemon.role} at {daemon.node}"
        config = emitted(daemon)
        yield from (f"  {key}: {json.dumps(value)}" for key, value in config.items())


def emitted(daemon: DaemonPlan) -> dict[str, Any]:
    """A daemon's configuration as JSON that it reads."""
    return daemon.config.model_dump(mode="json")


def _node(node: NodePlan) -> Iterator[str]:
    yield f"node {node.name} ({node.role})"
    for i in node.interfaces:
        addresses, offload = " ".join(map(str, i.addresses)), "on" if i.offload else "off"
        yield f"  interface {i.name}: {addresses} mtu {i.mtu} offload {offload}"
    for r in node.routes:
        parts = (("via", r.via), ("dev", r.interface), ("src", r.source), ("table", r.table))
        yield f"  route {r.to} " + " ".join(f"{k} {v}" for k, v in parts if v is not None)
    yield from (f"  rule from {rule.source} table {rule.table}" for rule in node.rules)
    for e in node.mptcp:
        yield f"  endpoint {e.address} dev {e.interface} {' '.join(e.flags)}"
    yield from (f"  sysctl {key} = {value}" for key, value in node.sysctl.items())


def _class(each: ClassPlan) -> str:
    parts = (("from", each.source), ("rate", each.rate), ("queue", each.queue))
    return each.name + "".join(f" {key} {value}" for key, value in parts if value is not None)
