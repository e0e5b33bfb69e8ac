"""The SD-WAN of a lab: its branches with the lab's addresses."""

from __future__ import annotations

from hawser.overlay.lab.address import Addresses
from hawser.overlay.sdwan.automatic import Choice, automatic_groups
from hawser.overlay.sdwan.branch import Branch, WanPort
from hawser.overlay.sdwan.fabric import Fabric, fabric
from hawser.spec.overlay import Branch as Described
from hawser.spec.overlay import Overlay, Service
from hawser.spec.port import Port
from hawser.spec.route import leased, switch_kind
from hawser.spec.topology import Internet, Topology


def fabric_of(topology: Topology, overlay: Overlay, addresses: Addresses, chosen: Choice) -> Fabric:
    """Resolve an SD-WAN that has been checked against its topology.

    Args:
        topology: the lab's.
        overlay: the SD-WAN as described.
        addresses: address plan of the lab.
        chosen: member paths that were chosen automatically.
    """
    internet = topology.internet or Internet(ports={})
    branches = {
        name: _branch(branch, internet, addresses) for name, branch in overlay.branches.items()
    }
    return fabric(
        branches,
        overlay.settings,
        (*overlay.path_groups.values(), *automatic_groups(overlay, leased(topology), chosen)),
        switch=switch_kind(topology, overlay),
        mtu=min(map(internet.mtu_of, internet.ports), default=internet.mtu),
    )


def _branch(branch: Described, internet: Internet, addresses: Addresses) -> Branch:
    return Branch(
        id=branch.id,
        gateway=branch.gateway,
        lan=branch.lan,
        source=addresses.inner[branch.lan_port].ip,
        prefixes=(branch.prefix,),
        services=branch.services or (Service(protocol="any"),),
        wan_services=branch.wan_services,
        ports={port.name: _port(port, internet, addresses) for port in branch.wan_ports},
    )


def _port(port: Port, internet: Internet, addresses: Addresses) -> WanPort:
    access, described = addresses.wan[port], internet.ports[port]
    return WanPort(
        interface=port.name,
        address=access.port.ip,
        second=None if access.listen == access.port else access.listen.ip,
        address6=access.ends6 and access.ends6[1].ip,
        next_hop=access.next_hop,
        next_hop6=access.ends6 and access.ends6[0].ip,
        type=described.type,
        behind_nat=described.nat is not None,
        limited=described.rate is not None,
    )
