"""u32 filters that look at the Ethernet header, which pyroute2 cannot write.

u32 counts bytes from the IP header; the Ethernet header is before it, at -14 to -1.
"""

from __future__ import annotations

import struct
import types
from typing import cast

from pyroute2.netlink.rtnl.tcmsg import cls_u32, plugins

_SENDER = 248
"""-8, the sender's address, as pyroute2 counts: down from 256."""
_BEFORE = 128
_HEADER, _KEY, _PLACE = 20, 16, 8
"""Bytes of a selector with its attribute's header, of a key, and in a key before its place."""


class _Selector(cls_u32.options.u32_sel):  # type: ignore[misc] # pyroute2 has no types
    def encode(self) -> None:
        """Write the keys; places from 128 up are before the IP header."""
        super().encode()
        for number in range(self["nkeys"]):
            at = self.offset + _HEADER + number * _KEY + _PLACE
            (place,) = struct.unpack_from("=i", self.data, at)
            if place >= _BEFORE:
                struct.pack_into("=i", self.data, at, place - 256)


class _Options(cls_u32.options):  # type: ignore[misc]
    u32_sel = _Selector


_plugin = types.SimpleNamespace(**{**vars(cls_u32), "options": _Options})
plugins["u32"] = cast("types.ModuleType", _plugin)


def sender_keys(mark: int) -> list[str]:
    """Keys for frames whose sender has an address of a lab with this mark in its second byte."""
    return [f"{0x02_00_00_00 | mark << 16:#010x}/0xffff0000+{_SENDER}"]
