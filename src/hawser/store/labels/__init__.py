"""Labels of flows: those of the lab, and of two public data sets (docs/guide/detection.md)."""

from __future__ import annotations

from hawser.store.labels.reader import FORMATS, read_any
from hawser.store.labels.rows import (
    BENIGN,
    Address,
    Flow,
    Label,
    Labels,
    Network,
    Ports,
    flow,
    matches,
    read,
    write,
)

__all__ = [
    "BENIGN",
    "FORMATS",
    "Address",
    "Flow",
    "Label",
    "Labels",
    "Network",
    "Ports",
    "flow",
    "matches",
    "read",
    "read_any",
    "write",
]
