"""The lab: from a scenario to everything that must be made of it."""

from hawser.overlay.lab.network import network
from hawser.overlay.lab.plan import NetworkPlan

__all__ = ["NetworkPlan", "network"]
