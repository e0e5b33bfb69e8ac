"""The paths of an internet as strands of a picture, and short labels for their channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hawser.spec.topology import Channel, Internet, Topology
from hawser.spec.units import Quantity

_MOST_STRANDS = 8
"""With more paths than this, they are not drawn individually."""
_MOST_VALUES = 4
"""Most values of one element that its label lists; with more it says that they vary."""


@dataclass(frozen=True)
class Strand:
    """A path between two WAN ports, left to right."""

    name: str
    left: str
    right: str
    label: str
    rate: float
    """Bit/s; 0 if unlimited."""


def strands_of(topologies: Sequence[Topology], order: Sequence[str]) -> list[Strand]:
    """The paths between two gateways, or an empty list if there are too many to draw."""
    internet = topologies[0].internet
    if internet is None or len(order) != 2:
        return []
    found = []
    for name, ends in _named(internet, order).items():
        left, right = sorted(ends, key=lambda port: order.index(port.split(".")[0]))
        channels = [path_channels(t.internet, name) for t in topologies if t.internet is not None]
        rates = [float(c.rate) for c, _ in channels if c.rate is not None]
        label = varying([channel_text(*pair) for pair in channels]) or "no limit"
        found.append(Strand(name, left, right, label, sum(rates) / len(rates) if rates else 0.0))
    return found if len(found) <= _MOST_STRANDS else []


def _named(internet: Internet, order: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The paths described between the two gateways, or every pair of ports if none is."""
    if internet.paths:
        return {
            name: path.ends
            for name, path in internet.paths.items()
            if {end.split(".")[0] for end in path.ends} == set(order)
        }
    sides = [[p for p in internet.ports if p.split(".")[0] == name] for name in order]
    return {f"{a.split('.')[1]}-{b.split('.')[1]}": (a, b) for a in sides[0] for b in sides[1]}


def path_channels(internet: Internet, name: str) -> tuple[Channel, Channel | None]:
    """Channel of a path and its reverse overrides; the default channel if not described."""
    path = internet.paths.get(name)
    return (internet.path, None) if path is None else (path, path.reverse)


def channel_text(channel: Channel, reverse: Channel | None) -> str:
    """Short label of a channel: rate, delay, jitter and loss."""
    parts = [
        _both(channel.rate, reverse.rate if reverse else None),
        _both(channel.delay, reverse.delay if reverse else None),
    ]
    if channel.jitter is not None:
        parts.append(f"± {channel.jitter}")
    if channel.loss is not None:
        parts.append(f"{channel.loss} loss")
    return ", ".join(filter(None, parts))


def _both(forward: Quantity | None, back: Quantity | None) -> str:
    if back is None or back == forward:
        return "" if forward is None else str(forward)
    return f"{forward or 'no limit'} / {back}"


def varying(labels: Sequence[str]) -> str:
    """Join the labels of different variants into one, with a common unit written once."""
    found = list(dict.fromkeys(labels))
    if len(found) == 1:
        return found[0]
    if len(found) > _MOST_VALUES:
        return "varies"
    units = {label.partition(" ")[2] for label in found}
    if len(units) == 1 and "" not in units:
        numbers = " · ".join(label.partition(" ")[0] for label in found)
        return f"{numbers} {units.pop()}"
    return " · ".join(label or "no limit" for label in found)
