"""The controller of a lab: the network that it is started with, and the gateways that join it."""

from __future__ import annotations

from pathlib import PurePosixPath

from hawser.overlay.lab.plan import AGENTS, ControllerPlan, Daemon, GatewayDaemon, NetworkPlan
from hawser.overlay.lab.resolved import Resolved
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
    daemons = tuple(map(_joined, plan.daemons))
    return plan.model_copy(update={"daemons": daemons, "controller": added})


def _joined(daemon: Daemon) -> Daemon:
    if not isinstance(daemon, GatewayDaemon):
        return daemon
    control = PurePosixPath(AGENTS, daemon.name, "gateway.sock")
    config = daemon.config.model_copy(update={"control": control})
    return daemon.model_copy(update={"config": config, "joined": True})


def _network(lab: Resolved, overlay: Overlay) -> Network:
    """Give the network that is like the lab: the same SD-WAN, at the lab's addresses."""
    internet = lab.topology.internet
    assert internet is not None  # noqa: S101 (a controller's node has an internet port)
    assert lab.fabric is not None  # noqa: S101 (an overlay has one)
    ports = [port for branch in overlay.branches.values() for port in branch.wan_ports]
    # Measurements run on gateways too: the lab's defaults have to be written out in a network.
    everything = (Service(protocol="any"),)
    branches = {
        name: branch.model_copy(
            update={
                "services": lab.fabric.branches[name].services,
                "wan_services": everything if branch.wan_services is None else branch.wan_services,
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


def _line(lab: Resolved, port: Port) -> AccessLine:
    internet = lab.topology.internet
    assert internet is not None  # noqa: S101 (it has this port)
    described, access = internet.ports[port], lab.addresses.wan[port]
    return AccessLine(
        address=access.port.ip,
        second=None if access.listen == access.port else access.listen.ip,
        next_hop=access.internet.ip,
        type=described.type,
        rate=described.rate,
        download=backward(described).rate,
    )
