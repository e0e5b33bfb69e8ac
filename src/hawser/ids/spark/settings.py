"""What the job is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hawser.ids.stream.access import OPEN, Access

RECORDS: Final = "records"
"""Folder of the store with the history: a folder a batch."""
CHECKPOINTS: Final = "checkpoints"
"""Folder of the store with Spark's places in the topics."""
STATUS: Final = "status.json"


@dataclass(frozen=True)
class Settings:
    """Settings of the job."""

    brokers: str
    model: Path
    """Model file; replaced ones are read with the next batch."""
    store: Path
    """Folder for history, checkpoints and status."""
    access: Access = OPEN
    """How the job shows Kafka who it is."""
    jars: tuple[Path, ...] = ()
    """Spark's connector for Kafka, and what it needs."""
    master: str = "local[2]"
    """Where Spark runs: cores of this machine, or `spark://HOST:PORT`."""
    memory: str = "1g"
    """Of Spark's driver."""
    trigger_s: float = 1.0
    """Between the beginnings of batches, seconds."""
    batch_max: int = 200_000
    """Records of a batch, at most."""
    scan_targets: int = 100
    """Addresses and ports that a source may try within a minute without a conversation."""
