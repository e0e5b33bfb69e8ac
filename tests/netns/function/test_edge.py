"""A host at an edge port forges the headers of a chain: nothing gets past the chain.

client 10.0.0.1 ---- sff ---- 10.0.0.2 server
 writes frames        |
                     f1                  (drawn in lab/function/chain.py)
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.function.chain import FORWARD, Chain
from lab.function.srv6 import FORWARD as SEGMENT
from lab.function.srv6 import REVERSE, Srv6
from lab.traffic.forged import (
    IPV4,
    IPV6,
    MARK,
    NSH,
    ROUTING,
    UDP,
    VLAN,
    Tap,
    frame,
    ipv4,
    ipv6,
    nsh,
    srh,
    udp,
    vxlan_gpe,
)
from lab.waiting import until

pytestmark = pytest.mark.root

_SFF, _FUNCTION, _STRANGER = "192.0.2.101", "192.0.2.1", "192.0.2.66"


def _plain(mark: bytes) -> bytes:
    """What the client may send: it passes the chain."""
    return frame(IPV4, ipv4("10.0.0.1", "10.0.0.2", udp(9, 9, mark)))


def _service() -> bytes:
    """An NSH that leads past the function, to the end of the path."""
    return nsh(FORWARD, 254, _plain(MARK))


def _forged() -> Iterator[tuple[str, bytes]]:
    """The cause of a drop, and a frame."""
    yield "untrusted_nsh", frame(NSH, _service())
    yield "untrusted_nsh", frame(NSH, _service(), (VLAN,))
    yield "untrusted_nsh", frame(NSH, _service(), (0x88A8, VLAN))
    gpe = vxlan_gpe(_FUNCTION, _SFF, _service())
    yield "untrusted_vxlan_gpe", frame(IPV4, gpe)
    yield "untrusted_vxlan_gpe", frame(IPV4, gpe, (VLAN,))
    yield "untrusted_vxlan_gpe", frame(IPV4, vxlan_gpe("10.0.0.1", "10.0.0.2", _service()))
    listed = srh(["5f00::1", "5f00::2"], 1, UDP, udp(9, 9))
    yield "untrusted_srh", frame(IPV6, ipv6("fd00::1", "5f00::1", listed, ROUTING))


def test_forged_headers_lead_past_no_function() -> None:
    with (
        Chain(1, "vxlan_gpe") as chain,
        Tap(chain.namespace("client"), "c0") as host,
        Tap(chain.namespace("server"), "s0") as server,
    ):
        for cause, sent in _forged():
            before = chain.sff.counters()["drops"][cause]
            host.send(sent)
            until(lambda c=cause, b=before: chain.sff.counters()["drops"][c] == b + 1, cause)
        host.send(_plain(b"what hosts may send"))
        seen = server.frame_with(b"what hosts may send")
        assert seen is not None
        assert server.frame_with(MARK, 0.5) is None
        served = chain.functions[0].counters()["served"]["packets"]
        assert served == 1, "only what hosts may send"


def test_a_stranger_between_forwarder_and_function_is_told_apart() -> None:
    with (
        Chain(1, "vxlan_gpe") as chain,
        Tap(chain.namespace("f1"), "f0") as function,
        Tap(chain.namespace("server"), "s0") as server,
    ):
        function.send(frame(IPV4, vxlan_gpe(_STRANGER, _SFF, _service())))
        until(lambda: chain.sff.counters()["drops"]["unknown_forwarder"] == 1)
        function.send(frame(IPV4, vxlan_gpe(_FUNCTION, _SFF, _service())))
        assert server.frame_with(MARK) is not None, "from the function it is accepted"


@pytest.mark.parametrize("behaviour", ["static", "dynamic"])
def test_a_function_cannot_enter_segments_or_teach_a_proxy(behaviour: str) -> None:
    with Srv6(behaviour) as lab:
        lab.set_end(4)
        assert lab.answered(4, 2) == 2
        learned = [each["learned"] for each in lab.proxy.counters()["proxies"]]
        inside = ipv4("10.1.0.1", "10.2.0.1", udp(9, 9))
        for number, (interface, segment) in enumerate((("f0", SEGMENT), ("f1", REVERSE)), 1):
            listed = srh([segment, "5f00:dead::1"], 1, 4, inside)
            with Tap(lab.namespace("fn"), interface) as function:
                function.send(frame(IPV6, ipv6("fd00::66", segment, listed, ROUTING)))
            until(lambda n=number: lab.proxy.counters()["drops"]["untrusted_srh"] == n)
        counters = lab.proxy.counters()["proxies"]
        assert [each["learned"] for each in counters] == learned
        assert lab.answered(4, 2) == 2
