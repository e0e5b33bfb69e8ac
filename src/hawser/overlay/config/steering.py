"""Service functions at a gateway, which its agent leads traffic through.

The agent takes this part out of the document that it gets; `hawserd gateway` knows nothing of it.
An agent that does not know it either refuses the document, as it refuses every unknown field.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Final

from hawser.overlay.config.base import Part
from hawser.overlay.config.gateway import Carried

FIELD: Final = "steering"
"""Its name in the document."""


class Function(Part):
    """A function that routes, at interfaces of its own."""

    name: str
    interface: str
    """To which packets from the branch are sent, and by which those to it come back."""
    next_hop: IPv4Address
    """The function's address there."""
    return_interface: str
    """By which packets from the branch come back, and to which those to it are sent."""
    return_next_hop: IPv4Address


class Steering(Part):
    """Chains at a gateway."""

    lan: str
    """The LAN's interface."""
    chains: Mapping[Carried, tuple[Function, ...]]
    """Functions of each class, in the order in which packets from the branch pass them."""
