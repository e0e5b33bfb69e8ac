"""How a shaper's rates and queues become a tree of HTB classes. Pure.

    interface
      1:    htb
      1:1     the whole: rate of the shaper
      1:10      first class: at most its own rate       -> 10:   its queue, in bytes
      1:11      second class                            -> 11:
      1:12      a marked class: nothing but a filter, so that it can be taken down like the others
        1:4012    where the filter leads                -> 12:
      1:8010    what the first class gets while it is down -> 8010: a queue of 0 bytes

A class borrows everything it sends from the whole, up to its own rate: HTB lets a class have its
*guaranteed* rate even where the classes together exceed the whole, so none is guaranteed. What is
to be had goes to the class with the lowest priority number first (strict priority).

Filters choose the class by the source address. A packet whose priority is the number of a class is
that class's, without any filter; HTB then asks the filters of that class, where it has some.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from hawser.overlay.config.shaping import class_id
from hawser.overlay.lab.plan import ClassPlan, ShaperPlan

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
_INNER = 0x4000
_DOWN = 0x8000


@dataclass(frozen=True)
class HtbClass:
    """Numbers of one HTB class. Rates in bytes a second, sizes in bytes."""

    rate: int
    ceil: int
    burst: int
    cburst: int
    quantum: int
    priority: int = 0
    """Who is offered first what is to be had: the lowest."""


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
    def mark(self) -> int | None:
        """HTB class that packets name by their priority, where they do."""
        return ROOT | self.minor if self.plan.marked else None

    @property
    def classid(self) -> int:
        """HTB class that takes the packets."""
        return ROOT | self.minor | (_INNER if self.plan.marked else 0)

    @property
    def parent(self) -> int:
        """HTB class from which it borrows."""
        return WHOLE if self.mark is None else self.mark

    @property
    def filtered_at(self) -> int:
        """Class whose filters choose it: the root's look at every packet that is not marked."""
        return ROOT if self.mark is None else self.mark

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


def filters(classes: tuple[Leaf, ...]) -> list[tuple[Leaf, int]]:
    """Give the filter of every class, in the order in which they are made, by u32's name for it.

    The root's filters come first, and ask for the longest source prefix first (800::1, 800::2).
    Those of each marked class have a table of their own, and there is one (801::1, 802::1).
    """
    plain = sorted(
        (leaf for leaf in classes if leaf.mark is None), key=lambda leaf: -_prefix(leaf.plan.source)
    )
    marked = [leaf for leaf in classes if leaf.mark is not None]
    tables = enumerate(marked, 0x801 if plain else 0x800)
    return [
        *((leaf, 0x800 << 20 | place) for place, leaf in enumerate(plain, 1)),
        *((leaf, table << 20 | 1) for table, leaf in tables),
    ]


def burst(rate: int) -> int:
    """Bytes that may leave at once: two frames, or what a late timer needs at this rate."""
    return max(2 * MTU_FRAME, math.ceil(rate * BURST_SECONDS))


def filter_keys(source: IPv4Network | IPv6Network | None) -> list[str]:
    """u32 keys `value/mask+offset` for IP packets from a network; None: for every frame."""
    if source is None:
        return ["0x0/0x0+0"]
    # The protocol is not looked at, and an ARP packet has other bytes there.
    version = f"{source.version << 4:#x}/0xf0+0"
    first = 12 if source.version == 4 else 8
    address, mask = source.network_address.packed, source.netmask.packed
    words = [
        f"0x{address[at : at + 4].hex()}/0x{mask[at : at + 4].hex()}+{first + at}"
        for at in range(0, len(mask), 4)
        if any(mask[at : at + 4])
    ]
    return [version, *words]


def packets_in_flight(leaf: Leaf) -> int:
    """Packets that netem must hold: those that wait and those under way (rate x delay)."""
    ceil = min(leaf.htb.ceil, UNLIMITED)
    seconds = float(leaf.plan.delay or 0) + 4 * float(leaf.plan.jitter or 0)
    return min(1_000_000, math.ceil((leaf.queue + ceil * seconds) / MTU_FRAME) + 1)


def _leaf(number: int, plan: ClassPlan) -> Leaf:
    ceil = _bytes(None if plan.queue_emulated else plan.rate)
    rate = min(GUARANTEED, ceil)
    htb = HtbClass(rate, ceil, 2 * MTU_FRAME, burst(ceil), MTU_FRAME, plan.priority)
    minor = class_id(number) & 0xFFFF
    return Leaf(plan.name, minor, plan, htb, math.floor(plan.queue or DEFAULT_QUEUE))


def _bytes(rate: float | None) -> int:
    return UNLIMITED if rate is None else max(1, round(rate / 8))


def _shaped(plan: ClassPlan) -> bool:
    kernels = plan.impaired and not plan.emulated
    limits = any(value is not None for value in (plan.rate, plan.queue, plan.source))
    return limits or kernels


def _prefix(source: IPv4Network | IPv6Network | None) -> int:
    return -1 if source is None else source.prefixlen
