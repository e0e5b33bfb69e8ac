"""The lab: from a scenario to the plan of everything that a driver must create."""

from hawser.overlay.lab.network import network
from hawser.overlay.lab.plan import NetworkPlan

__all__ = ["NetworkPlan", "network"]
