"""A replay in a workflow file: what is refused, and with which words."""

from __future__ import annotations

import pytest
from spec_files import loaded, mistakes

HEAD = """\
hawser: 1
name: w
title: W
topology:
  nodes: [c, n, s, spare]
  links:
    one: {ends: [c.e, n.c]}
    two: {ends: [n.s, s.e]}
functions:
  watch: {kind: ids, node: n}
chains: {all: {from: c, to: s, functions: [watch]}}
measurements: {rtt: {probe: ping, from: c, to: s}}
capture:
  before: {at: c.e}
  behind: {at: s.e, filter: tcp}
"""
FILES = "capture: day.pcap, labels: [day.csv]"


def test_names_of_files_are_beside_the_workflow() -> None:
    scenario = loaded(f"{HEAD}replay: {{from: c, to: s, {FILES}}}\n").variants[0].scenario
    assert scenario.replay is not None
    assert (scenario.replay.capture, scenario.replay.labels) == ("day.pcap", ("day.csv",))
    assert scenario.replay.speed == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"from: x, to: s, {FILES}", "replay.from: found 'x', which is no node"),
        (f"from: n, to: s, {FILES}", "replay.from: found n, which has 2 ports"),
        (f"from: c, to: spare, {FILES}", "replay.to: found spare, which has 0 ports"),
        (f"from: c, to: c, {FILES}", "replay: found no chain between c and c"),
        ("from: c, to: s, capture: x.pcap", "replay.labels: missing"),
        ("from: c, to: s, capture: '', labels: [y.csv]", "replay.capture"),
        (f"from: c, to: s, {FILES}, speed: 0", "replay.speed: found 0"),
        (
            f"from: c, to: s, {FILES}, passed: {{before: before, behind: behind}}",
            "replay.passed.behind: found behind, which has a filter",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(given: str, said: str) -> None:
    found = mistakes(f"{HEAD}replay: {{{given}}}\n")
    assert any(said in one for one in found), found


def test_a_shaped_link_of_an_end_is_refused() -> None:
    text = HEAD.replace("one: {ends: [c.e, n.c]}", "one: {ends: [c.e, n.c], rate: 9 Mbit/s}")
    found = mistakes(f"{text}replay: {{from: c, to: s, {FILES}}}\n")
    assert any("replay: found link one with a rate" in one for one in found), found


def test_attacks_beside_it_are_refused() -> None:
    attacks = "attacks: {from: [c], to: [s], duration: 200 s}\n"
    found = mistakes(f"{HEAD}{attacks}replay: {{from: c, to: s, {FILES}}}\n")
    assert any("replay: found attacks too" in one for one in found), found
