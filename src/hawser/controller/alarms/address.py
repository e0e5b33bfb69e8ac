"""Where alarms may be sent: public addresses, and the networks that `controller.json` allows.

Whoever may add a receiver could else have the controller ask any service that it reaches, such as
the metadata service of a cloud (server-side request forgery). The name is resolved once, and the
connection goes to the address that was checked: another answer of the DNS changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Networks = Sequence[IPv4Network | IPv6Network]
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are an IPv4 address."""


class Undeliverable(Exception):  # noqa: N818 (a message's state, not a mistake here)
    """A message that was not delivered, and why."""


async def checked(host: str, port: int, networks: Networks) -> str:
    """Give an address of a host to which alarms may be sent.

    Raises:
        Undeliverable: it has none.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Undeliverable(f"{host}: {getattr(error, 'strerror', None) or error}") from error
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    allowed = next((each for each in addresses if is_allowed(each, networks)), None)
    if allowed is None:
        where = f"{host} is not at a public address"
        raise Undeliverable(f"{where}; alarms.networks in controller.json allows others")
    return str(allowed)


def is_allowed(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    """Tell whether alarms may be sent to an address."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_allowed(inner, networks)
    if any(address.version == each.version and address in each for each in networks):
        return True
    tunnelled = isinstance(address, IPv6Address) and address.teredo is not None
    return address.is_global and not address.is_multicast and not tunnelled
