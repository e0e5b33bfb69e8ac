"""Sites: branches that are made of a template."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.errors import Problems, SpecErrors
from hawser.spec.network_file import load_network
from hawser.spec.site import document_of, expanded, tree_of
from hawser.spec.tree import Table, plain

ACME = """
hawser: 1
name: acme
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a], lan: lan0, prefix: 10.1.0.0/24}
ports:
  gw1.a: {address: 192.0.2.2, next_hop: 192.0.2.1}
templates:
  small:
    branch: {id: "${id}", gateway: "${gateway}", wan: [wa, wb], lan: lan0, prefix: "${lan}"}
    ports:
      wa: {address: "${wa}", next_hop: "${ra}", label: fibre, rate: 40 Mbit/s}
      wb: {address: "${wb}", next_hop: "${rb}", label: lte}
    prefixes: ["${more}"]
sites:
  b2:
    template: small
    variables:
      {id: 2, gateway: gw2, lan: 10.2.0.0/24, more: 10.22.0.0/24, wa: 192.0.2.10, ra: 192.0.2.9,
       wb: 192.0.2.14, rb: 192.0.2.13}
  b3:
    template: small
    variables:
      {id: 3, gateway: gw3, lan: 10.3.0.0/24, more: 10.33.0.0/24, wa: 192.0.2.18, ra: 192.0.2.17,
       wb: 192.0.2.22, rb: 192.0.2.21}
"""


def test_sites_become_branches() -> None:
    network = load_network(ACME, "acme.yaml")
    made = configurations(fabric_of(network))
    assert set(made) == {"b1", "b2", "b3"}
    assert network.ports["gw3.wb"].label == "lte"  # type: ignore[index]
    peer = next(each for each in made["b1"].peers if each.branch == "b3")
    assert [str(prefix) for prefix in peer.prefixes] == ["10.3.0.0/24", "10.33.0.0/24"]


def test_the_document_keeps_templates_and_nothing_twice() -> None:
    network = load_network(ACME, "acme.yaml")
    document = document_of(network)
    assert set(document["overlay"]["branches"]) == {"b1"}
    assert set(document["ports"]) == {"gw1.a"}
    assert document["sites"]["b2"]["variables"]["id"] == 2
    assert load_network(json.dumps(document), "acme.json") == network


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "message"),
    [
        ("id: 3, gateway", "gateway", 12, "sites.b3.branch.id", "'id', which is no variable"),
        ("id: 3", "id: 3, x: 1", 26, "sites.b3.variables.x", "does not use"),
        (
            "  b3:\n    template: small",
            "  b3:\n    template: smalll",
            24,
            "sites.b3.template",
            "small",
        ),
        ("wa: 192.0.2.18", "wa: 192.0.2", 26, "ports.gw3.wa.address", "192.0.2"),
        ("id: 3", "id: 2", 26, "overlay.branches.b3.id", "2"),
        ("    b1:", "    b3:", 7, "branches.b3", "made by a site too"),
        ("  gw1.a:", "  gw3.wa:", 9, "ports.gw3.wa", "made by a site too"),
        ("label: lte", "labell: lte", 15, "ports.gw2.wb.labell", "label"),
    ],
)
def test_mistakes_have_the_place_where_they_were_made(
    old: str, new: str, line: int, field: str, message: str
) -> None:
    assert ACME.count(old) == 1
    with pytest.raises(SpecErrors) as caught:
        load_network(ACME.replace(old, new), "acme.yaml")
    found = {each.field: each for each in caught.value.errors}
    assert field in found, caught.value
    assert message in found[field].message
    assert found[field].line == line


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["${a}", "${", "x", "small"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["template", "variables", "branch", "gateway", "ports", "prefixes", "a", "small"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.tuples(_JSON, _JSON, _JSON))
def test_whatever_is_written_is_expanded_or_refused(parts: tuple[Any, Any, Any]) -> None:
    document = dict(zip(("sites", "templates", "overlay"), parts, strict=True))
    tree = tree_of(document)
    assert plain(tree) == document
    assert isinstance(tree, Table)
    expanded(tree, Problems())
