"""Networks by what they overlap, against trying all of them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from hypothesis import given
from hypothesis import strategies as st

from hawser.spec.prefixes import Network, Prefixes


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Few addresses, so that many overlap."""
    if draw(st.booleans()):
        return IPv4Network((draw(st.integers(0, 15)) << 28, draw(st.integers(0, 5))), strict=False)
    length = draw(st.sampled_from([0, 2, 126, 127, 128]))
    return IPv6Network((draw(st.integers(0, 7)), length), strict=False)


@given(st.lists(networks(), max_size=20), networks())
def test_overlaps(added: list[Network], wanted: Network) -> None:
    found = Prefixes()
    for number, network in enumerate(added):
        found.add(str(number), network)
    assert list(found.overlapping(wanted)) == [
        (str(number), each)
        for number, each in enumerate(added)
        if each.version == wanted.version and each.overlaps(wanted)  # type: ignore[arg-type]
    ]


@given(st.lists(networks(), max_size=20), st.integers(0, 2**32 - 1))
def test_contains(added: list[Network], number: int) -> None:
    found = Prefixes()
    for place, network in enumerate(added):
        found.add(str(place), network)
    for address in (IPv4Address(number), IPv6Address(number % 8)):
        wanted = [(str(n), each) for n, each in enumerate(added) if address in each]
        assert list(found.containing(address)) == wanted
