"""Capabilities of machines that plans depend on."""

from __future__ import annotations

from hawser.spec.model import Model


class Facts(Model):
    """What a driver found out about its machines before anything is planned."""

    netem: bool = True
    """Whether their kernel can delay, lose and duplicate packets; else the WAN emulator does."""
