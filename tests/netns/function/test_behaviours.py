"""Every behaviour of the kernel's segment routing beside our proxies (RFC 8986, RFC 8754).

   ha --- a ------ r ------ b --- hb        a: H.Encaps, H.Encaps.Red, H.Insert
                   |                        r: End, End.X, End with PSP
                  px == fn                  b: End.DX*, End.DT*, End with USD

The lab is drawn with addresses in lab/function/srv6.py; here a, b and r get other segments, and
packets other segment lists. A behaviour that the kernel lacks is skipped, with its error.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab.function.srv6 import (
    ADDRESSES,
    CROSS_CONNECT_IPV4,
    CROSS_CONNECT_IPV6,
    FORWARD,
    REVERSE,
    Srv6,
)
from lab.waiting import PATIENCE

pytestmark = pytest.mark.root

END, CROSS, POP = "5f00:e::e", "5f00:e::c", "5f00:e::b"
"""Segments of the router."""
_TABLE = 300
"""Routing table for packets at the end of their segment list, and of the VRF where there is one."""
_PINGS = 5


@dataclass(frozen=True)
class Case:
    """How packets are steered between the hosts, either way."""

    last: dict[int, str]
    """The behaviour that decapsulates, by the family of the packet."""
    before: tuple[str, ...] = ()
    """Segments before the proxy."""
    behind: tuple[str, ...] = ()
    """Segments between the proxy and the end."""
    mode: str = "encap"


CROSS_CONNECTS = {4: CROSS_CONNECT_IPV4, 6: CROSS_CONNECT_IPV6}
BOTH = {
    "End and End.DX4, End.DX6": Case(CROSS_CONNECTS, before=(END,)),
    "H.Encaps.Red and End": Case(CROSS_CONNECTS, before=(END,), mode="encap.red"),
    "End.X": Case(CROSS_CONNECTS, before=(CROSS,)),
    "End.X behind End": Case(CROSS_CONNECTS, before=(END, CROSS), behind=(END,)),
    "End with PSP": Case(CROSS_CONNECTS, behind=(POP,)),
    "End.DT6": Case({6: f"End.DT6 table {_TABLE}"}),
    "End.DT4": Case({4: f"End.DT4 vrftable {_TABLE}"}, before=(END,)),
    "End.DT6 of a VRF": Case({6: f"End.DT6 vrftable {_TABLE}"}),
    "End.DT46": Case(dict.fromkeys((4, 6), f"End.DT46 vrftable {_TABLE}"), before=(CROSS,)),
    "End with USD": Case(dict.fromkeys((4, 6), "End flavors usd")),
    "End with USP and USD": Case(dict.fromkeys((4, 6), "End flavors usp,usd"), before=(END,)),
}
INSERTED = {
    "H.Insert": Case({6: ""}, mode="inline"),
    "H.Insert and End": Case({6: ""}, before=(END,), mode="inline"),
    "H.Insert and End.X": Case({6: ""}, before=(CROSS,), behind=(END,), mode="inline"),
    "H.Insert and End with PSP": Case({6: ""}, behind=(POP,), mode="inline"),
}


@pytest.fixture(scope="module", params=["static", "dynamic", "masquerading"])
def lab(request: pytest.FixtureRequest) -> Iterator[Srv6]:
    with Srv6(request.param) as made:
        for segment, action in ((END, "End"), (CROSS, "End.X nh6 fd00:f::2")):
            made.segment("r", segment, action, "f")
        for end in "ab":
            _table(made, end)
            host = ADDRESSES[end][1]  # an inserted list leaves nothing but that in the end
            made.ip("r", f"-6 route add {host} via fd00:{end}::2")
        yield made


def _table(lab: Srv6, end: str) -> None:
    """Make the table for decapsulated packets, with a VRF if the kernel has it."""
    vrf = ["ip", "link", "add", "vrf", "type", "vrf", "table", str(_TABLE)]
    if subprocess.run(lab.inside(end, *vrf), capture_output=True, check=False).returncode == 0:
        lab.ip(end, "link set vrf up")
        lab.at(end, "sysctl", "-qw", "net.vrf.strict_mode=1")
    for family, address in zip((4, 6), ADDRESSES[end], strict=True):
        lab.ip(end, f"-{family} route add {address} dev h0 table {_TABLE}")
    hook = "type filter hook prerouting priority -300;"
    chain = f"chain c {{ {hook} exthdr rt exists counter name listed ; }};"
    lab.at(end, "nft", f"add table ip6 n {{ counter listed {{ }} ; {chain} }}")


@pytest.mark.parametrize("name", BOTH)
def test_packets_pass_the_kernels_behaviours_and_a_proxy(lab: Srv6, name: str) -> None:
    for family in BOTH[name].last:
        check_steering(lab, BOTH[name], family)


@pytest.mark.parametrize("lab", ["masquerading"], indirect=True)
@pytest.mark.parametrize("name", INSERTED)
def test_inserted_lists_pass_the_kernels_behaviours_and_a_proxy(lab: Srv6, name: str) -> None:
    check_steering(lab, INSERTED[name], 6)


@pytest.mark.parametrize(
    ("before", "behind", "wrong"),
    [
        ((), (), "without the proxy"),
        ((), (FORWARD, REVERSE), "with both of its segments"),
        (("5f00:e::99",), (FORWARD,), "with a segment that nobody has"),
        ((END,), (FORWARD, END, END), "with one too many"),
    ],
)
@pytest.mark.parametrize("lab", ["dynamic"], indirect=True)
def test_a_wrong_list_is_told_from_a_right_one(
    lab: Srv6, before: tuple[str, ...], behind: tuple[str, ...], wrong: str
) -> None:
    check_steering(lab, Case(CROSS_CONNECTS, before=(END,)), 4)
    right = Case(CROSS_CONNECTS, before=(END,))
    with pytest.raises(AssertionError):
        check_steering(lab, right, 4, there=[*before, *behind, "5f00:b::46"], patience=1)


@pytest.mark.parametrize("lab", ["static"], indirect=True)
def test_packets_decapsulated_into_a_missing_table_are_lost(lab: Srv6) -> None:
    with pytest.raises(AssertionError, match="packet loss"):
        check_steering(lab, Case({6: "End.DT6 table 301"}), 6, patience=1)


def check_steering(
    lab: Srv6,
    case: Case,
    family: int,
    there: list[str] | None = None,
    patience: float = PATIENCE,
) -> None:
    """Assert that pings and their answers pass every segment of a case once; `there` replaces the
    list towards b. Each answer may take `patience` seconds."""
    _set(lab, case, family)
    if there is not None:
        lab.steer("a", family, there, case.mode)
    _with_list(lab)
    before, passed = _came(lab, case, family), _passed(lab)
    answered = lab.answered(family, _PINGS, patience)
    assert answered == _PINGS, ("packet loss", answered, lab.proxy.counters())
    came = [now - then for now, then in zip(_came(lab, case, family), before, strict=True)]
    each_way = sorted({*case.before, *case.behind})
    wanted = [2 * _PINGS * (case.before + case.behind).count(each) for each in each_way]
    assert came[: len(wanted)] == wanted
    assert came[len(wanted) :] == [_PINGS] * (len(came) - len(wanted))
    came_with_list = POP not in case.behind
    assert _with_list(lab) == [came_with_list * _PINGS] * 2
    gone = [now - then for now, then in zip(_passed(lab), passed, strict=True)]
    assert gone == [_PINGS] * 4


def _set(lab: Srv6, case: Case, family: int) -> None:
    """Configure ends, router and proxy as a case says."""
    try:
        for end in "ab":
            if case.last[family]:
                device = "vrf" if "vrf" in case.last[family] else "c0"
                lab.segment(end, f"5f00:{end}::46", case.last[family], device)
        if POP in case.behind:
            lab.segment("r", POP, "End flavors psp", "f")
    except (RuntimeError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this kernel has no {case.last[family]}: {_said(error)}")
    for end, segment, far in (("a", FORWARD, "b"), ("b", REVERSE, "a")):
        last = [f"5f00:{far}::46"] if case.last[family] else []
        lab.steer(end, family, [*case.before, segment, *case.behind, *last], case.mode)
    lab.route_to_proxy(known=CROSS not in case.before)
    _configure(lab, case)


def _said(error: Exception) -> str:
    return " ".join(re.findall(r"Error: .*|RTNETLINK.*|Cannot .*", str(error))) or str(error)


def _configure(lab: Srv6, case: Case) -> None:
    """Have a static proxy restore the rest of the list."""
    changed = False
    for proxy, far in zip(lab.proxy.config["proxies"], "ba", strict=True):
        around = proxy.get("encapsulation")
        onward = [*case.behind, f"5f00:{far}::46"]
        if around and around["segments"] != onward:
            around["segments"], changed = onward, True
    if changed:
        lab.proxy.stop()
        lab.proxy.start()


def _came(lab: Srv6, case: Case, family: int) -> list[int]:
    """Packets at each segment of the kernel's: those of the router, then of the ends."""
    router = [lab.came_to("r", each) for each in sorted({*case.before, *case.behind})]
    ends = [(end, f"5f00:{end}::46") for end in "ab" if case.last[family]]
    return [*router, *(lab.came_to(*each) for each in ends)]


def _with_list(lab: Srv6) -> list[int]:
    """Packets that came to the ends with a segment list, since the last time."""
    said = (lab.at(end, "nft", "-j", "reset", "counters") for end in "ab")
    return [int(re.findall(r'"packets": (\d+)', text)[0]) for text in said]


def _passed(lab: Srv6) -> list[int]:
    proxies = lab.proxy.counters()["proxies"]
    return [each[way]["packets"] for each in proxies for way in ("toward", "returned")]
