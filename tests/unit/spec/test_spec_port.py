"""Ports are their text, taken apart once."""

from __future__ import annotations

import copy
import pickle

import pytest
from pydantic import ValidationError

from hawser.spec.port import Port, node_of
from hawser.spec.topology import Link, Topology


def test_a_port_is_its_text() -> None:
    port = Port("gw1", "a")
    assert port == Port.parse("gw1.a") == "gw1.a"
    assert (port.node, port.name) == ("gw1", "a")
    assert {port: 1}["gw1.a"] == 1  # type: ignore[index]
    for twin in (copy.deepcopy(port), pickle.loads(pickle.dumps(port))):  # noqa: S301 (our own)
        assert (twin, twin.node, twin.name) == (port, "gw1", "a")


def test_models_read_and_write_text() -> None:
    file = '{"nodes":{"a":{},"b":{}},"links":{"l":{"ends":["a.x","b.y"]}}'
    file += ',"internet":{"ports":{"a.w":{}}}}'
    found = Topology.model_validate_json(file)
    assert [(end.node, end.name) for end in found.links["l"].ends] == [("a", "x"), ("b", "y")]
    assert found.internet is not None
    assert [port.node for port in found.internet.ports] == ["a"]
    assert found.model_dump_json(exclude_unset=True) == file


@pytest.mark.parametrize("text", ["a", "a.", ".x", "A.x", "a.x.y", "a." + "x" * 16])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        Link.model_validate({"ends": [text, "b.y"]})


def test_an_end_is_a_node_or_a_port_of_one() -> None:
    assert node_of("gw1") == node_of("gw1.a") == "gw1"
