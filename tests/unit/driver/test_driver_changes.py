from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.driver import changes
from hawser.driver.base import DriverError
from hawser.overlay.lab.plan import ClassPlan, LinkPlan, NetworkPlan, ShaperPlan
from hawser.spec.units import Rate, Size
from hawser.spec.workflow import Change

SOURCES = ("198.18.0.2/32", "198.18.0.6/32")


def upload() -> ShaperPlan:
    name = "port:gw1.a:forward"
    classes = (ClassPlan(name=name, rate=Rate(40e6), queue=Size(75_700)),)
    return ShaperPlan(node="gw1", interface="a", name=name, rate=Rate(40e6), classes=classes)


def download() -> ShaperPlan:
    classes = tuple(
        ClassPlan(name=f"path:p{n}:reverse", source=IPv4Network(source), rate=Rate(10e6))
        for n, source in enumerate(SOURCES, 1)
    )
    return ShaperPlan(
        node="internet", interface="gw1-a", name="port:gw1.a:reverse", classes=classes
    )


def plan(*shapers: ShaperPlan) -> NetworkPlan:
    links = (
        LinkPlan(name="lan1", ends=(("h1", "lan"), ("gw1", "lan"))),
        LinkPlan(name="gw1.a", ends=(("gw1", "a"), ("internet", "gw1-a"))),
    )
    return NetworkPlan(nodes=(), links=links, shapers=shapers, daemons=(), addresses={})


def test_a_port_changes_both_ways() -> None:
    one, two = changes.planned(plan(upload(), download()), "port:gw1.a", Change(rate=Rate(5e6)))
    assert (one.after.rate, one.after.classes[0].rate) == (Rate(5e6), Rate(5e6))
    assert two.after.rate == Rate(5e6)
    assert [each.rate for each in two.after.classes] == [Rate(10e6), Rate(10e6)]
    assert one.up == two.up == {}


def test_a_ports_queue_and_state_are_those_of_its_paths() -> None:
    change = Change(queue=Size(3000), up=False)
    one, two = changes.planned(plan(upload(), download()), "port:gw1.a", change)
    assert [each.queue for each in (*one.after.classes, *two.after.classes)] == [Size(3000)] * 3
    assert one.up == {"port:gw1.a:forward": False}
    assert two.up == {"path:p1:reverse": False, "path:p2:reverse": False}


def test_a_path_changes_alone() -> None:
    (only,) = changes.planned(plan(upload(), download()), "path:p2", Change(rate=Rate(1e6)))
    assert [each.rate for each in only.after.classes] == [Rate(10e6), Rate(1e6)]
    assert only.after.rate is None


def test_a_direction_without_shaper_gets_one() -> None:
    one, two = changes.planned(plan(upload()), "port:gw1.a", Change(up=False))
    assert (one.before, two.before) == (upload(), None)
    assert (two.after.node, two.after.interface) == ("internet", "gw1-a")
    assert two.after.name == "port:gw1.a:reverse"
    assert two.up == {"port:gw1.a:reverse": False}


def test_a_link_without_shapers_gets_two() -> None:
    found = changes.planned(plan(), "link:lan1", Change(rate=Rate(1e6)))
    assert [(c.after.node, c.after.interface, c.after.rate) for c in found] == [
        ("h1", "lan", Rate(1e6)),
        ("gw1", "lan", Rate(1e6)),
    ]


@pytest.mark.parametrize("element", ["path:p3", "link:gw1.a", "port:lan1", "path:p1:forward", ""])
def test_unknown_elements_are_errors_that_name_the_known(element: str) -> None:
    with pytest.raises(DriverError, match=r"path:p1, path:p2, port:gw1\.a"):
        changes.planned(plan(upload(), download()), element, Change(up=False))


rates = st.floats(1e3, 1e9).map(Rate) | st.none()
sizes = st.integers(100, 10_000_000).map(Size) | st.none()
change = st.builds(Change, rate=rates, queue=sizes, up=st.booleans() | st.none())
elements = st.sampled_from(["port:gw1.a", "path:p1", "path:p2", "link:lan1"])


@given(st.lists(st.tuples(elements, change), max_size=6))
def test_any_changes_keep_classes_and_can_be_followed(todo: list[tuple[str, Change]]) -> None:
    """Every change finds the shapers that the one before left, and only adds, never removes."""
    now = plan(upload(), download())
    for element, each in todo:
        before = [c.name for s in now.shapers for c in s.classes]
        now = changes.applied(now, changes.planned(now, element, each))
        after = [c.name for s in now.shapers for c in s.classes]
        assert before == after[: len(before)]
        assert len(after) == len(set(after))
        assert NetworkPlan.model_validate_json(now.model_dump_json()) == now


@given(elements, change)
def test_a_change_twice_is_the_change_once(element: str, each: Change) -> None:
    start = plan(upload(), download())
    once = changes.applied(start, changes.planned(start, element, each))
    assert changes.applied(once, changes.planned(once, element, each)) == once
