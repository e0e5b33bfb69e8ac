"""The SD-WAN of a production network, from its inventory."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.overlay.config.steering import Function
from hawser.overlay.sdwan.automatic import Choice, automatic_groups
from hawser.overlay.sdwan.branch import Branch, WanPort
from hawser.overlay.sdwan.fabric import Fabric, fabric
from hawser.spec.network import AccessLine, FunctionPort, Network, topology
from hawser.spec.overlay import Branch as Described
from hawser.spec.pair import second_of
from hawser.spec.policy_groups import policy_classes, policy_groups
from hawser.spec.port import Port
from hawser.spec.route import switch_kind
from hawser.spec.topology import PortType


def fabric_of(network: Network, like: Fabric | None = None, chosen: Choice | None = None) -> Fabric:
    """Resolve the SD-WAN of a checked network (`spec.check.network`).

    Args:
        network: the network.
        like: an SD-WAN that may be alike, such as that of the version before.
        chosen: member paths that were chosen automatically.
    """
    overlay = network.overlay
    lines = {port for port, line in network.ports.items() if line.type is PortType.LEASED}
    automatic = automatic_groups(overlay, lines, chosen or {})
    return fabric(
        dict(_gateways(network)),
        overlay.settings.model_copy(update={"classes": policy_classes(network)}),
        (*overlay.path_groups.values(), *policy_groups(network), *automatic),
        switch=switch_kind(topology(network), overlay),
        mtu=network.mtu,
        like=like,
        policy=network.policy,
    )


def _gateways(network: Network) -> Iterator[tuple[str, Branch]]:
    for name, each in network.overlay.branches.items():
        first = _branch(network, name, each)
        yield name, first
        if (second := network.pairs.get(name)) is not None:
            ports = (Port(second.gateway, port) for port in second.wan)
            yield (
                second_of(name),
                first.model_copy(
                    update={
                        "gateway": second.gateway,
                        "lan": second.lan,
                        "source": second.address,
                        "ports": {port.name: _port(port, network.ports[port]) for port in ports},
                        "functions": {},
                    }
                ),
            )


def _branch(network: Network, name: str, branch: Described) -> Branch:
    return Branch(
        id=branch.id,
        gateway=branch.gateway,
        lan=branch.lan,
        source=branch.prefix.network_address + 1,
        prefixes=(branch.prefix, *network.prefixes.get(name, ())),
        services=branch.services,
        wan_services=branch.wan_services or (),
        ports={port.name: _port(port, network.ports[port]) for port in branch.wan_ports},
        functions={
            function: _function(function, places[name])
            for function, places in network.functions.items()
            if name in places
        },
    )


def _function(name: str, place: FunctionPort) -> Function:
    return Function(
        name=name,
        interface=place.interface,
        next_hop=place.next_hop,
        return_interface=place.return_interface or place.interface,
        return_next_hop=place.return_next_hop or place.next_hop,
    )


def _port(port: Port, line: AccessLine) -> WanPort:
    if line.address.version == 6:
        ends: dict[str, object] = {"address6": line.address, "next_hop6": line.next_hop}
    else:
        ends = {"address": line.address, "next_hop": line.next_hop, "second": line.second}
    about = {
        "interface": line.interface or port.name,
        "type": line.type,
        "behind_nat": line.behind_nat,
        "limited": line.rate is not None,
    }
    return WanPort.model_validate(ends | about)
