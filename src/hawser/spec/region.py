"""Cloud regions: how far apart they are, what a flow gets between them, and what that costs.

A region is written `us-west-2` for AWS, `azure:westeurope` or `gcp:us-east1` for others. Values are
of 2022, from the sources that tools/regions.py names; instance prices and caps say theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Final

from hawser.spec.data import egress, round_trip, throughput
from hawser.spec.data.place import CITIES, REGIONS
from hawser.spec.units import Duration

_EARTH_KM: Final = 6371.0
"""Mean radius."""

GRID: Final = "Skyplane's measurement grids (NSDI'23)"


@dataclass(frozen=True)
class Figure:
    """A value with its unit, and where it is from."""

    value: float
    unit: str
    source: str
    date: str
    estimated: bool = False


def full_name(region: str) -> str:
    """Give a region's name with its provider."""
    return region if ":" in region else f"aws:{region}"


def known(region: str) -> bool:
    """Tell whether there are distances of a region."""
    return full_name(region) in round_trip.REGIONS


def names() -> tuple[str, ...]:
    """All regions with distances, those of AWS without the provider."""
    return tuple(name.removeprefix("aws:") for name in round_trip.REGIONS)


def distance_km(one: str, other: str) -> float:
    """Give the distance over ground between the cities of two regions (haversine formula)."""
    here, there = (CITIES[REGIONS[full_name(region)]] for region in (one, other))
    (north, east), (to_north, to_east) = (tuple(map(math.radians, p)) for p in (here, there))
    across = math.sin((to_east - east) / 2) ** 2 * math.cos(north) * math.cos(to_north)
    return 2 * _EARTH_KM * math.asin(math.sqrt(math.sin((to_north - north) / 2) ** 2 + across))


def round_trip_time(one: str, other: str) -> Figure | None:
    """Give the least round-trip time between two regions, ms; None within one region."""
    pair = (full_name(one), full_name(other))
    value = _round_trips().get(frozenset(pair))
    if value is None:
        return None
    estimated = "aws:eu-west-3" in pair or bool({pair, pair[::-1]} & set(round_trip.ESTIMATED))
    source = f"estimated from the distance, by {GRID}" if estimated else GRID
    return Figure(value, "ms", source, "2022-04", estimated)


def one_way_delay(one: str, other: str) -> Duration | None:
    """Give half the round-trip time; None within one region."""
    found = round_trip_time(one, other)
    return None if found is None else Duration.parse(f"{found.value / 2:.3f} ms")


def tcp_rate(source: str, target: str) -> Figure | None:
    """Give what 64 TCP connections once reached, Gbit/s; between AWS regions an instance's cap."""
    value = _square(throughput.REGIONS, throughput.THROUGHPUT_GBIT_S, source, target)
    return None if value is None else Figure(value, "Gbit/s", GRID, "2022-01")


def egress_price(source: str, target: str) -> Figure | None:
    """Give the list price of traffic, USD a GB."""
    value = _square(egress.REGIONS, egress.EGRESS_USD_GB, source, target)
    return None if value is None else Figure(value, "USD/GB", GRID, "2022")


_SFC: Final = "Leivadeas, Pitaev and Falkner, ICPE'23"
_SRV6: Final = "Spinelli, Iannone and Tollet, Multi-Cloud Chaining with Segment Routing, figure 2"

NOMINAL_RATE: Final = Figure(10, "Gbit/s", _SRV6, "2019")
"""What UDP fills between instances of AWS, in one region and between regions."""
FLOW_CAP: Final = Figure(5, "Gbit/s", _SRV6, "2019")
"""What one TCP flow gets between them."""
VPN_CAP: Final = Figure(1.25, "Gbit/s", f"{_SFC}, section 4, from AWS's quotas", "2022")
"""What one VPN connection of a transit gateway carries."""
SOFTWARE_VPN: Final = Figure(
    150, "USD/month", "Cutler, Examining cross-region communication speeds in AWS", "2018-05"
)
"""Two instances m5.large that carry a VPN between two regions."""

HOURLY_USD: Final[dict[str, dict[str, float]]] = {
    "us-east-2": {
        "c5.large": 0.085,
        "c5.xlarge": 0.17,
        "c5.2xlarge": 0.34,
        "c5.4xlarge": 0.68,
        "t2.medium": 0.046,
        "transit-gateway": 0.05,
    },
    "ap-southeast-2": {
        "c5.large": 0.111,
        "c5.xlarge": 0.222,
        "c5.2xlarge": 0.444,
        "c5.4xlarge": 0.888,
        "transit-gateway": 0.07,
    },
}
TRANSIT: Final = Figure(0.02, "USD/GB", f"{_SFC}, table 5", "2022")
"""What a transit gateway costs besides its attachments, at each end."""


def hourly_price(region: str, item: str) -> Figure | None:
    """Give the price of an instance or a transit gateway's attachment, USD an hour.

    Oregon's prices are Ohio's.
    """
    place = "us-east-2" if region == "us-west-2" else region
    value = HOURLY_USD.get(place, {}).get(item)
    return None if value is None else Figure(value, "USD/h", f"{_SFC}, tables 3 and 5", "2022")


@cache
def _round_trips() -> dict[frozenset[str], float]:
    values = map(float, _cells(round_trip.ROUND_TRIP_MS))
    pairs = map(frozenset, combinations(round_trip.REGIONS, 2))
    return dict(zip(pairs, values, strict=True))


def _square(regions: Sequence[str], table: str, source: str, target: str) -> float | None:
    return _grid(tuple(regions), table).get((full_name(source), full_name(target)))


@cache
def _grid(regions: tuple[str, ...], table: str) -> dict[tuple[str, str], float]:
    pairs = [(source, target) for source in regions for target in regions]
    cells = zip(pairs, _cells(table), strict=True)
    return {pair: float(cell) for pair, cell in cells if cell != "-"}


def _cells(table: str) -> list[str]:
    return [cell for cell in table.split() if cell != ";"]
