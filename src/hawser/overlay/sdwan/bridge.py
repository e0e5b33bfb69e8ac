"""OpenFlow switches of a production network's gateways.

A switch takes the WAN ports over, so that the gateway's daemon has the ports behind it instead
(`overlay.config.openflow`). Labs make both at once (`overlay.lab.openflow`).
"""

from __future__ import annotations

from hawser.overlay.config.bridge import Bridge, BridgePort
from hawser.overlay.config.gateway import GatewayConfig, Switch, Wan
from hawser.overlay.config.openflow import agent_port
from hawser.overlay.sdwan.branch import Branch, WanPort


def bridged(branch: Branch, config: GatewayConfig) -> tuple[GatewayConfig, Bridge | None]:
    """Divide a gateway's configuration into that of its daemon and its OpenFlow switch, if any."""
    switch = config.switch
    if switch is None or switch.kind != "openflow":
        return config, None
    ports = tuple(_port(port, wan) for port, wan in branch.ports.items())
    behind = {"switch": _behind(switch), "wan": _filter(branch)}
    return config.model_copy(update=behind), Bridge(ports=ports, entries=switch.entries)


def _port(name: str, port: WanPort) -> BridgePort:
    assert port.next_hop is not None  # noqa: S101 (OpenFlow ports have addresses of IPv4)
    return BridgePort(
        name=name,
        interface=port.interface,
        addresses=tuple(each for each in (port.address, port.second) if each is not None),
        next_hop=port.next_hop,
    )


def _behind(switch: Switch) -> Switch:
    """Give the ports towards the daemon. The entries are the switch's."""
    ports = tuple(
        port.model_copy(update={"interface": agent_port(place)})
        for place, port in enumerate(switch.ports)
    )
    return switch.model_copy(update={"ports": ports, "entries": ()})


def _filter(branch: Branch) -> Wan | None:
    if branch.wan_services is None:
        return None
    interfaces = tuple(agent_port(place) for place in range(len(branch.ports)))
    return Wan(interfaces=interfaces, services=branch.wan_services)
