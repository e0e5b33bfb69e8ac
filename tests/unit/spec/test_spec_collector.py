"""A collector in a workflow file: what is refused, and with which words."""

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
  wall: {kind: firewall, node: n}
  idle: {kind: forwarder, node: spare}
measurements: {rtt: {probe: ping, from: c, to: s}}
"""
SENSOR = "chains: {all: {from: c, to: s, functions: [watch]}}\n"
NO_SENSOR = "chains: {all: {from: c, to: s, functions: [wall]}}\n"


def test_without_a_model_there_is_no_job() -> None:
    text = HEAD.replace("  idle: {kind: forwarder, node: spare}\n", "")
    scenario = loaded(text + SENSOR + "collector: {node: spare}\n").variants[0].scenario
    assert scenario.collector is not None
    assert scenario.collector.model is None


def test_the_models_content_stands_where_its_name_was() -> None:
    text = HEAD.replace("  idle: {kind: forwarder, node: spare}\n", "")
    collector = "collector: {node: spare, model: tree.yaml}\n"
    scenario = loaded(text + SENSOR + collector, tree="{}").variants[0].scenario
    assert scenario.collector is not None
    assert scenario.collector.model == "{}"


@pytest.mark.parametrize(
    ("chains", "given", "said"),
    [
        (SENSOR, "node: other", "collector.node: found 'other', which is no node"),
        (SENSOR, "node: n", "collector.node: found n, which has links"),
        (SENSOR, "node: spare", "collector.node: found spare, which has functions"),
        (SENSOR, "{}", "collector.node: missing"),
        (SENSOR, "node: s, model: none.json", "model: cannot read none.json"),
        (NO_SENSOR, "node: s", "collector: found no function of kind ids in a chain"),
    ],
)
def test_mistakes_are_told_with_their_place(chains: str, given: str, said: str) -> None:
    body = given if given == "{}" else f"{{{given}}}"
    found = mistakes(HEAD + chains + f"collector: {body}\n")
    assert any(said in one for one in found), found
