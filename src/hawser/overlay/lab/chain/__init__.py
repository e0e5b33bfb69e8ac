"""Service function chains in a plan: functions, what leads packets to them, and room for that."""

from hawser.overlay.lab.chain.network import chained

__all__ = ["chained"]
