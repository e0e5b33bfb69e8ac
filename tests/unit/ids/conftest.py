"""Captures, their records and labels, made once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import captures
from hawser.ids import records, train
from hawser.ids.truth import Truth
from lab.daemon import hawserd

FLOWS = 1500


@pytest.fixture(scope="session")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Folder with SEED.pcap, SEED.csv (labels) and SEED.flows.csv (records) of a seed."""
    folder = tmp_path_factory.mktemp("traffic")

    def made(seed: int) -> Path:
        flows = folder / f"{seed}.flows.csv"
        if not flows.exists():
            capture, _ = captures.write(folder, seed, FLOWS)
            command = (hawserd(), "flows", capture, "--records", "all", "-o", flows)
            subprocess.run(list(map(str, command)), check=True, stderr=subprocess.DEVNULL)
        return folder

    return made


@pytest.fixture(scope="session")
def labelled(traffic: Callable[[int], Path]) -> Callable[[int], train.Labelled]:
    """Labelled records of a seed."""

    def found(seed: int) -> train.Labelled:
        folder = traffic(seed)
        truth, _ = Truth.read([folder / f"{seed}.csv"])
        return train.labelled(records.read([folder / f"{seed}.flows.csv"]), truth)

    return found
