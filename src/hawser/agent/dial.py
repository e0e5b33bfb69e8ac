"""TCP to the controller that goes before the traffic of hosts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final

from hawser.overlay.config.shaping import class_id

_FIRST: Final = 0
"""The class of Type I (`overlay.sdwan.priority`)."""
_EACH_S: Final = 3.0
"""Time for one address of several, of which some may be unreachable."""


async def dial(host: str, port: int) -> socket.socket:
    """Connect, with packets in the first class of ports that are shaped.

    In the last one, as all that has no mark, reports of a full port would wait until it is empty:
    the very ones by which the controller could relieve it.

    Raises:
        OSError: no address of the host is reached.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    last = OSError(f"{host} has no address")
    for family, *_, address in found:
        try:
            return await _connected(family, address)
        except OSError as error:
            last = error
    raise last


async def _connected(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        with contextlib.suppress(PermissionError):  # without CAP_NET_ADMIN
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_id(_FIRST))
        connecting = asyncio.get_running_loop().sock_connect(opened, address)
        await asyncio.wait_for(connecting, _EACH_S)
    except BaseException:
        opened.close()
        raise
    return opened
