"""Service function chains in a plan: functions, steering and MTUs."""

from hawser.overlay.lab.chain.network import chained

__all__ = ["chained"]
