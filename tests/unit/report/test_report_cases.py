"""Charts of many cases: what goes where, and that nothing is left out."""

from __future__ import annotations

import itertools

import pytest

from hawser.report.figures.cases import MANY, axes, cases, suits
from hawser.report.figures.scene import Line, texts
from hawser.report.model import Layout, Published, Row, RunValue
from hawser.stats import summarise

CASES = [f"case{number}" for number in range(1, 15)]


def row(variant: dict[str, str], value: float, published: float | None = None) -> Row:
    values = (value, value * 1.02, value * 0.99)
    return Row(
        variant=variant,
        measurement="transfer",
        metric="goodput",
        unit="Mbit/s",
        direction="forward",
        subject="",
        summary=summarise(values),
        runs=tuple(RunValue(trial=n, repeat=n, value=v) for n, v in enumerate(values, 1)),
        reference=None if published is None else Published(value=published, source="Figure 1"),
    )


@pytest.fixture
def rows() -> list[Row]:
    kept = [
        {"groups": groups, "case": case, "connections": connections, "scheme": scheme}
        for groups, case, connections, scheme in itertools.product(
            ("4", "1"), CASES, ("4", "8"), ("ipomp", "ip-in-ip")
        )
        if groups == "4" or case in CASES[:3]
    ]
    return [row(variant, 10.0 + index % 7) for index, variant in enumerate(kept)]


def plan(rows: list[Row]) -> Layout:
    made = Layout(axis="scheme", group_axes=("groups", "case", "connections"), groups=(), series=())
    groups = tuple(dict.fromkeys(made.group(each.variant) for each in rows))
    return made.model_copy(update={"groups": groups, "series": ("ipomp", "ip-in-ip")})


def test_the_longest_axis_runs_along_the_page(rows: list[Row]) -> None:
    use = axes(rows, plan(rows))
    assert (use.panels, use.along, use.series) == (("groups",), "case", ("connections", "scheme"))
    assert use.panel(rows[0]) == "4 groups"
    assert use.name(rows[0]) == "4 connections, ipomp"


def test_every_variant_is_drawn_with_its_interval(rows: list[Row]) -> None:
    scene = cases(rows, plan(rows), 1040)
    tips = [tip for item in scene.items if (tip := getattr(item, "tip", ""))]
    assert len(tips) == len(rows)
    assert tips[0].startswith("1, case1") or any(t.startswith("4, case1, 4, ipomp") for t in tips)
    drawn = [item for item in scene.items if isinstance(item, Line) and item.role != "muted"]
    bars = [item for item in drawn if item.width == 1.3]
    assert len(bars) == 3 * len(rows)
    assert scene.description.count("runs") == len(rows)


def test_panels_are_named_and_cases_numbered(rows: list[Row]) -> None:
    written = list(texts(cases(rows, plan(rows), 1040)))
    assert written.count("4 groups") == written.count("1 groups") == 1
    assert {"1", "14"} <= set(written)
    assert "8 connections, ip-in-ip" in written


def test_all_fits_on_a_telephone(rows: list[Row]) -> None:
    scene = cases(rows, plan(rows), 342)
    points = [p for item in scene.items if isinstance(item, Line) for p in item.points]
    assert all(0 <= x <= 342 and 0 <= y <= scene.height for x, y in points)


def test_a_published_value_is_a_ring_of_its_own(rows: list[Row]) -> None:
    rows[0] = row(rows[0].variant, 12.0, published=14.5)
    scene = cases(rows, plan(rows), 1040)
    assert any("published: 14.5" in getattr(item, "tip", "") for item in scene.items)
    assert "published" in texts(scene)


def test_few_groups_keep_the_chart_of_all_runs(rows: list[Row]) -> None:
    assert suits(plan(rows))
    assert not suits(plan(rows[: 2 * MANY]))
