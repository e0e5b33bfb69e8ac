"""Workflow documents as data: changed in a copy, and loaded as a file would be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from ruamel.yaml import YAML

from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec import Workflow, load

Document = dict[str, Any]


def parsed(text: str) -> Document:
    """The document that a text in YAML is."""
    found: Document = YAML(typ="safe").load(text)
    return found


def with_(document: Document, place: str, value: object) -> Document:
    """A copy with something else at a dotted place; what leads there is made where it is missing.

    Names that hold a dot, such as a port's, are reached by their parent only.
    """
    *parents, last = place.split(".")
    changed = deepcopy(document)
    at = changed
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    return changed


def workflow(document: Document, files: Mapping[str, str] | None = None) -> Workflow:
    """Load it; `files` are those that it refers to."""
    there = {"workflow.yaml": json.dumps(document), **(files or {})}
    return load("workflow.yaml", there.__getitem__)


def planned(document: Document, files: Mapping[str, str] | None = None) -> NetworkPlan:
    """The network of its first variant."""
    return network(workflow(document, files).variants[0].scenario)
