"""How a shaper's rates and queues become a tree of HTB classes. Pure.

    interface
      1:    htb
      1:1     the whole: rate of the shaper
      1:10      first class: at most its own rate       -> 10:   its queue, in bytes
      1:11      second class                            -> 11:
      1:8010    what the first class gets while it is down -> 8010: a queue of 0 bytes

A class borrows everything it sends from the whole, up to its own rate: HTB lets a class have its
*guaranteed* rate even where the classes together exceed the whole, so none is guaranteed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import IPv4Network

from hawser.overlay.plan import ClassPlan, ShaperPlan

MTU_FRAME = 1514
"""Bytes of an Ethernet frame of 1500 bytes, as the kernel counts it."""

DEFAULT_QUEUE = 50 * MTU_FRAME
"""Bytes that may wait where a plan does not say (see `Channel.queue`)."""

UNLIMITED = 12_500_000_000
"""Bytes a second that no interface here reaches (100 Gbit/s)."""

GUARANTEED = 125
"""Bytes a second that a class has without borrowing; HTB wants more than none."""

BURST_SECONDS = 0.001
"""A late timer loses what the burst cannot hold; the kernel's are late by 0.1 to 0.25 ms on a
loaded two-core machine."""

ROOT = 0x1_0000
WHOLE = ROOT | 0x1
_FIRST = 0x10
_DOWN = 0x8000


@dataclass(frozen=True)
class HtbClass:
    """Numbers of one HTB class. Rates in bytes a second, sizes in bytes."""

    rate: int
    ceil: int
    burst: int
    cburst: int
    quantum: int


@dataclass(frozen=True)
class Leaf:
    """One class of a shaper, ready for the kernel."""

    name: str
    minor: int
    plan: ClassPlan
    htb: HtbClass
    queue: int
    """Bytes that may wait."""

    @property
    def classid(self) -> int:
        """HTB class that takes the packets."""
        return ROOT | self.minor

    @property
    def handle(self) -> int:
        """Its queue."""
        return self.minor << 16

    @property
    def down_classid(self) -> int:
        """HTB class that takes them while the class is down."""
        return ROOT | _DOWN | self.minor

    @property
    def down_handle(self) -> int:
        """The queue that lets nothing through."""
        return (_DOWN | self.minor) << 16

    @property
    def impaired(self) -> bool:
        """Whether netem must delay, lose or duplicate its packets."""
        return not self.plan.emulated and self.plan.impaired


def needs_tree(shaper: ShaperPlan) -> bool:
    """Whether a shaper limits or tells apart anything; else the interface's counters say all."""
    return shaper.rate is not None or len(shaper.classes) != 1 or _shaped(shaper.classes[0])


def whole(shaper: ShaperPlan) -> HtbClass:
    """HTB class that all classes of a shaper borrow from."""
    rate = _bytes(shaper.rate)
    return HtbClass(rate, rate, burst(rate), burst(rate), MTU_FRAME)


def leaves(shaper: ShaperPlan) -> tuple[Leaf, ...]:
    """Classes of a shaper, in the plan's order."""
    return tuple(_leaf(number, plan) for number, plan in enumerate(shaper.classes))


def by_precedence(classes: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """In the order in which filters must ask: longest source prefix first, the rest last."""
    return tuple(sorted(classes, key=lambda leaf: -_prefix(leaf.plan.source)))


def burst(rate: int) -> int:
    """Bytes that may leave at once: two frames, or what a late timer needs at this rate."""
    return max(2 * MTU_FRAME, math.ceil(rate * BURST_SECONDS))


def filter_keys(source: IPv4Network | None) -> list[str]:
    """u32 keys `value/mask+offset` for IPv4 packets from a network; None: for every frame."""
    if source is None:
        return ["0x0/0x0+0"]
    version = (
        "0x40/0xf0+0"  # the protocol is not looked at, and an ARP packet has other bytes there
    )
    if source.prefixlen == 0:
        return [version]
    return [version, f"{int(source.network_address):#010x}/{int(source.netmask):#010x}+12"]


def packets_in_flight(leaf: Leaf) -> int:
    """Packets that netem must hold: those that wait and those under way (rate x delay)."""
    ceil = min(leaf.htb.ceil, UNLIMITED)
    seconds = float(leaf.plan.delay or 0) + 4 * float(leaf.plan.jitter or 0)
    return min(1_000_000, math.ceil((leaf.queue + ceil * seconds) / MTU_FRAME) + 1)


def _leaf(number: int, plan: ClassPlan) -> Leaf:
    ceil = _bytes(plan.rate)
    rate = min(GUARANTEED, ceil)
    htb = HtbClass(rate, ceil, 2 * MTU_FRAME, burst(ceil), MTU_FRAME)
    return Leaf(plan.name, _FIRST + number, plan, htb, math.floor(plan.queue or DEFAULT_QUEUE))


def _bytes(rate: float | None) -> int:
    return UNLIMITED if rate is None else max(1, round(rate / 8))


def _shaped(plan: ClassPlan) -> bool:
    kernels = plan.impaired and not plan.emulated
    limits = any(value is not None for value in (plan.rate, plan.queue, plan.source))
    return limits or kernels


def _prefix(source: IPv4Network | None) -> int:
    return -1 if source is None else source.prefixlen
