"""The controller of a lab: the network that it is started with, and the gateways that join it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from hawser.overlay.lab.plan import AGENTS, ControllerPlan, Daemon, GatewayDaemon, NetworkPlan
from hawser.overlay.lab.resolved import Resolved
from hawser.overlay.sdwan.bridge import bridged
from hawser.overlay.sdwan.gateway import wan_filter
from hawser.spec.network import AccessLine, Network
from hawser.spec.overlay import Overlay, Service
from hawser.spec.port import Port
from hawser.spec.topology import backward
from hawser.spec.workflow import Scenario


def controlled(scenario: Scenario, lab: Resolved, plan: NetworkPlan) -> NetworkPlan:
    """Let gateways get their configurations from the controller, if the scenario has one.

    Their configurations stay in the plan: they are what the controller computes from its network.
    """
    controller, overlay = scenario.controller, scenario.overlay
    if controller is None or overlay is None:
        return plan
    address = next(
        access.port.ip for port, access in lab.addresses.wan.items() if port.node == controller.node
    )
    added = ControllerPlan(
        node=controller.node,
        address=address,
        network=_network(lab, overlay),
        gateways={name: branch.gateway for name, branch in overlay.branches.items()},
    )
    daemons = tuple(_joined(lab, daemon) for daemon in plan.daemons)
    return plan.model_copy(update={"daemons": daemons, "controller": added})


def _joined(lab: Resolved, daemon: Daemon) -> Daemon:
    if not isinstance(daemon, GatewayDaemon) or lab.fabric is None:
        return daemon
    branch = lab.fabric.branches[daemon.config.branch]
    opened = branch.model_copy(update={"wan_services": _wan_services(branch.wan_services)})
    control = PurePosixPath(AGENTS, daemon.name, "gateway.sock")
    changed = {"control": control, "wan": wan_filter(lab.fabric, opened)}
    config, _ = bridged(opened, daemon.config.model_copy(update=changed))
    return daemon.model_copy(update={"config": config, "joined": True})


def _network(lab: Resolved, overlay: Overlay) -> Network:
    """Give the network that is like the lab: the same SD-WAN, at the lab's addresses."""
    internet = lab.topology.internet
    assert internet is not None  # noqa: S101 (a controller's node has an internet port)
    assert lab.fabric is not None  # noqa: S101 (an overlay has one)
    ports = [port for branch in overlay.branches.values() for port in branch.wan_ports]
    branches = {
        name: branch.model_copy(
            update={
                "services": lab.fabric.branches[name].services,
                "wan_services": _wan_services(branch.wan_services),
            }
        )
        for name, branch in overlay.branches.items()
    }
    return Network(
        name="lab",
        overlay=overlay.model_copy(update={"branches": branches}),
        ports={port: _line(lab, port) for port in ports},
        mtu=min(map(internet.mtu_of, internet.ports)),
    )


def _wan_services(described: tuple[Service, ...] | None) -> tuple[Service, ...]:
    """Give what the WAN may reach: everything in a lab, for measurements run on gateways too."""
    return (Service(protocol="any"),) if described is None else described


def _line(lab: Resolved, port: Port) -> AccessLine:
    internet = lab.topology.internet
    assert internet is not None  # noqa: S101 (it has this port)
    described, access = internet.ports[port], lab.addresses.wan[port]
    ends: dict[str, Any] = {"address": access.port.ip, "next_hop": access.next_hop}
    if access.ends6 is not None:
        ends = {"address": access.ends6[1].ip, "next_hop": access.ends6[0].ip}
    elif access.listen != access.port:
        ends["second"] = access.listen.ip
    return AccessLine(
        **ends,
        type=described.type,
        behind_nat=described.nat is not None,
        rate=described.rate,
        download=backward(described).rate,
    )
