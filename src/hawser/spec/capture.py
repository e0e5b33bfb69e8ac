"""Captures of packets at ports, beside what is measured."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hawser.spec.model import Model
from hawser.spec.port import Port
from hawser.spec.units import Size

Expression = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[ -~]*$")]


class Capture(Model):
    """A capture at a port while a trial's measurements run. It costs CPU time of the machine."""

    at: Port
    """The port, of a link or of the internet; packets in both directions are captured."""
    filter: Expression = ""
    """Which packets: an expression of pcap-filter(7). Default: all."""
    size: Size = Size(10_000_000)
    """Size at which the capture ends, 1 kB to 100 MB."""
    snap: Annotated[int, Field(ge=64, le=262_144)] = 262_144
    """Bytes kept of each frame."""
