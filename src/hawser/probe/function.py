"""Counters of service functions and forwarders in a trial, by the names of the workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hawser.control.model import FunctionCounters, PlaceCounters
from hawser.overlay.lab.plan import ChainPlan, ServicePathPlan
from hawser.store.sample import Sample

_FIRST_INDEX = 255

Place = tuple[str, int, int]
"""`classified` or `led`, path and index."""


def samples(
    name: str, chains: Iterable[ChainPlan], before: FunctionCounters, after: FunctionCounters
) -> Iterator[Sample]:
    """Give the counts of a daemon between two readings.

    Packets that a forwarder sent to a function are `led_packets` of
    `chain:NAME:DIRECTION:FORWARDER:FUNCTION`, those that left the chain there of `...:end`; packets
    that entered a chain are `classified_packets` of `chain:NAME:DIRECTION`. Packets that a proxy
    sent to its function and received back are `toward_packets` and `returned_packets` of
    `chain:NAME:DIRECTION:PROXY`. Packets encrypted and decrypted by an IPsec function are
    `sealed_packets` and `opened_packets` of `daemon:NAME:ENGINE`, with the ESP implementation.
    """
    daemon = f"daemon:{name}"
    served = after.served.packets - before.served.packets
    if after.served.packets:
        yield _sample("served_packets", served, daemon)
    if after.engine is not None:
        engine = f"{daemon}:{after.engine}"
        yield _sample("sealed_packets", after.sealed.packets - before.sealed.packets, engine)
        yield _sample("opened_packets", after.opened.packets - before.opened.packets, engine)
    service_paths = {sfp.number: sfp for chain in chains for sfp in chain.service_paths}
    earlier = dict(_places(before))
    for place, packets in _places(after):
        added = packets - earlier.get(place, 0)
        yield _sample(f"{place[0]}_packets", added, _subject(service_paths, place, name))
    for ours, theirs in zip(before.proxies, after.proxies, strict=False):
        for sfp in service_paths.values():
            if ours.segment == theirs.segment and theirs.segment in sfp.segments:
                subject = f"chain:{sfp.name}:{name}"
                toward = theirs.toward.packets - ours.toward.packets
                returned = theirs.returned.packets - ours.returned.packets
                yield _sample("toward_packets", toward, subject)
                yield _sample("returned_packets", returned, subject)
    for cause, value in after.drops.items():
        yield _sample(f"drop_{cause}", value - before.drops.get(cause, 0), daemon)


def _places(counters: FunctionCounters) -> Iterator[tuple[Place, int]]:
    kinds: tuple[tuple[str, tuple[PlaceCounters, ...]], ...] = (
        ("classified", counters.classified),
        ("led", counters.hops),
    )
    for kind, places in kinds:
        for each in places:
            yield (kind, each.spi, each.si), each.packets


def _subject(service_paths: Mapping[int, ServicePathPlan], place: Place, daemon: str) -> str:
    kind, spi, si = place
    sfp = service_paths[spi]
    if kind == "classified":
        return f"chain:{sfp.name}"
    passed = _FIRST_INDEX - si
    to = sfp.functions[passed] if passed < len(sfp.functions) else "end"
    return f"chain:{sfp.name}:{daemon}:{to}"


def _sample(metric: str, value: int, subject: str) -> Sample:
    return Sample(
        measurement="passive", metric=metric, unit="packets", value=float(value), subject=subject
    )
