"""Early records of a capture's flows are those of a sensor: also by age."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from hawser.ids import records
from hawser.ids.features import EARLY_PACKETS
from lab.daemon import hawserd


def of_few_packets(folder: Path, *options: str) -> tuple[int, set[int]]:
    """Count early records of flows of few packets; and the numbers of packets of the others."""
    out = folder / "early.csv"
    command = (hawserd(), "flows", folder / "1.pcap", "--records", "all", *options, "-o", out)
    subprocess.run(list(map(str, command)), check=True, stderr=subprocess.DEVNULL)
    found = records.read([out])
    early = found.take(pc.equal(found.rows["reason"], "early").to_numpy())
    packets = (early.column("total_fpackets") + early.column("total_bpackets")).astype(int)
    is_few = packets < EARLY_PACKETS
    return int(is_few.sum()), set(packets[~is_few].tolist())


def test_flows_of_few_packets_have_early_records_at_an_age(
    traffic: Callable[[int], Path],
) -> None:
    folder = traffic(1)
    none, others = of_few_packets(folder, "--early-ms", "0")
    some, same = of_few_packets(folder)
    assert (none, others) == (0, same)
    assert some > of_few_packets(folder, "--early-ms", "1000")[0] > 0
    assert others <= {8, 16, 32}


@pytest.mark.parametrize("age", ["-1", "3600001", "soon"])
def test_ages_that_are_none_are_refused(age: str) -> None:
    command = [str(hawserd()), "flows", "x.pcap", f"--early-ms={age}"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"--early-ms" in done.stderr
