"""Configuration of `hawserd function ipsec` (schemas/ipsec-config.schema.json)."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal

from hawser.overlay.config.base import Configuration, Need, Part, Place, Port16, omit


class Rekey(Part):
    """How keys are renewed."""

    command: tuple[str, ...]
    """Asks charon for new ones."""
    after: Annotated[int, omit(1 << 31)] = 1 << 31
    """Packets sealed with one key."""


class Ike(Part):
    """The charon that negotiates keys."""

    command: tuple[str, ...]
    """Starts it."""
    port: Port16
    """UDP port on which it listens."""
    peer_port: Port16
    """That of the other end."""
    rekey: Rekey | None


class IpsecConfig(Configuration):
    """One end of a tunnel."""

    control: Place
    """Unix socket of the control API."""
    device: str
    """TUN device for packets that go in."""
    mtu: int
    """Of a packet inside."""
    interface: str
    local: IPv4Address
    remote: IPv4Address
    dscp: Annotated[Literal["copy", "zero"], omit("copy")] = "copy"
    """DSCP of outer packets."""
    ike: Ike

    def needs(self) -> frozenset[Need]:
        """Give what a machine must have for it."""
        return frozenset({"hawserd", "tun"})
