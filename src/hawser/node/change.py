"""Changes of a node's kernel, as data: they say what is to be so, and a node makes it so.

A node that is a namespace makes them through netlink; a remote host could be sent them as JSON.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from hawser.overlay.lab.plan import ShaperPlan
from hawser.spec.model import Model


class Settings(Model):
    """Kernel settings (sysctl) get these values, in this order."""

    values: dict[str, str]


class Device(Model):
    """An interface that a program made is brought up, and routes lead to it."""

    name: str
    networks: tuple[IPv4Network, ...]
    """Destinations of the routes; a route that there is already is replaced."""
    mtu: int | None = None
    """None leaves it as it is."""
    table: int | None = None
    """Routing table of the routes; None: the main one."""


class ShaperChange(Model):
    """A shaper turns into another one while traffic flows; what waits stays."""

    before: ShaperPlan | None
    """None where the interface has no shaper."""
    after: ShaperPlan
    """With the same classes."""
    up: dict[str, bool] = {}
    """Classes to be taken down (False) or brought back (True)."""


KernelChange = Settings | Device | ShaperChange
