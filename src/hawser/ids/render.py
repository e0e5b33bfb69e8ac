"""Models as text for people: rules, and Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.ids.errors import IdsError
from hawser.ids.table import Model, Tree

_LINES_MAX = 100_000
"""Nodes that are rendered at most: nobody reads more."""


def rules(model: Model) -> str:
    """Give the trees as nested comparisons.

    Raises:
        IdsError: there are too many.
    """
    about = f"{model.name} {model.version}: {_combination(model)}"
    lines = [f"{about}; malicious from {model.threshold:g} on"]
    for number, tree in enumerate(_few(model)):
        lines.append(f"tree {number}")
        lines.extend(_rules(model, tree))
    return "\n".join(lines) + "\n"


def dot(model: Model) -> str:
    """Give the trees in the language of Graphviz.

    Raises:
        IdsError: there are too many.
    """
    lines = ["digraph model {", "  node [shape=box];"]
    for number, tree in enumerate(_few(model)):
        for node, feature in enumerate(tree.feature.tolist()):
            name = f"t{number}n{node}"
            if feature < 0:
                lines.append(f'  {name} [label="{tree.value[node]:.4g}"];')
                continue
            lines.append(
                f'  {name} [label="{model.features[feature]} <= {tree.threshold[node]:g}"];'
            )
            for child, label in ((tree.left[node], "yes"), (tree.right[node], "no")):
                lines.append(f'  {name} -> t{number}n{child} [label="{label}"];')
    return "\n".join((*lines, "}")) + "\n"


def _few(model: Model) -> tuple[Tree, ...]:
    nodes = sum(len(tree.feature) for tree in model.trees)
    if nodes > _LINES_MAX:
        raise IdsError(
            f"model {model.name}", f"found {nodes} nodes, expected at most {_LINES_MAX} to print"
        )
    return model.trees


def _combination(model: Model) -> str:
    if model.combine == "mean":
        return f"mean of {len(model.trees)} trees, as a probability"
    return f"logistic function of {model.base:.4g} and the sum of {len(model.trees)} trees"


def _rules(model: Model, tree: Tree) -> Iterator[str]:
    waiting = [(0, 1, "")]
    while waiting:
        node, depth, condition = waiting.pop()
        indent = "  " * depth
        if tree.feature[node] < 0:
            yield f"{indent}{condition}{tree.value[node]:.4g}"
            continue
        if condition:
            yield f"{indent}{condition.rstrip()}"
            depth += 1
        name, threshold = model.features[tree.feature[node]], tree.threshold[node]
        waiting.append((int(tree.right[node]), depth, f"{name} > {threshold:g}: "))
        waiting.append((int(tree.left[node]), depth, f"{name} <= {threshold:g}: "))
