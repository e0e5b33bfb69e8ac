"""One mistake hides no other: statistics, events and ends are checked each by itself."""

from __future__ import annotations

from spec_files import SMALL, mistakes

TWO = SMALL.replace("nodes: [a, b]", "nodes: [a, b, c]")


def told(text: str) -> list[str]:
    """Fields and the beginning of messages, without places."""
    return [error.split(": ", 1)[1] for error in mistakes(TWO + text)]


def test_a_wrong_statistic_hides_no_other_assertion() -> None:
    """All assertions were dropped where one was wrong."""
    found = told(
        """\
assert:
  - {metric: rtt, statistic: median2, at_most: 5, variant: {rate: fast}}
  - {metric: rttt, at_most: 5}
  - {metric: rtt, at_least: 5, at_most: 4}
"""
    )
    assert [text.split(":")[0] for text in found] == [
        "assert.0.statistic", "assert.0.variant.rate", "assert.1.metric", "assert.2.at_most",
    ]  # fmt: skip


def test_a_bound_that_is_wrong_is_not_missing() -> None:
    (found,) = told("assert:\n  - {metric: rtt, at_most: much}\n")
    assert found.startswith("assert.0.at_most: found 'much', expected a number")


def test_a_wrong_event_hides_no_other() -> None:
    """All events were dropped where one was wrong, and their times had no line."""
    text = """\
events:
  - {at: 1 s, element: "link:cable", change: {rate: 1 Mbps}}
  - {at: 1 s, element: "link:cabel", change: {up: false}}
  - {at: 1 s, element: "link:cable", change: {}, whenever: 1}
  - {at: 9 s, element: "link:cable", change: {up: false}}
"""
    found = mistakes(TWO + text)
    fields = [error.split(": ")[1] for error in found]
    assert fields == [
        "events.0.change.rate", "events.1.element", "events.2.change", "events.2.whenever",
        "events.3.at",
    ]  # fmt: skip
    assert found[-1] == (
        "x.yaml:10:10: events.3.at: found '9 s', expected less than the 2 s of measurements"
    )


def test_a_wrong_end_hides_no_other() -> None:
    more = """\
measurements:
  one: {probe: ping, from: A!, to: nobody}
  two: {probe: ping, from: a, to: b, count: few}
  three: {probe: ping, from: a, to: nowhere}
"""
    text = TWO.replace("measurements: {rtt: {probe: ping, from: a, to: b}}\n", more)
    fields = [error.split(": ")[1] for error in mistakes(text)]
    assert fields == [
        "measurements.one.from", "measurements.one.to", "measurements.two.count",
        "measurements.three.to",
    ]  # fmt: skip


def test_a_wrong_link_hides_no_other() -> None:
    text = TWO.replace(
        "{cable: {ends: [a.eth, b.eth], rate: 1 Mbit/s}}",
        "{one: {ends: [a.x, b]}, two: {ends: [a.y, d.x], rate: fast}, three: {ends: [b.x, e.x]}}",
    ).replace("to: b}", "to: f}")
    fields = [error.split(": ")[1] for error in mistakes(text)]
    assert fields == [
        "topology.links.one.ends.1", "topology.links.two.ends.1", "topology.links.two.rate",
        "topology.links.three.ends.1", "measurements.rtt.to",
    ]  # fmt: skip


def test_what_only_follows_is_not_told() -> None:
    text = TWO.replace("[a, b, c]", "[a, B, c]")
    assert [error.split(": ")[1] for error in mistakes(text)] == ["topology.nodes.B"]
