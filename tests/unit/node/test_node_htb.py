from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.node.netns import htb
from hawser.overlay.config.shaping import class_id
from hawser.overlay.lab.plan import ClassPlan, ShaperPlan
from hawser.spec.units import Duration, Rate, Size


def shaper(*classes: ClassPlan, rate: float | None = None) -> ShaperPlan:
    whole = None if rate is None else Rate(rate)
    return ShaperPlan(node="n", interface="i", name="s", rate=whole, classes=classes)


def source(prefix: str, name: str = "c") -> ClassPlan:
    return ClassPlan(name=name, source=IPv4Network(prefix))


def test_rates_are_bytes_and_nothing_is_guaranteed() -> None:
    plan = shaper(ClassPlan(name="c", rate=Rate(10e6)), rate=40e6)
    (leaf,) = htb.leaves(plan)
    assert (leaf.htb.rate, leaf.htb.ceil) == (htb.GUARANTEED, 1_250_000)
    assert htb.whole(plan).rate == 5_000_000


def test_without_a_rate_nothing_is_limited() -> None:
    plan = shaper(ClassPlan(name="c"))
    assert htb.whole(plan).ceil == htb.leaves(plan)[0].htb.ceil == htb.UNLIMITED


def test_the_default_queue_is_fifty_frames() -> None:
    assert htb.leaves(shaper(ClassPlan(name="c", rate=Rate(1e6))))[0].queue == 75_700


def test_minors_handles_and_their_shadows_are_apart() -> None:
    leaves = htb.leaves(shaper(*(ClassPlan(name=str(n)) for n in range(300))))
    numbers = [n for leaf in leaves for n in (leaf.classid, leaf.down_classid)]
    numbers += [htb.ROOT, htb.WHOLE]
    assert len(set(numbers)) == len(numbers)
    handles = [n for leaf in leaves for n in (leaf.handle, leaf.down_handle)]
    assert len({htb.ROOT, *handles}) == len(handles) + 1
    assert all(number < 1 << 32 for number in (*numbers, *handles))


@pytest.mark.parametrize(
    ("plan", "needs"),
    [
        (shaper(ClassPlan(name="c")), False),
        (shaper(ClassPlan(name="c"), rate=1e6), True),
        (shaper(ClassPlan(name="c", rate=Rate(1e6))), True),
        (shaper(ClassPlan(name="c", queue=Size(1000))), True),
        (shaper(ClassPlan(name="c", delay=Duration(0.01))), True),
        (shaper(source("10.0.0.1/32")), True),
        (shaper(ClassPlan(name="c"), ClassPlan(name="d")), True),
    ],
)
def test_a_tree_is_only_made_where_something_is_limited_or_told_apart(
    plan: ShaperPlan, needs: bool
) -> None:
    assert htb.needs_tree(plan) is needs


def test_longest_prefix_is_asked_first() -> None:
    plan = shaper(
        ClassPlan(name="rest"), source("10.0.0.0/8", "wide"), source("10.1.1.1/32", "narrow")
    )
    filters = [(leaf.name, f"{handle:x}") for leaf, handle in htb.filters(htb.leaves(plan))]
    assert filters == [("narrow", "80000001"), ("wide", "80000002"), ("rest", "80000003")]


def test_a_marked_class_is_only_a_filter_before_its_leaf() -> None:
    urgent = ClassPlan(name="urgent", marked=True)
    late = ClassPlan(name="late", marked=True, priority=1)
    leaves = htb.leaves(shaper(urgent, late, ClassPlan(name="rest", priority=2)))
    assert [leaf.mark for leaf in leaves] == [class_id(0), class_id(1), None]
    assert [f"{leaf.classid:x}" for leaf in leaves] == ["14010", "14011", "10012"]
    assert [leaf.htb.priority for leaf in leaves] == [0, 1, 2]
    filters = [(leaf.name, f"{handle:x}") for leaf, handle in htb.filters(leaves)]
    assert filters == [("rest", "80000001"), ("urgent", "80100001"), ("late", "80200001")]
    assert [f"{leaf.filtered_at:x}" for leaf, _ in htb.filters(leaves)] == [
        "10000",
        "10010",
        "10011",
    ]


@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(0, 2**32 - 1))
def test_filter_keys_match_exactly_the_network(base: int, length: int, address: int) -> None:
    network = IPv4Network((base, length), strict=False)
    header = bytes([0x45, *(0,) * 11, *address.to_bytes(4, "big"), *(0,) * 4])
    inside = (address & int(network.netmask)) == int(network.network_address)
    assert matches(htb.filter_keys(network), header) is inside


@given(st.integers(0, 2**128 - 1), st.integers(0, 128), st.integers(0, 2**128 - 1))
def test_filter_keys_match_exactly_the_ipv6_network(base: int, length: int, address: int) -> None:
    network = IPv6Network((base, length), strict=False)
    for address_or_near in (address, address & ((1 << 128 - length) - 1) | base):
        header = bytes([0x60, *(0,) * 7, *address_or_near.to_bytes(16, "big"), *(0,) * 16])
        inside = (address_or_near & int(network.netmask)) == int(network.network_address)
        assert matches(htb.filter_keys(network), header) is inside
    assert not matches(htb.filter_keys(network), bytes([0x45, *(0,) * 39]))


def test_filter_keys_leave_arp_alone() -> None:
    arp = bytes.fromhex("0001 0800 0604 0001 020000000001 0a00 0001")
    assert not matches(htb.filter_keys(IPv4Network("0.1.10.0/24")), arp)
    assert matches(htb.filter_keys(None), arp)


def matches(keys: list[str], header: bytes) -> bool:
    """What u32 does with keys `value/mask+offset`: big-endian words, masks of one byte at it."""
    for key in keys:
        value_and_mask, _, offset = key.partition("+")
        value, mask = (int(part, 16) for part in value_and_mask.split("/"))
        width = 1 if mask == 0xF0 else 4
        word = int.from_bytes(header[int(offset) :][:width], "big")
        if (word & mask) != value:
            return False
    return True


@given(st.floats(1, 100e9))
def test_bursts_hold_two_frames_and_a_late_timer(rate: float) -> None:
    (leaf,) = htb.leaves(shaper(ClassPlan(name="c", rate=Rate(rate))))
    assert leaf.htb.ceil >= leaf.htb.rate >= 1
    assert leaf.htb.cburst >= max(2 * htb.MTU_FRAME, leaf.htb.ceil * htb.BURST_SECONDS)


def test_netem_holds_what_waits_and_what_is_under_way() -> None:
    plan = ClassPlan(name="c", rate=Rate(12.112e6), queue=Size(15_140), delay=Duration(0.1))
    (leaf,) = htb.leaves(shaper(plan))
    assert leaf.impaired
    assert htb.packets_in_flight(leaf) == 10 + 100 + 1
