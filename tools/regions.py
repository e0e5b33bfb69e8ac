"""Reduce public measurement grids to the tables in src/hawser/spec/data.

The grids are those that the Skyplane project (github.com/skyplane-project/skyplane, Apache-2.0)
once kept in its repository, as CSV: `region-rtt-2022.csv` (ping between small instances, April
2022, commit d3d50e1f, profiles/latency.csv), `region-throughput-2022.csv` (iperf3, 64 connections,
5 s, once, January 2022, commit e31b010b, skyplane/data/throughput.csv) and
`region-egress-price-2022.csv` (list prices of 2022, commit d3d50e1f, profiles/cost.csv).

A round-trip time is the smaller one of the two directions' minima. One that light in a vacuum would
not have made over the ground is no measurement of that pair, and left out: an address in another
region had answered. Where that leaves nothing, and for regions in no row, it is estimated from the
distance, by the line that has the least sum of squared relative errors over all pairs of AWS.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from hawser.spec.data.place import REGIONS
from hawser.spec.region import distance_km

LIGHT_KM_PER_MS = 299.792458
CITY_KM = 50.0
"""A region lies so near to its city."""

Pair = tuple[str, str]
Table = Mapping[Pair, float]
Constants = Mapping[str, list[str] | list[Pair]]


@dataclass(frozen=True)
class Line:
    """Round-trip time over distance: ms, ms a km, and the mean relative error."""

    offset: float
    slope: float
    error: float

    def at(self, pair: Pair) -> float:
        """Give the estimate for a pair."""
        return self.offset + self.slope * distance_km(*pair)


def main() -> int:
    """Write the three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grids", type=Path, help="folder with the three CSV files")
    folder = parser.parse_args().grids
    target = Path(__file__).resolve().parents[1] / "src" / "hawser" / "spec" / "data"
    measured = _possible(_read(folder / "region-rtt-2022.csv", "rtt_min_ms"))
    line = _fit(measured)
    known = {name for pair in measured for name in pair}
    names = [name for name in REGIONS if name in known or name == "aws:eu-west-3"]
    values = {pair: _round_trip(measured, pair) for pair in combinations(names, 2)}
    missing = [pair for pair, value in values.items() if value is None]
    cells = {p: f"{line.at(p) if v is None else v:.1f}" for p, v in values.items()}
    alone = [pair for pair in missing if "aws:eu-west-3" not in pair]
    about = (
        "Round-trip times in ms, April 2022: each region's line has those to all regions after it."
    )
    constants: Constants = {"REGIONS": names, "ESTIMATED": alone}
    rows = ([cells[pair] for pair in combinations(names, 2) if pair[0] == name] for name in names)
    _write(target / "round_trip.py", about, constants, "ROUND_TRIP_MS", rows)
    print(f"{len(names)} regions, {len(missing)} pairs estimated, {len(alone)} not of Paris")
    print(f"estimate: {line.offset:.2f} ms + {line.slope * 1000:.2f} ms / 1000 km")
    print(f"its mean error over the pairs of AWS: {line.error:.1%}")
    _square(
        target / "throughput.py",
        "TCP rates in Gbit/s (64 connections, 5 s, once), January 2022: from each line's region.",
        _read(folder / "region-throughput-2022.csv", "tcp64_gbit_per_s"),
        "THROUGHPUT_GBIT_S",
        lambda value: f"{value:.1f}",
    )
    _square(
        target / "egress.py",
        "List prices of traffic in USD a GB, lowest tier of 2022: from each line's region.",
        _read(folder / "region-egress-price-2022.csv", "usd_per_gb"),
        "EGRESS_USD_GB",
        lambda value: f"{value:g}",
    )
    return 0


def _read(file: Path, column: str) -> Table:
    with file.open(newline="") as stream:
        return {
            (_name(row["source"]), _name(row["destination"])): float(row[column])
            for row in csv.DictReader(stream)
        }


def _name(text: str) -> str:
    """Google Cloud's zone to its region."""
    return text[:-2] if text.startswith("gcp:") else text


def _possible(measured: Table) -> Table:
    """Leave out what would have been faster than light."""
    return {
        pair: value
        for pair, value in measured.items()
        if value >= 2 * (distance_km(*pair) - CITY_KM) / LIGHT_KM_PER_MS
    }


def _round_trip(measured: Table, pair: Pair) -> float | None:
    found = [measured[way] for way in (pair, pair[::-1]) if way in measured]
    return min(found, default=None)


def _fit(measured: Table) -> Line:
    pairs = [pair for pair in measured if all(name.startswith("aws:") for name in pair)]
    times = np.array([measured[pair] for pair in pairs])
    distances = np.array([distance_km(*pair) for pair in pairs])
    weighted = np.stack([1 / times, distances / times], axis=1)
    (offset, slope), *_ = np.linalg.lstsq(weighted, np.ones(len(pairs)), rcond=None)
    errors = np.abs(offset + slope * distances - times) / times
    return Line(float(offset), float(slope), float(errors.mean()))


def _square(file: Path, about: str, values: Table, name: str, text: Callable[[float], str]) -> None:
    known = {each for pair in values for each in pair}
    names = [each for each in REGIONS if each in known]
    rows = ([_cell(values, (a, b), text) for b in names] for a in names)
    _write(file, about, {"REGIONS": names}, name, rows)


def _cell(values: Table, pair: Pair, text: Callable[[float], str]) -> str:
    value = values.get(pair, math.nan)
    return "-" if math.isnan(value) else text(value)


def _write(
    file: Path,
    about: str,
    constants: Constants,
    name: str,
    rows: Iterator[list[str]],
) -> None:
    lines = [f'"""{about}', "", "Written by tools/regions.py, which names the source.", '"""', ""]
    lines += ["from typing import Final", ""]
    for constant, content in constants.items():
        kind = "tuple[tuple[str, str], ...]" if constant == "ESTIMATED" else "tuple[str, ...]"
        lines += [f"{constant}: Final[{kind}] = ("]
        lines += [f"    {_quoted(each)}," for each in content]
        lines += [")", ""]
    lines += [f'{name}: Final = """']
    lines += [line for row in rows for line in textwrap.wrap(" ".join(row) + " ;", 98)]
    lines += ['"""']
    file.write_text("\n".join(lines) + "\n")


def _quoted(value: str | Pair) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return "(" + ", ".join(f'"{each}"' for each in value) + ")"


if __name__ == "__main__":
    sys.exit(main())
