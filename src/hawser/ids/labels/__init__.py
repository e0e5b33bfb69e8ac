"""Labels of flows: those of the lab (`store.labels`), and of two public data sets."""

from __future__ import annotations

from hawser.ids.labels.files import FORMATS, read
from hawser.ids.labels.truth import Truth
from hawser.store.labels import BENIGN

__all__ = ["BENIGN", "FORMATS", "Truth", "read"]
