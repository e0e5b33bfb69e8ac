"""The job on Spark as a process of this machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hawser.ids.cluster import jars, processes

_SOURCES: Final = Path(__file__).parents[3]


@dataclass(frozen=True)
class Job:
    """The job in a folder."""

    folder: Path
    brokers: str
    model: Path
    cores: int = 2
    access: Path | None = None
    """File with which it shows Kafka who it is."""

    @property
    def record(self) -> Path:
        """File that says which process it is."""
        return self.folder / "spark.json"

    @property
    def store(self) -> Path:
        """Folder of the history."""
        return self.folder / "store"

    def start(self) -> None:
        """Start it, unless it runs; it goes on where it was.

        Raises:
            Lacking: Java or Maven is missing.
            IdsError: its jars cannot be fetched.
        """
        if processes.running(self.record):
            return
        jars.java()
        command = [
            *(sys.executable, "-m", "hawser.ids.spark", "--brokers", self.brokers),
            *("--model", str(self.model.resolve()), "--store", str(self.store.resolve())),
            *("--jars", str(jars.folder("spark")), "--master", f"local[{self.cores}]"),
        ]
        if self.access is not None:
            command += ["--access", str(self.access.resolve())]
        environment = {
            "PYTHONPATH": str(_SOURCES),
            "PYSPARK_PYTHON": sys.executable,
            "OMP_NUM_THREADS": "1",
        }
        processes.start(command, self.record, self.folder / "spark.log", environment)

    def stop(self) -> bool:
        """End it; says whether it ran."""
        return processes.stop(self.record)
