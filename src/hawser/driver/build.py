"""Creates the namespaces, cables, addresses and shapers of a plan."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from hawser.driver import names
from hawser.node.netns import NamespaceNode
from hawser.node.netns.sysctl import CONGESTION_CONTROL, allow_congestion_control
from hawser.overlay.lab.emulator import EMULATOR
from hawser.overlay.lab.plan import LinkPlan, NetworkPlan, ShaperPlan


def nodes(directory: Path, plan: NetworkPlan) -> dict[str, NamespaceNode]:
    """Nodes of a plan as objects; nothing is created."""
    shapers: dict[str, list[ShaperPlan]] = defaultdict(list)
    for shaper in plan.shapers:
        shapers[shaper.node].append(shaper)
    return {
        node.name: NamespaceNode(
            node.name,
            names.namespace(directory.name, node.name),
            node,
            directory,
            tuple(shapers[node.name]),
        )
        for node in plan.nodes
    }


def network(made: dict[str, NamespaceNode], plan: NetworkPlan) -> None:
    """Make the nodes and all between them.

    Raises:
        NodeError: the kernel refuses something; what was made before is still there.
    """
    for algorithm in sorted({a for n in plan.nodes if (a := n.sysctl.get(CONGESTION_CONTROL))}):
        allow_congestion_control(algorithm)
    for node in made.values():
        node.create()
    for link in plan.links:
        _connect(made, link)
    for node in made.values():
        node.configure()


def _connect(made: dict[str, NamespaceNode], link: LinkPlan) -> None:
    """Create a cable, or two with the WAN emulator between them."""
    (one, interface), (other, other_interface) = link.ends
    if link.wire is None:
        made[one].connect(interface, made[other], other_interface)
        return
    for node, port, wired in zip(
        (one, other), (interface, other_interface), link.wire, strict=True
    ):
        made[node].connect(port, made[EMULATOR], wired)
