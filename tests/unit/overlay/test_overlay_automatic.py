from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.overlay.sdwan.automatic import (
    automatic_groups,
    automatic_pairs,
    direct_places,
    is_usable,
    placed,
)
from hawser.spec.overlay import Overlay
from hawser.spec.port import Port

ROUTES = [
    "b1.a>b2.a",
    "b1.b>b2.b",
    "b1.a>b3.a>b3.b>b2.a",
    "b1.a>b4.a>b4.b>b2.a",
    "b1.b>b3.b>b3.a>b2.a",
]


def overlay(**others: object) -> Overlay:
    branches = {
        f"b{n}": {
            "id": n,
            "gateway": f"gw{n}",
            "wan": ["a", "b"],
            "lan": "lan",
            "prefix": f"10.{n}.0.0/24",
        }
        for n in range(1, 4)
    }
    given = {"transport": "quic", "paths": "automatic", "branches": branches, **others}
    return Overlay.model_validate(given)


@given(
    st.lists(st.sampled_from(ROUTES), min_size=1, max_size=8),
    st.sets(st.sampled_from(ROUTES), min_size=1),
)
def test_paths_keep_their_places(before: list[str], wanted: set[str]) -> None:
    chosen = sorted(wanted)
    random.Random(1).shuffle(chosen)  # noqa: S311 (repeatable)
    found = placed(before, chosen)
    assert set(found) == wanted
    assert len(found) == max(len(before), len(wanted))
    first = {route: before.index(route) for route in dict.fromkeys(before)}
    assert all(found[place] == route for route, place in first.items() if route in wanted)


def test_a_transit_comes_where_the_path_with_its_ends_was() -> None:
    before = ["b1.a>b2.b", "b1.a>b2.a", "b1.b>b2.b", "b1.a>b2.b"]
    found = placed(before, ["b1.b>b2.b", "b1.a>b3.a>b3.b>b2.a"])
    assert found[1:3] == ("b1.a>b3.a>b3.b>b2.a", "b1.b>b2.b")


def test_groups_without_a_choice_have_the_direct_paths_and_room() -> None:
    (group, *rest) = automatic_groups(overlay(), (), {})
    assert len(rest) == 2
    assert group.paths == (
        "b1.a>b2.a", "b1.a>b2.b", "b1.b>b2.a", "b1.b>b2.b",
        "b1.a>b2.a", "b1.a>b2.b", "b1.b>b2.a", "b1.b>b2.b",
    )  # fmt: skip


def test_leased_lines_reach_only_each_other() -> None:
    leased = {Port("gw1", "b"), Port("gw2", "b")}
    assert set(direct_places(overlay(), leased, ("b1", "b2"))) == {"b1.a>b2.a", "b1.b>b2.b"}
    assert not is_usable(overlay(), leased, ["b1.b>b2.a"])
    assert is_usable(overlay(), leased, ["b1.a>b3.a>b3.b>b2.a"])


@pytest.mark.parametrize("route", ["b1.c>b2.a", "b1.a>b9.a>b9.b>b2.a"])
def test_what_is_no_more_is_not_used(route: str) -> None:
    found = {each.paths[0] for each in automatic_groups(overlay(), (), {("b1", "b2"): (route,)})}
    assert "b1.a>b2.a" in found
    assert route not in found


def test_described_groups_are_kept_and_manual_ones_are_the_default() -> None:
    described = overlay(path_groups={"mine": {"paths": ["b2.a>b1.a"]}})
    assert list(automatic_pairs(described)) == [("b1", "b3"), ("b2", "b3")]
    assert list(automatic_groups(overlay(paths="manual"), (), {})) == []
