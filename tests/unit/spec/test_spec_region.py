"""Distances, rates and prices of cloud regions."""

from __future__ import annotations

from itertools import combinations

import pytest

from hawser.spec import region
from hawser.spec.units import Duration

LIGHT_KM_PER_MS = 299.792


@pytest.mark.parametrize(
    ("one", "other", "milliseconds"),
    [
        ("us-west-2", "us-east-2", 54.2),
        ("us-west-2", "ap-southeast-2", 138.6),
        ("us-east-1", "eu-west-2", 76.7),
        ("us-east-1", "ap-southeast-2", 197.0),
    ],
)
def test_measured_round_trips(one: str, other: str, milliseconds: float) -> None:
    found = region.round_trip_time(one, other)
    assert found is not None
    assert (found.value, found.unit, found.date) == (milliseconds, "ms", "2022-04")
    assert not found.estimated
    assert region.round_trip_time(other, one) == found
    assert region.one_way_delay(one, other) == Duration.parse(f"{milliseconds / 2:.3f} ms")


def test_paris_is_estimated_and_says_so() -> None:
    found = region.round_trip_time("eu-west-3", "us-east-1")
    assert found is not None
    assert found.estimated
    assert found.source.startswith("estimated from the distance")
    # Azure measured 81 ms from its own Paris.
    assert found.value == pytest.approx(81, rel=0.3)


def test_nothing_is_faster_than_light() -> None:
    for one, other in combinations(region.names(), 2):
        found = region.round_trip_time(one, other)
        assert found is not None
        assert found.value >= 2 * (region.distance_km(one, other) - 50) / LIGHT_KM_PER_MS - 0.05


def test_within_a_region_nothing_is_known() -> None:
    assert region.round_trip_time("us-west-2", "us-west-2") is None
    assert region.one_way_delay("us-west-2", "aws:us-west-2") is None


def test_other_providers_and_their_names() -> None:
    assert region.known("gcp:us-east1")
    assert region.known("azure:westeurope")
    assert not region.known("us-east1")
    assert region.full_name("us-west-2") == "aws:us-west-2"


def test_distance() -> None:
    assert region.distance_km("eu-west-2", "eu-west-3") == pytest.approx(344, abs=5)
    assert region.distance_km("us-west-2", "ap-southeast-2") == pytest.approx(12_564, rel=0.001)


def test_rates_and_prices() -> None:
    rate = region.tcp_rate("us-west-2", "us-east-2")
    assert rate is not None
    assert (rate.value, rate.unit) == (5.2, "Gbit/s")
    price = region.egress_price("us-west-2", "us-east-2")
    assert price is not None
    assert price.value == 0.02
    sydney = region.hourly_price("ap-southeast-2", "c5.4xlarge")
    assert sydney is not None
    assert sydney.value == 0.888
    assert region.hourly_price("us-west-2", "c5.large") == region.hourly_price(
        "us-east-2", "c5.large"
    )
    assert region.hourly_price("sa-east-1", "c5.large") is None
    assert region.VPN_CAP.value == 1.25


REGIONS_OF_EXPERIMENTS = (
    "eu-west-3 eu-west-2 eu-west-1 us-west-2 us-west-1 sa-east-1 ap-northeast-1 ap-southeast-2"
    " us-east-1 us-east-2"
)


def test_every_pair_of_the_experiments_has_a_distance() -> None:
    for one, other in combinations(REGIONS_OF_EXPERIMENTS.split(), 2):
        assert region.one_way_delay(one, other) is not None
