"""Topics of Kafka."""

from __future__ import annotations

from typing import Final

RECORDS: Final = "hawser.records"
"""Records of flows, as JSON with `sensor`; the key is the flow's id."""
PLACES: Final = "hawser.places"
"""How far each sensor's log was sent; the key is the sensor's name."""
VERDICTS: Final = "hawser.verdicts"
"""Flows and sources that are to be blocked; the key is the verdict's id."""
