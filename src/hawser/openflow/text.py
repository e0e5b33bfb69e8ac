"""Flows as lines of ovs-ofctl(8), for a gateway that installs them itself.

The cookies are those that the controller computes, so it finds such flows as it wants them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hawser.overlay.sdwan.flow import Flow, Value

_NAMES: Final = {
    "eth_dst": "dl_dst",
    "eth_src": "dl_src",
    "eth_type": "dl_type",
    "eth_type_nxm": "dl_type",
    "icmpv4_type": "icmp_type",
    "ip_proto": "nw_proto",
    "ipv4_dst": "nw_dst",
    "ipv4_src": "nw_src",
}
"""Fields whose names differ from OXM's in ovs-fields(7)."""
_WRITTEN: Final = {"ipv4_dst": "ip_dst", "ipv4_src": "ip_src"}
_ANY_FRAGMENT: Final = "nw_frag=yes"
_WHOLE_PACKET: Final = 0xFFE5
"""Most bytes of a packet sent to the controller (max_len)."""


def lines(flows: Iterable[Flow]) -> Iterator[str]:
    """Give a line for each flow."""
    return map(_line, flows)


def _line(flow: Flow) -> str:
    head = (f"cookie={flow.cookie:#x}", f"table={flow.table}", f"priority={flow.priority}")
    match = (_field(name, value) for name, value in flow.match.items())
    return ",".join((*head, *match, f"actions={','.join(_actions(flow))}"))


def _field(name: str, value: Value) -> str:
    if name == "ip_frag":
        return _ANY_FRAGMENT
    name = _NAMES.get(name, name)
    if isinstance(value, tuple):
        return f"{name}={value[0]:#x}/{value[1]:#x}"
    return f"{name}={value:#x}" if name == "dl_type" else f"{name}={value}"


def _actions(flow: Flow) -> Iterator[str]:
    if flow.goto is not None:
        yield f"goto_table:{flow.goto}"
    elif flow.output is None:
        yield "drop"
    else:
        for name, value in flow.write:
            yield f"set_field:{value}->{_WRITTEN.get(name, name)}"
        if flow.decrement:
            yield "dec_ttl"
        yield f"output:{flow.output}"
        if flow.report:
            yield f"controller(max_len={_WHOLE_PACKET})"
