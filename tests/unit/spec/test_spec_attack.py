"""Attacks in a workflow file: what is refused, and with which words."""

from __future__ import annotations

import pytest
from spec_files import loaded, mistakes

from hawser.spec.attack import Application, AttackKind

HEAD = """\
hawser: 1
name: w
title: W
topology:
  nodes: [c1, c2, s1, alone, far, away]
  links:
    one: {ends: [c1.s, s1.c1]}
    two: {ends: [c2.s, s1.c2]}
    apart: {ends: [far.e, away.e]}
measurements: {rtt: {probe: ping, from: c1, to: s1}}
"""


def test_the_least_that_can_be_said() -> None:
    scenario = loaded(HEAD + "attacks: {from: [c1, c2], to: [s1]}\n").variants[0].scenario
    assert scenario.attacks is not None
    assert scenario.attacks.kinds == tuple(AttackKind)
    assert scenario.attacks.benign == tuple(Application)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("from: [c1], to: [c3]", "to.0: found 'c3', which is no node of this lab"),
        ("from: [c1], to: [198.51.100.7]", "to.0: "),
        ("from: [c1], to: [example.com]", "to.0: "),
        ("from: [c1], to: [c1]", "to.0: found c1 again, expected each node once"),
        ("from: [c1, c1], to: [s1]", "from.1: found c1 again"),
        ("from: [c1], to: [alone]", "to.0: found alone, which has no links"),
        ("from: [c1], to: [far]", "to.0: there is no route from c1 to far"),
        ("from: [], to: [s1]", "from: "),
        ("from: [c1], to: [s1], attackers: [s1]", "attackers.0: found 's1', which is no host"),
        ("from: [c1], to: [s1], episodes: 7", "duration: found '1 min', expected at least 70 s"),
        ("from: [c1], to: [s1], duration: 2 h", "duration: found '2 h', expected 10 s to 1 h"),
        ("from: [c1], to: [s1], packet_rate: 1000000", "packet_rate: "),
        ("from: [c1], to: [s1], benign: [chess]", "benign.0: "),
        ("from: [c1], to: [s1], target: 192.0.2.1", "target: "),
    ],
)
def test_mistakes_are_told_with_their_place(given: str, said: str) -> None:
    found = mistakes(HEAD + f"attacks: {{kinds: [syn-scan], {given}}}\n")
    assert len(found) == 1
    assert f": attacks.{said}" in found[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("before: one, behind: three", "behind: found 'three', which is no capture"),
        ("before: one, behind: one", "behind: found the same capture"),
        ("before: one, behind: some", "behind: found some, which has a filter"),
    ],
)
def test_captures_that_are_compared_have_all_packets(given: str, said: str) -> None:
    captures = "capture: {one: {at: c1.s}, some: {at: s1.c1, filter: tcp}}\n"
    text = f"attacks: {{kinds: [syn-scan], from: [c1], to: [s1], passed: {{{given}}}}}\n"
    found = mistakes(HEAD + captures + text)
    assert len(found) == 1
    assert f": attacks.passed.{said}" in found[0]
