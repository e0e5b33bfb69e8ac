"""Changes of a node's kernel as data, which a node applies.

A node that is a namespace makes them through netlink; a remote host could be sent them as JSON.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from hawser.overlay.lab.plan import ShaperPlan
from hawser.spec.model import Model


class Settings(Model):
    """Sets kernel settings (sysctl), in this order."""

    values: dict[str, str]


class Device(Model):
    """Brings up an interface created by a program, and adds routes to it."""

    name: str
    networks: tuple[IPv4Network, ...]
    """Destinations of the routes; existing routes are replaced."""
    mtu: int | None = None
    """None leaves it as it is."""
    table: int | None = None
    """Routing table of the routes; None: the main one."""


class ShaperChange(Model):
    """Replaces a shaper by another while traffic flows; queued packets stay."""

    before: ShaperPlan | None
    """None if the interface has no shaper."""
    after: ShaperPlan
    """With the same classes."""
    up: dict[str, bool] = {}
    """Classes to be taken down (False) or brought back (True)."""


KernelChange = Settings | Device | ShaperChange
