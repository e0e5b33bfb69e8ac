"""What a scenario asks of the machine it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from hawser.spec.chain import Chain, LastSegment, Steering
from hawser.spec.check.topology import channels
from hawser.spec.measurement import Iperf3, Protocol
from hawser.spec.overlay import Transport
from hawser.spec.workflow import Scenario


class Feature(StrEnum):
    """Something that not every kernel has."""

    WAN = "wan"
    """More than a rate, such as delay or loss: netem, or the WAN emulator."""
    HTB = "htb"
    """A rate."""
    MPTCP = "mptcp"
    """Multipath TCP sockets."""
    TUN = "tun"
    """A gateway's TUN device."""
    XDP = "xdp"
    """Programs in the driver of a port, which lead packets by NSH."""
    SEG6 = "seg6"
    """Segment routing over IPv6."""
    VRF = "vrf"
    """Routing tables with a device, for the last segments of chains."""


def needs(scenario: Scenario) -> frozenset[Feature]:
    """Give the features that a scenario cannot do without."""
    return frozenset(_needs(scenario))


def _needs(scenario: Scenario) -> Iterator[Feature]:
    for _, channel in channels(scenario.topology):
        if channel.impaired:
            yield Feature.WAN
        if channel.rate is not None:
            yield Feature.HTB
    if any(
        isinstance(m, Iperf3) and m.protocol is Protocol.MPTCP
        for m in scenario.measurements.values()
    ):
        yield Feature.MPTCP
    if scenario.overlay is not None and scenario.overlay.transport is not Transport.NONE:
        yield Feature.TUN
        if scenario.overlay.transport is Transport.MPTCP:
            yield Feature.MPTCP
    for chain in scenario.chains.values():
        yield from _leads(chain)


def _leads(chain: Chain) -> Iterator[Feature]:
    if chain.steering is Steering.NSH:
        yield Feature.XDP
    if chain.steering is Steering.SRV6:
        yield Feature.SEG6
        if chain.segments.last is not LastSegment.CROSS_CONNECT:
            yield Feature.VRF
