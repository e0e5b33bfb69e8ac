"""The file of a network: a frozen `Network`, or every mistake with its place."""

from __future__ import annotations

from hawser.spec.check.network import network as check
from hawser.spec.errors import Place, Problems
from hawser.spec.network import Network
from hawser.spec.site import expanded
from hawser.spec.syntax import parse
from hawser.spec.tree import Table
from hawser.spec.validate import report, validate


def load_network(text: str | bytes, file: str) -> Network:
    """Read a network.

    Args:
        text: content of the file.
        file: its name, for messages.

    Raises:
        SpecErrors: everything that is wrong, each with its place.
    """
    problems = Problems()
    tree = parse(text, file, problems)
    if tree is None:
        raise problems.failure()
    if not isinstance(tree, Table):
        problems.add(Place(file, 1, 1), "", "expected a mapping")
        raise problems.failure()
    tree = expanded(tree, problems)
    if problems:
        raise problems.failure()
    network, issues = validate(Network, tree)
    report(issues if network is None else check(network), tree, problems)
    if network is None or problems:
        raise problems.failure()
    return network
