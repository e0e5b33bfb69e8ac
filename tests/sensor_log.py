"""The record log of a sensor, written as one does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hawser.ids.features import NAMES
from hawser.ids.records import Records


@dataclass
class SensorLog:
    """Writes records into files of `lines` lines; keeps the newest `files`."""

    folder: Path
    run: str = "8c1f00d2a94be617"
    lines: int = 1000
    files: int = 1000
    seq: int = 0
    _file: int = field(default=0, init=False)
    _written: int = field(default=0, init=False)

    def add(self, values: Mapping[str, Any], flow: int | None = None) -> str:
        """Write a record of a flow, by default one of its own; gives the record's name."""
        self.seq += 1
        name = f"{self.run}-{self.seq if flow is None else flow}"
        plain = {key: value for key, value in values.items() if key not in NAMES}
        features = [values[each] for each in NAMES]
        line = {"schema": 1, "id": name, "seq": self.seq, "is_conversation": True, **plain}
        self.text(json.dumps(line | {"features": features, "score": None, "model": None}))
        return f"{self.run}/{self.seq}"

    def text(self, line: str) -> None:
        """Write any line."""
        if not self._written % self.lines:
            self._file += 1
            for old in sorted(self.folder.glob("records-*.jsonl"))[: -self.files or None]:
                old.unlink()
        self._written += 1
        with self.path.open("a") as opened:
            opened.write(f"{line}\n")

    @property
    def path(self) -> Path:
        """The file that is being written."""
        return self.folder / f"records-{self._file:010}.jsonl"


def add_all(log: SensorLog, records: Records) -> set[str]:
    """Write records; gives their names."""
    return {log.add(row) for row in records.rows.to_pylist()}
