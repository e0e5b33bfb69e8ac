"""An OpenFlow switch at a gateway, which its agent makes and its controller fills.

The agent takes this part out of the document that it gets, as it does with `steering`: `hawserd
gateway` knows only the switch's ports towards it. An agent that does not know it refuses the
document.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Annotated, Final

from pydantic import Field

from hawser.overlay.config.base import Mac, Part
from hawser.overlay.config.entry import Entry
from hawser.overlay.config.openflow import OpenFlowPort, OpenFlowSwitch

FIELD: Final = "bridge"
"""Its name in the document."""


class Stations(Part):
    """Ethernet addresses at a WAN port."""

    own: Mac
    next_hop: Mac | None = None
    """None where the next hop has not answered."""


class BridgePort(Part):
    """A WAN port that the switch takes over, with its addresses."""

    name: str
    interface: str
    addresses: Annotated[tuple[IPv4Address, ...], Field(min_length=1)]
    next_hop: IPv4Address


class Bridge(Part):
    """The switch."""

    ports: Annotated[tuple[BridgePort, ...], Field(min_length=1, max_length=64)]
    entries: tuple[Entry, ...] = ()

    def switch(self, name: str, stations: Mapping[str, Stations]) -> OpenFlowSwitch:
        """Give the OpenFlow switch.

        Args:
            name: of the gateway.
            stations: Ethernet addresses, by the ports' names; others follow from IPv4 addresses.
        """
        return OpenFlowSwitch(
            name=name,
            ports=tuple(_port(port, stations.get(port.name)) for port in self.ports),
            entries=self.entries,
        )


def _port(port: BridgePort, found: Stations | None) -> OpenFlowPort:
    return OpenFlowPort(
        name=port.name,
        addresses=port.addresses,
        next_hop=port.next_hop,
        station=found.own.lower() if found else None,
        next_station=found.next_hop.lower() if found and found.next_hop else None,
    )
