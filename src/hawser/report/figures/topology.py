"""The picture of a topology: nodes, links, and the internet with its paths as strands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hawser.report.figures.place import CLOUD, gateways, place
from hawser.report.figures.scene import (
    BOLD,
    Anchor,
    Box,
    Curve,
    Disc,
    Item,
    Point,
    Scene,
    Text,
    fit,
    text_width,
)
from hawser.report.figures.strands import Strand, channel_text, path_channels, strands_of, varying
from hawser.report.words import count
from hawser.spec.port import Port
from hawser.spec.topology import Internet, Topology
from hawser.spec.workflow import Workflow

_NODE = (92.0, 46.0)
_STRAND = 44.0


@dataclass(frozen=True)
class Canvas:
    """Maps places to pixels. `along` points right on a wide page and down on a narrow one."""

    wide: bool
    along: float
    """Pixels between two layers."""
    across: float
    """Pixels between neighbours in a layer."""
    origin: Point
    """Pixel of place (0, 0)."""
    node: Point
    """Width and height of a node's box."""
    room: float
    """Width available for the text at a link, in pixels."""
    around: float
    """`across` coordinate at which a link bypasses the nodes between its ends."""

    def at(self, along: float, across: float) -> Point:
        """Point at which a place is drawn."""
        a, b = along * self.along, across * self.across
        x, y = self.origin
        return (x + a, y + b) if self.wide else (x + b, y + a)


def picture(workflow: Workflow, width: float) -> Scene:
    """Draw the topology that the variants of a workflow run on.

    Where variants differ, the label lists the values of all of them.
    """
    topologies = [variant.scenario.topology for variant in workflow.variants]
    first = workflow.variants[0].scenario
    ends = next(iter(first.measurements.values()))
    source, target = ends.source.split(".")[0], ends.target.split(".")[0]
    places = place(first.topology, source)
    strands = strands_of(topologies, [name for name in places if name in gateways(first.topology)])
    hops = [[places[e.split(".")[0]][0] for e in li.ends] for li in first.topology.links.values()]
    detour = any(abs(a - b) > 1 for a, b in hops)
    canvas, height = _canvas(places, len(strands), width, detour)
    items = [
        *_links(topologies, canvas, places),
        *_internet(topologies, canvas, places, strands),
        *(_node_items(first.topology, canvas, places, {source: "source", target: "target"})),
    ]
    return Scene(width, height, "Topology", _describe(topologies), tuple(items))


def _canvas(
    places: dict[str, Point], strands: int, width: float, detour: bool
) -> tuple[Canvas, float]:
    """The canvas for a width, and its height. `detour` adds room for links that bypass nodes."""
    layers = max(along for along, _ in places.values()) + 1
    most = 2 * max(abs(across) for _, across in places.values()) + 1
    if width > 700:
        across = max(most * 70, strands * _STRAND + 70, 120.0) + (90 if detour else 0)
        step = (width - _NODE[0] - 8) / max(layers - 1, 1)
        origin = (_NODE[0] / 2 + 4, across / 2)
        room, around = max(step - _NODE[0] - 8, 40), (16 - across / 2) / 70
        return Canvas(True, step, 70, origin, _NODE, room, around), across
    step = 128.0
    height = step * (layers - 1) + _NODE[1] + 8
    beside = min((width - 4) / most, 120)
    node = (min(_NODE[0], beside - 8), _NODE[1])
    origin, around = (width / 2, node[1] / 2 + 4), (8 - width / 2) / beside
    return Canvas(False, step, beside, origin, node, beside - 20, around), height


def _node_items(
    topology: Topology, canvas: Canvas, places: dict[str, Point], roles: dict[str, str]
) -> list[Item]:
    items: list[Item] = []
    at_internet = gateways(topology)
    for name, spot in places.items():
        if name == CLOUD:
            continue
        x, y = canvas.at(*spot)
        w, h = canvas.node
        kind = _at_internet(topology, name) if name in at_internet else roles.get(name, "node")
        fill = "gateway" if name in at_internet else "node"
        items.append(Box(x - w / 2, y - h / 2, w, h, fill, "nodeline", 9))
        items.append(Text(x, y - 1, fit(name, 14, w - 10), "ink", 14, "middle", bold=True))
        items.append(Text(x, y + 15, kind, "muted", 11.5, "middle"))
    return items


def _at_internet(topology: Topology, node: str) -> str:
    ports = topology.internet.ports.items() if topology.internet else ()
    behind = any(port.node == node and access.nat for port, access in ports)
    return "gateway, NAT" if behind else "gateway"


def _links(topologies: Sequence[Topology], canvas: Canvas, places: dict[str, Point]) -> list[Item]:
    items: list[Item] = []
    for name, link in topologies[0].links.items():
        one, other = (places[end.split(".")[0]] for end in link.ends)
        middle = (one[0] + other[0]) / 2, (one[1] + other[1]) / 2
        if abs(one[0] - other[0]) > 1:
            middle = middle[0], canvas.around
        a, b, (x, y) = canvas.at(*one), canvas.at(*other), canvas.at(*middle)
        items.append(_bow(a, b, (x, y)))
        found = [t.links[name] for t in topologies if name in t.links]
        lines = _wrapped(varying([channel_text(each, each.reverse) for each in found]), canvas.room)
        if canvas.wide:
            items += _lines(lines, x, y - 8 - 14 * (len(lines) - 1), "middle")
        else:
            items += _lines(lines, x + 9, y + 4 - 7 * (len(lines) - 1), "start")
    return items


def _bow(a: Point, b: Point, middle: Point) -> Item:
    """A cable through a point: straight, or bent around the nodes between its ends."""
    ends = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    dx, dy = (middle[0] - ends[0]) * 4 / 3, (middle[1] - ends[1]) * 4 / 3
    return Curve((a, (a[0] + dx, a[1] + dy), (b[0] + dx, b[1] + dy), b), "link", 2)


def _lines(lines: Sequence[str], x: float, y: float, anchor: Anchor) -> list[Item]:
    return [Text(x, y + 14 * i, line, "muted", 11.5, anchor) for i, line in enumerate(lines)]


def _internet(
    topologies: Sequence[Topology],
    canvas: Canvas,
    places: dict[str, Point],
    strands: Sequence[Strand],
) -> list[Item]:
    internet = topologies[0].internet
    if internet is None:
        return []
    if len(gateways(topologies[0])) == 2 and strands:
        return _rope(topologies, canvas, places, strands)
    return _star(internet, canvas, places)


def _rope(
    topologies: Sequence[Topology],
    canvas: Canvas,
    places: dict[str, Point],
    strands: Sequence[Strand],
) -> list[Item]:
    """Join two gateways by one strand through the cloud per path."""
    middle = places[CLOUD][0]
    lanes = [index - (len(strands) - 1) / 2 for index in range(len(strands))]
    gap = _STRAND if canvas.wide else min(_STRAND * 2, (2 * canvas.origin[0] - 40) / len(strands))
    items: list[Item] = [_cloud(canvas, middle, len(strands) * gap)]
    fastest = max(strand.rate for strand in strands) or 1.0
    ports = _port_points(topologies[0], canvas, places)
    for lane, strand in zip(lanes, strands, strict=True):
        thick = 1.6 + 4.4 * strand.rate / fastest if strand.rate else 3.0
        points = _strand_points(canvas, middle, lane * gap, ports[strand.left], ports[strand.right])
        items.append(Curve(points, "strand", thick, 0.85, f"{strand.name}: {strand.label}"))
        items += _strand_text(canvas, middle, lane * gap, gap, strand)
    items += _port_items(topologies, canvas, ports)
    x, y = canvas.at(middle, 0)
    if canvas.wide:
        items.append(Text(x, y + len(strands) * gap / 2 + 6, "internet", "muted", 11.5, "middle"))
    return items


def _cloud(canvas: Canvas, middle: float, size: float) -> Item:
    x, y = canvas.at(middle, 0)
    long, wide = canvas.along * 0.62, size + 28
    if canvas.wide:
        return Box(x - long, y - wide / 2, 2 * long, wide, "cloud", radius=min(40, wide / 2))
    return Box(x - wide / 2, y - long, wide, 2 * long, "cloud", radius=min(40, wide / 2))


def _strand_points(
    canvas: Canvas, middle: float, offset: float, left: Point, right: Point
) -> tuple[Point, ...]:
    """Points of a strand from port to port. It crosses the cloud in a lane of its own."""
    near, far = canvas.at(middle - 0.5, 0), canvas.at(middle + 0.5, 0)
    if canvas.wide:
        start, end = (near[0], near[1] + offset), (far[0], far[1] + offset)
        bend = (start[0] - left[0]) * 0.5
        return (
            left, (left[0] + bend, left[1]), (start[0] - bend, start[1]), start,
            start, end, end,
            (end[0] + bend, end[1]), (right[0] - bend, right[1]), right,
        )  # fmt: skip
    start, end = (near[0] + offset, near[1]), (far[0] + offset, far[1])
    bend = (start[1] - left[1]) * 0.5
    return (
        left, (left[0], left[1] + bend), (start[0], start[1] - bend), start,
        start, end, end,
        (end[0], end[1] + bend), (right[0], right[1] - bend), right,
    )  # fmt: skip


def _strand_text(
    canvas: Canvas, middle: float, offset: float, gap: float, strand: Strand
) -> list[Item]:
    x, y = canvas.at(middle, 0)
    if canvas.wide:
        y += offset - 7
        name = BOLD * text_width(strand.name, 12.5) + 6
        left = x - (name + text_width(strand.label, 12.5)) / 2
        return [
            Text(left, y, strand.name, "ink", 12.5, bold=True),
            Text(left + name, y, strand.label, "ink", 12.5),
        ]
    lines = [(strand.name, True), *((part, False) for part in _wrapped(strand.label, gap - 6))]
    x += offset
    box = Box(x - gap / 2 + 3, y - 9 * len(lines), gap - 6, 17 * len(lines) + 4, "cloud")
    return [
        box,
        *(
            Text(
                x, y - 9 * len(lines) + 15 + 16 * i, fit(text, 11.5, gap), "ink", 11.5, "middle", b
            )
            for i, (text, b) in enumerate(lines)
        ),
    ]


def _wrapped(text: str, width: float) -> list[str]:
    """Break the text at spaces into lines of at most this width."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and text_width(f"{lines[-1]} {word}", 11.5) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _port_points(topology: Topology, canvas: Canvas, places: dict[str, Point]) -> dict[str, Point]:
    """Points of the WAN ports, on the side of each gateway that faces the cloud."""
    found: dict[str, Point] = {}
    ports = topology.internet.ports if topology.internet is not None else {}
    for gateway in gateways(topology):
        own = [port for port in ports if port.split(".")[0] == gateway]
        x, y = canvas.at(*places[gateway])
        side = 1 if places[gateway][0] < places[CLOUD][0] else -1
        for index, port in enumerate(own):
            offset = (index - (len(own) - 1) / 2) * (22 if canvas.wide else 40)
            if canvas.wide:
                found[port] = (x + side * canvas.node[0] / 2, y + offset)
            else:
                found[port] = (x + offset, y + side * canvas.node[1] / 2)
    return found


def _port_items(
    topologies: Sequence[Topology], canvas: Canvas, ports: dict[str, Point]
) -> list[Item]:
    items: list[Item] = []
    for port, (x, y) in ports.items():
        found = [
            channel
            for t in topologies
            if t.internet and (channel := t.internet.ports.get(Port.parse(port)))
        ]
        rate = varying([channel_text(one, one.reverse) for one in found])
        tip = f"port {port}: {rate or 'no limit'}"
        items.append(Disc(x, y, 4.5, "strand", filled=False, tip=tip))
    return items


def _star(internet: Internet, canvas: Canvas, places: dict[str, Point]) -> list[Item]:
    """Join all gateways to one cloud, with a strand per WAN port."""
    items: list[Item] = []
    for port, channel in internet.ports.items():
        gateway = port.split(".")[0]
        own = [other for other in internet.ports if other.split(".")[0] == gateway]
        offset = (own.index(port) - (len(own) - 1) / 2) * 12
        ends = [canvas.at(*places[name]) for name in (gateway, CLOUD)]
        points = [(x, y + offset) if canvas.wide else (x + offset, y) for x, y in ends]
        tip = f"port {port}: {channel_text(channel, channel.reverse) or 'no limit'}"
        items.append(Curve((points[0], *points, points[1]), "strand", 2, 0.85, tip))
    described = count(len(internet.paths), "described path") if internet.paths else ""
    about = channel_text(internet.path, None) or described
    x, y = canvas.at(*places[CLOUD])
    items.append(Box(x - 66, y - 30, 132, 60, "cloud", "nodeline", 30))
    items.append(Text(x, y + (-3 if about else 4), "internet", "ink", 13, "middle"))
    items.append(Text(x, y + 14, fit(about, 11, 120), "muted", 11, "middle"))
    return items


def _describe(topologies: Sequence[Topology]) -> str:
    """The picture in words."""
    first = topologies[0]
    parts = [f"nodes {', '.join(first.nodes)}"]
    parts += (f"link {name} joins {' and '.join(li.ends)}" for name, li in first.links.items())
    if first.internet is not None:
        parts.append(f"internet joins {', '.join(first.internet.ports)}")
        for name, path in first.internet.paths.items():
            ways = [path_channels(t.internet, name) for t in topologies if t.internet is not None]
            label = varying([channel_text(*pair) for pair in ways])
            parts.append(f"path {name} {' to '.join(path.ends)} {label}".rstrip())
    return "; ".join(parts)
