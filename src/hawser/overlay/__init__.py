"""Pure: from a scenario to everything that must be made of it."""

from hawser.overlay.network import network
from hawser.overlay.plan import NetworkPlan

__all__ = ["NetworkPlan", "network"]
