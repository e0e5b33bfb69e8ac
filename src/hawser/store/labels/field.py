"""Fields of the public data sets."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import Final

from hawser.store.labels.rows import Network, Ports

_HAVE_PORTS: Final = (6, 17)
_LARGEST_PORT: Final = 0xFFFF
_NAME_MAX: Final = 63


def host(text: str) -> Network:
    """Parse an address.

    Raises:
        ValueError: it is none.
    """
    return ip_network(ip_address(text))


def port(text: str, protocol: int) -> Ports:
    """Parse a port, decimal or hexadecimal; 0 for protocols that have none.

    Raises:
        ValueError: it is none.
    """
    if protocol not in _HAVE_PORTS or text in ("-", ""):
        return Ports(0, 0)
    found = int(text, 16) if text.lower().startswith("0x") else int(text)
    if not 0 <= found <= _LARGEST_PORT:
        raise ValueError(f"found {text!r}, expected a port, 0 to {_LARGEST_PORT}")
    return Ports(found, found)


def name(text: str) -> str:
    """Write a set's name of an attack as a label: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_NAME_MAX] or "attack"
