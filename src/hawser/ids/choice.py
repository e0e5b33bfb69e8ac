"""What whoever trains a model chooses, without the packages that training needs."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """A kind of model."""

    TREE = "tree"
    """A decision tree (Breiman et al. 1984, Gini impurity), as published."""
    FOREST = "forest"
    """A random forest (Breiman 2001)."""
    BOOSTING = "boosting"
    """Boosted trees on histograms (Friedman 2001; as LightGBM's)."""


class Weigh(StrEnum):
    """What weighs the same in training. Records of a flow share its weight in any case."""

    FLOW = "flow"
    """Each flow: a flood of thousands decides, and a tunnel of one flow hardly counts."""
    LABEL = "label"
    """Each attack, however many flows it has; all attacks together weigh what benign flows do."""
