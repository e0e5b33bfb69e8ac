"""Files of a node that is a namespace: they are this machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hawser.node.base import NodeError
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab.plan import NodePlan


@pytest.fixture
def node(tmp_path: Path) -> NamespaceNode:
    return NamespaceNode("a", "none", NodePlan(name="a", role="host", interfaces=()), tmp_path)


def test_what_is_put_can_be_fetched_and_is_the_owners_alone(node: NamespaceNode) -> None:
    file = node.directory / "some" / "folder" / "secret"
    node.put(file, b"one")
    node.put(file, b"two")
    assert node.get(file) == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["secret"]


def test_a_file_may_be_a_program(node: NamespaceNode) -> None:
    node.put(node.directory / "program", b"#!/bin/sh\n", mode=0o700)
    assert (node.directory / "program").stat().st_mode & 0o777 == 0o700


def test_errors_name_the_node_and_the_file(node: NamespaceNode) -> None:
    with pytest.raises(NodeError, match=r"node a: .*/none: No such file"):
        node.get(node.directory / "none")
    node.put(node.directory / "file", b"")
    with pytest.raises(NodeError, match=r"node a: .*below: File exists"):
        node.put(node.directory / "file" / "below", b"")
