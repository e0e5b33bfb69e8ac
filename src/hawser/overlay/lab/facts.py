"""Capabilities of machines that plans depend on."""

from __future__ import annotations

from hawser.spec.model import Model


class Facts(Model):
    """Capabilities that a driver detects on its machines before planning."""

    netem: bool = True
    """Whether the kernel has netem; without it the WAN emulator impairs packets."""
