"""Replay of a capture with labels: recorded traffic for intrusion detection."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hawser.spec.attack import Passed
from hawser.spec.model import Model, Name

File = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class Replay(Model):
    """Frames of a capture, sent through a chain with their own addresses at their own times.

    What the end of a flow sends that began it leaves `from`, and what the other end sends leaves
    `to`. It begins with the measurements.
    """

    source: Annotated[Name, Field(alias="from")]
    """Node of one link that stands for the ends that begin flows."""
    target: Annotated[Name, Field(alias="to")]
    """Node of one link that stands for the ends that answer."""
    capture: File
    """File beside the workflow: pcap of Ethernet, Linux cooked or IP, at most 256 MiB."""
    labels: Annotated[tuple[File, ...], Field(min_length=1, max_length=16)]
    """Files beside the workflow that say which flows are malicious: of the lab, UNSW-NB15 or
    CIC-IDS2017."""
    speed: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """How many times as fast as it was recorded."""
    passed: Passed | None = None
    """Captures that are compared. Default: none."""
