"""Models of decision trees, written by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

Node = tuple[str, float, int, int] | float
"""Feature, threshold, and the nodes for at most that and for more; or the value of a leaf."""

Nodes = Sequence[Node]

UNANSWERED: Nodes = (
    ("total_bpackets", 0.5, 1, 2),
    ("total_fpackets", 6.5, 3, 4),
    0.0,
    0.1,
    0.9,
)
"""Calls flows of over six packets without an answer malicious: floods."""

REFUSED: Nodes = (
    ("total_bpackets", 1.5, 1, 2),
    ("total_fpackets", 1.5, 3, 4),
    0.0,
    ("total_fhlen", 39.5, 5, 6),
    0.1,
    0.1,
    0.9,
)
"""Calls flows of one segment, and one back at most, malicious: port scans."""


def text(nodes: Nodes, version: str = "1") -> str:
    """Give the file of a model, with its hash."""
    names = list(dict.fromkeys(node[0] for node in nodes if isinstance(node, tuple)))
    inner = [node if isinstance(node, tuple) else None for node in nodes]
    tree = {
        "feature": [names.index(node[0]) if node else -1 for node in inner],
        "threshold": [node[1] if node else 0 for node in inner],
        "left": [node[2] if node else 0 for node in inner],
        "right": [node[3] if node else 0 for node in inner],
        "value": [0 if isinstance(node, tuple) else node for node in nodes],
    }
    model = {
        "schema": 1,
        "name": "test",
        "version": version,
        "features": names,
        "combine": "mean",
        "threshold": 0.5,
        "training": {},
        "trees": [tree],
    }
    content = json.dumps(model)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f'{{"sha256": "{digest}", "model": {content}}}'


def write(path: Path, content: str) -> None:
    """Replace a model's file in one step."""
    made = path.with_suffix(".made")
    made.write_text(content)
    made.replace(path)
