"""Offloads of an interface, by the ethtool ioctl (linux/ethtool.h)."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

from pyroute2.ethtool import ioctl

_SEGMENTATION = (
    ioctl.ETHTOOL_STXCSUM,  # also takes the segmentation of UDP with it: both need checksums
    ioctl.ETHTOOL_STSO,
    ioctl.ETHTOOL_SGSO,
    ioctl.ETHTOOL_SGRO,
)


def disable_offload(interface: str) -> None:
    """Let no packet be larger than the MTU or without its checksum; in the thread's namespace.

    Raises:
        OSError: there is no such interface.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in _SEGMENTATION:
            _set(control, interface, command, 0)


def _set(control: socket.socket, interface: str, command: int, value: int) -> None:
    """Issue one `struct ethtool_value` request."""
    argument = array.array("B", struct.pack("II", command, value))
    address, _ = argument.buffer_info()
    request = struct.pack("16sP", interface.encode(), address)
    fcntl.ioctl(control, ioctl.SIOCETHTOOL, request)
