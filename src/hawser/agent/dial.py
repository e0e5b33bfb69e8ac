"""TCP to the controller that goes before the traffic of hosts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

from hawser.overlay.config.shaping import class_id

_FIRST: Final = 0
"""The class of Type I (`overlay.sdwan.priority`)."""


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
    for family, kind, protocol, _, address in found:
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        with contextlib.suppress(PermissionError):  # without CAP_NET_ADMIN
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_id(_FIRST))
        try:
            await loop.sock_connect(opened, address)
        except BaseException as error:
            opened.close()
            if not isinstance(error, OSError):
                raise
            last = error
        else:
            return opened
    raise last
