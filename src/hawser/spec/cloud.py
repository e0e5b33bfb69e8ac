"""Elements of a cloud between nodes, with their caps, delays and prices.

Defaults are AWS's. Each has a source and a date: `hawser.spec.region`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from hawser.spec.model import Model, Name
from hawser.spec.region import NOMINAL_RATE, VPN_CAP, Figure
from hawser.spec.tunnel import TunnelKind
from hawser.spec.units import Duration, Rate, Ratio, Size

ElementName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,11}$")]
"""A name of at most 12 characters: names of nodes, links and ports are made of it."""

Usd = Annotated[float, Field(ge=0, le=1e6)]


class ElementKind(StrEnum):
    """What an element of a cloud is."""

    VPC = "vpc"
    """A private network in one region, whose router joins its nodes."""
    TRANSIT_GATEWAY = "transit_gateway"
    """A router of a region, to which VPCs are attached."""
    PEERING = "peering"
    """A connection of two VPCs or of two transit gateways over the cloud's own network."""
    VPN = "vpn"
    """One or several tunnels between two VPCs or transit gateways, used together by ECMP."""
    INTERNET_GATEWAY = "internet_gateway"
    """The access of a VPC to the public internet, over which it reaches all others."""


class Element(Model):
    """One element. Fields of rate, delay and price that are left out have the cloud's values."""

    kind: ElementKind
    """What it is."""
    region: str | None = None
    """Region of a VPC or transit gateway, such as `us-west-2`."""
    nodes: tuple[Name, ...] = ()
    """Nodes in a VPC."""
    attachments: tuple[ElementName, ...] = ()
    """VPCs attached to a transit gateway, of its own region."""
    between: tuple[ElementName, ElementName] | None = None
    """The two VPCs or transit gateways that a peering or VPN joins."""
    vpc: ElementName | None = None
    """VPC of an internet gateway."""
    tunnel: TunnelKind | None = None
    """Implementation of a VPN's tunnels."""
    tunnels: Annotated[int, Field(ge=1, le=8)] = 1
    """Number of tunnels of a VPN; flows are spread over them by addresses and ports."""
    detour: Annotated[float, Field(ge=1, le=100)] = 2.5
    """Delay of the public internet, as a multiple of that between the regions."""
    rate: Rate | None = None
    """Cap in each direction: of a node in a VPC, an attachment, a peering, a tunnel, a gateway."""
    queue: Size | None = None
    """Bytes that can be queued at the cap. Default: 50 frames of 1514."""
    delay: Duration | None = None
    """One-way delay of a peering or VPN. Default: that between the regions."""
    hourly_usd: Usd | None = None
    """Price of an hour: of an attachment, of a VPN's tunnel, of a gateway."""
    gb_usd: Usd | None = None
    """Price of the GB that passes."""


class Cloud(Model):
    """A cloud between nodes of a topology. It becomes nodes, links and tunnels."""

    elements: dict[ElementName, Element]
    """Elements by name."""
    scale: Ratio = Ratio(1)
    """Share of every cap that the lab has, where the machine cannot carry it whole."""


@dataclass(frozen=True)
class Terms:
    """What an element's cap is and costs by default."""

    rate: Figure | None
    hourly: Figure | None
    gb: Figure | None


_PRICES: Final = "AWS's list prices"
_QUOTAS: Final = "AWS's quotas for transit gateways"
ATTACHMENT_CAP: Final = Figure(50, "Gbit/s", _QUOTAS, "2022")
"""What an attachment of a transit gateway carries, at least within one availability zone."""

DEFAULTS: Final[dict[ElementKind, Terms]] = {
    ElementKind.VPC: Terms(NOMINAL_RATE, None, None),
    ElementKind.TRANSIT_GATEWAY: Terms(
        ATTACHMENT_CAP,
        Figure(0.05, "USD/h", _PRICES, "2022"),
        Figure(0.02, "USD/GB", _PRICES, "2022"),
    ),
    ElementKind.PEERING: Terms(None, None, Figure(0.02, "USD/GB", _PRICES, "2022")),
    ElementKind.VPN: Terms(
        VPN_CAP,
        Figure(0.05, "USD/h", _PRICES, "2022"),
        Figure(0.02, "USD/GB", _PRICES, "2022"),
    ),
    ElementKind.INTERNET_GATEWAY: Terms(None, None, Figure(0.09, "USD/GB", _PRICES, "2022")),
}
"""By kind; a peering of transit gateways has the cap of an attachment."""


def cap(cloud: Cloud, element: Element) -> Rate | None:
    """Give an element's cap as the lab has it; None if there is none."""
    full = full_cap(cloud, element)
    return None if full is None else Rate(float(round(full * cloud.scale)))


def full_cap(cloud: Cloud, element: Element) -> Rate | None:
    """Give an element's cap before it is scaled."""
    if element.rate is not None:
        return element.rate
    default = DEFAULTS[element.kind].rate
    if element.kind is ElementKind.PEERING and _joins_gateways(cloud, element):
        default = ATTACHMENT_CAP
    return None if default is None else Rate(default.value * 1e9)


def _joins_gateways(cloud: Cloud, element: Element) -> bool:
    ends = [cloud.elements.get(name) for name in element.between or ()]
    return any(end is not None and end.kind is ElementKind.TRANSIT_GATEWAY for end in ends)


def pieces(element: Element) -> int:
    """Give how many of an element are paid by the hour: attachments, tunnels, else one."""
    if element.kind is ElementKind.TRANSIT_GATEWAY:
        return len(element.attachments)
    return element.tunnels if element.kind is ElementKind.VPN else 1
