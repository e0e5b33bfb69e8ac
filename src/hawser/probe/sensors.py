"""What the intrusion detection sensors of a lab have counted since it was made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from hawser.control.client import ControlError
from hawser.control.model import SensorStatus
from hawser.driver.base import Lab
from hawser.overlay.lab.plan import IdsDaemon
from hawser.probe.base import ProbeError
from hawser.spec.metric import SENSORS
from hawser.store.sample import Sample

MEASUREMENT: Final = "sensors"
"""Name under which sums over all sensors are recorded."""


def names(lab: Lab) -> tuple[str, ...]:
    """Give the names of a lab's sensors."""
    return tuple(each.name for each in lab.plan.daemons if isinstance(each, IdsDaemon))


def read(lab: Lab) -> Mapping[str, SensorStatus]:
    """Ask every sensor what it has counted.

    Raises:
        ProbeError: one does not answer.
    """
    found = {}
    for name in names(lab):
        try:
            with lab.daemons[name].client() as client:
                found[name] = client.sensor_status()
        except ControlError as error:
            raise ProbeError(f"sensor {name}: {error}") from error
    return found


def counted(lab: Lab, raw: Path) -> list[Sample]:
    """Give sums over all sensors; those of each are kept in `raw/sensors.json`.

    Raises:
        ProbeError: a sensor does not answer.
    """
    found = read(lab)
    if not found:
        return []
    document = {name: status.model_dump(mode="json") for name, status in found.items()}
    (raw / "sensors.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return samples(found.values())


def samples(found: Iterable[SensorStatus]) -> list[Sample]:
    """Sum up what sensors have counted."""
    sums = dict.fromkeys(SENSORS, 0)
    for status in found:
        sums["flows_seen"] += status.flows.begun
        sums["packets_unseen"] += status.packets.lost
        sums["records_made"] += status.flows.records
        sums["records_lost"] += lost(status)
    return [
        Sample(measurement=MEASUREMENT, metric=metric, unit=SENSORS[metric], value=value)
        for metric, value in sums.items()
    ]


def lost(status: SensorStatus) -> int:
    """Records that a sensor has made, and could not write."""
    return status.records.dropped + status.records.failed if status.records else 0
