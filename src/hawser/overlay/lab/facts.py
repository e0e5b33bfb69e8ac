"""What machines can do, as far as a plan depends on it."""

from __future__ import annotations

from pathlib import Path

from hawser.spec.model import Model


class Facts(Model):
    """What a driver found out about its machines before anything is planned."""

    netem: bool = True
    """Whether their kernel can delay, lose and duplicate packets; else the WAN emulator does."""
    hawserd: Path | None = None
    """The program here whose version stands for that of all of them; None where there is none."""
    note: str = ""
    """What a reader of results must know of them, such as that they are simulated."""
