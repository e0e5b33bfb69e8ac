"""The kernel's MPTCP path manager in one namespace (generic netlink family `mptcp_pm`)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from pyroute2 import MPTCP

from hawser.overlay.lab.plan import MptcpEndpoint

LIMIT = 8
"""Most subflows, and announced addresses, of a connection: `MPTCP_PM_ADDR_MAX` of the kernel."""

_FLAGS = {"signal": 1, "subflow": 2, "fullmesh": 8}
"""`MPTCP_PM_ADDR_FLAG_*` of linux/mptcp.h."""


def configure(endpoints: Iterable[MptcpEndpoint], index: Mapping[str, int]) -> None:
    """Allow as many subflows as the kernel can, and set endpoints; in the thread's namespace.

    Args:
        endpoints: In the order in which the kernel shall use them.
        index: Interface index by name.

    Raises:
        NetlinkError: the kernel refuses.
    """
    with MPTCP() as manager:
        manager.limits("set", subflows=LIMIT, rcv_add_addrs=LIMIT)
        for endpoint in endpoints:
            manager.endpoint(
                "add",
                addr=str(endpoint.address),
                flags=sum(_FLAGS[flag] for flag in set(endpoint.flags)),
                **_device(endpoint, index),
            )


def _device(endpoint: MptcpEndpoint, index: Mapping[str, int]) -> dict[str, bytes]:
    name = endpoint.interface
    return {} if name is None else {"if_idx": struct.pack("=i", index[name])}
