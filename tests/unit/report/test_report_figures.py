"""Figures: axes that hold what is drawn, places for all nodes, colours for all eyes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synthetic
from hawser.report import page
from hawser.report.figures import svg
from hawser.report.figures.dots import dots
from hawser.report.figures.facets import median_series, over_time
from hawser.report.figures.place import CLOUD, place
from hawser.report.figures.scale import scale
from hawser.report.figures.scene import Box, Curve, Disc, Item, Line, Shape, Text, fit, text_width
from hawser.report.figures.topology import picture
from hawser.report.model import Report, TimeSeries
from hawser.report.words import number
from hawser.spec.topology import Channel, Internet, Link, Node, Topology, WanPort
from hawser.spec.units import Duration, Rate
from hawser.spec.workflow import Change, Event, Scenario, Variant, Workflow

FINITE = st.floats(-1e100, 1e100)


@given(st.lists(FINITE, max_size=8))
def test_an_axis_holds_zero_and_all_values(values: list[float]) -> None:
    axis = scale(values, 10, 500)
    marks = axis.ticks()
    assert 2 <= len(marks) <= 14
    pixels = [pixel for pixel, _ in marks]
    assert pixels == sorted(pixels)
    assert axis.low <= 0 <= axis.high
    for value in values:
        assert 9.9 <= axis(value) <= 500.1


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([36.4, 3.7], ["0", "10", "20", "30", "40"]),
        ([], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.034], ["0.00", "0.01", "0.02", "0.03", "0.04"]),
        ([-5.0, 5.0], ["-6", "-4", "-2", "0", "2", "4", "6"]),
    ],
)
def test_marks_are_round(values: list[float], labels: list[str]) -> None:
    assert [label for _, label in scale(values, 0, 100).ticks()] == labels


@given(st.floats(-1e308, 1e308))
def test_numbers_are_near_what_they_stand_for(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=0.006)
    assert len(number(value)) <= 10


@given(st.text(max_size=60), st.floats(0, 300))
def test_text_is_cut_to_its_room(text: str, room: float) -> None:
    found = fit(text, 12, room)
    assert text_width(found, 12) <= max(room, text_width("…", 12))


def extent(item: Item) -> list[tuple[float, float]]:
    match item:
        case Line() | Curve() | Shape():
            return list(item.points)
        case Disc():
            r = item.radius
            return [(item.x - r, item.y - r), (item.x + r, item.y + r)]
        case Box():
            return [(item.x, item.y), (item.x + item.width, item.y + item.height)]
        case Text():
            wide = text_width(item.text, item.size)
            left = {"start": 0.0, "middle": wide / 2, "end": wide}[item.anchor]
            return [(item.x - left, item.y), (item.x - left + wide, item.y)]


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("width", [page.WIDE, page.HALF, page.NARROW])
def test_nothing_is_drawn_outside(
    table1: Report, quickstart: Report, width: float, columns: bool
) -> None:
    for report in (table1, quickstart):
        scenes = [
            dots(report.headline, report.layout, width, columns=columns),
            over_time(report.series, report.headline[0], report.layout, width, {}),
            picture(report.workflow, width),
        ]
        for scene in scenes:
            points = [point for item in scene.items for point in extent(item)]
            assert min(x for x, _ in points) > -2
            assert max(x for x, _ in points) < width + 4
            assert min(y for _, y in points) > -2
            assert max(y for _, y in points) < scene.height + 4


def test_every_run_is_a_dot_and_every_published_value_a_mark(table1: Report) -> None:
    scene = dots(table1.headline, table1.layout, page.WIDE, columns=True)
    tips = [item.tip for item in scene.items if isinstance(item, Disc | Shape) and item.tip]
    assert sum(", run " in tip for tip in tips) == 100
    assert sum(tip.startswith("published: ") for tip in tips) == 12
    assert sum(": median " in tip for tip in tips) == 20
    assert "1:2:4:33 mptcp-end-to-end: median 9.6" in scene.description
    written = [item.text for item in scene.items if isinstance(item, Text)]
    assert {"published", "all paths together", "best single path"} <= set(written)


def test_median_series_is_the_median_at_each_time() -> None:
    runs = [
        TimeSeries(
            variant={}, trial=i, points=tuple((t + 0.001 * i, 10.0 * i + t) for t in (1, 2, 3))
        )
        for i in range(3)
    ]
    assert median_series(runs) == ((1.0, 11.0), (2.0, 12.0), (3.0, 13.0))
    assert median_series([]) == ()


def test_events_stand_in_the_time_series(tmp_path: Path, quickstart: Report) -> None:
    workflow = quickstart.workflow
    down = Event(at=Duration(3), element="port:gw1.a", change=Change(up=False))
    slow = Event(at=Duration(4), element="path:p1", change=Change(rate=Rate(1e6)))
    only_tcp = {"tcp": synthetic.MEASUREMENTS["tcp"]}
    scenario = workflow.variants[0].scenario.model_copy(
        update={"events": (down, slow), "measurements": only_tcp}
    )
    variants = tuple(v.model_copy(update={"scenario": scenario}) for v in workflow.variants)
    report = quickstart.model_copy(
        update={"workflow": workflow.model_copy(update={"variants": variants})}
    )
    assert page.events(report) == {"": [(3.0, "gw1.a down"), (4.0, "p1 1 Mbit/s")]}
    assert ">gw1.a down<" in page.html(report)
    assert page.events(quickstart) == {}


NAMES = [f"n{i}" for i in range(7)]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    pairs = draw(st.lists(st.sampled_from(list(itertools.combinations(NAMES, 2))), max_size=10))
    links = {
        f"l{i}": Link(
            ends=(f"{a}.x{i}", f"{b}.x{i}"), rate=draw(st.sampled_from([None, Rate(1e6)]))
        )
        for i, (a, b) in enumerate(pairs)
    }
    on_internet = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    ports = {
        f"{name}.w{i}": WanPort() for name in on_internet for i in range(draw(st.integers(1, 4)))
    }
    internet = Internet(ports=ports, path=Channel(delay=Duration(0.01))) if ports else None
    return Topology(nodes=dict.fromkeys(NAMES, Node()), links=links, internet=internet)


@given(topologies())
def test_every_topology_can_be_drawn(topology: Topology) -> None:
    places = place(topology, NAMES[0])
    assert set(NAMES) <= set(places) <= {*NAMES, CLOUD}
    assert len(set(places.values())) == len(places)
    ping = synthetic.MEASUREMENTS["rtt"].model_copy(update={"source": "n0", "target": "n1.x"})
    scenario = Scenario(topology=topology, measurements={"rtt": ping})
    workflow = Workflow(name="any", title="Any", variants=(Variant(labels={}, scenario=scenario),))
    for width in (page.WIDE, page.NARROW):
        drawn = svg.svg(picture(workflow, width), "wide")
        assert all(f">{name}<" in drawn for name in NAMES)


MACHADO = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.01182, 0.04294, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.3039],
        ]
    ),
}
"""Machado, Oliveira, Fernandes, IEEE TVCG 15 (2009), severity 1, in linear RGB."""


def linear(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(
    rgb: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """CIELAB under D65."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    fx, fy, fz = (np.cbrt(t) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("sight", MACHADO)
def test_series_are_told_apart_by_all_eyes(sight: str) -> None:
    sheet = (Path(page.__file__).with_name("templates") / "style.css").read_text()
    palettes = re.findall(r"--s\d: (#[0-9a-f]{6})", sheet)
    assert len(palettes) == 3 * 8  # light, dark, print
    for start in (0, 8, 16):
        seen = [lab(MACHADO[sight] @ linear(colour)) for colour in palettes[start : start + 8]]
        nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
        assert nearest > 15, (sight, start)
