"""Differences, patches, synchronisation and statistics: what is computed of state."""

from __future__ import annotations

import contextlib
import copy
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from controller_sample import network
from hypothesis import given
from hypothesis import strategies as st

from hawser.control.link import MAX_SERIES, Hello, Outcome, from_controller, from_gateway
from hawser.control.series import (
    KINDS,
    LATEST_TIME,
    NAME,
    Report,
    described,
    name_of,
    pack,
    unpack,
)
from hawser.controller.errors import Invalid
from hawser.controller.policy.configuration import Computer, Desired, desired, digest_of
from hawser.controller.policy.difference import Change, changes, patched
from hawser.controller.policy.sync import Observed, Sync, sync
from hawser.controller.policy.version import document_of, network_of
from hawser.controller.telemetry.compatibility import warnings
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of

_KEY = st.text("ab/~", max_size=2)
_JSON = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEY, inner, max_size=3),
    max_leaves=8,
)
_DOCUMENT = st.dictionaries(_KEY, _JSON, max_size=4)


def applied(document: Any, found: tuple[Change, ...]) -> Any:  # noqa: ANN401 (JSON)
    """Make changes one by one, by their JSON pointers."""
    for change in found:
        steps = [s.replace("~1", "/").replace("~0", "~") for s in change.path.split("/")[1:]]
        if not steps:
            return change.after
        place = document
        for step in steps[:-1]:
            place = place[step]
        if change.after is None:
            del place[steps[-1]]
        else:
            place[steps[-1]] = change.after
    return document


@given(_DOCUMENT, _DOCUMENT)
def test_the_changes_lead_from_one_document_to_the_other(old: Any, new: Any) -> None:  # noqa: ANN401
    assert applied(copy.deepcopy(old), changes(old, new)) == new


_LINE = st.builds(
    lambda port, host: {"ports": {port: {"address": f"198.51.100.{host}"}}},
    st.sampled_from(sorted(network().ports)),
    st.integers(1, 250),
)
_GROUPS = st.sampled_from(
    [
        None,
        {"far": {"id": 3, "paths": ["b1.a>b2.a"]}},
        {"far": {"id": 3, "paths": ["b2.b>b1.a"]}, "near": {"paths": ["b3.a>b2.a"]}},
        {"far": {"paths": ["b1.a>b3.a>b3.b>b2.b", "b1.b>b2.a"]}},
    ]
).map(lambda groups: {"overlay": {"path_groups": groups or {"far": None, "near": None}}})
_OTHER = st.sampled_from(
    [
        {"overlay": {"queue": "2 MB"}},
        {"overlay": {"switch": "bpf"}},
        {"overlay": {"switch": None}},
        {"ports": {"gw1.a": {"rate": "5 Mbit/s"}}},
        {"ports": {"gw1.a": {"type": "leased"}, "gw2.a": {"type": "leased"}}},
        {"prefixes": {"b2": ["10.9.0.0/16"]}},
        {"overlay": {"branches": {"b3": None}}, "ports": {"gw3.a": None, "gw3.b": None}},
    ]
)


@given(st.lists(_LINE | _GROUPS | _OTHER, min_size=1, max_size=5))
def test_what_is_computed_of_changes_is_what_is_computed_anew(patches: list[Any]) -> None:
    computer, document = Computer(), document_of(network())
    for number, patch in enumerate(patches, 1):
        document = patched(document, patch)
        with contextlib.suppress(Invalid):
            checked = network_of(document)
            found = computer.desired(checked, number, ("ab",))
            assert found == desired(checked, number, ("ab",))
            for name, config in configurations(fabric_of(checked)).items():
                tls = getattr(config.transport, "tls")  # noqa: B009 (of the union only some have it)
                refusing = tls.model_copy(update={"revoked": ("ab",)})
                transport = config.transport.model_copy(update={"tls": refusing})
                whole = config.model_copy(update={"transport": transport})
                assert found[name].digest == digest_of(whole.model_dump_json())
                assert GatewayConfig.model_validate_json(found[name].document) == whole


@given(_DOCUMENT)
def test_nothing_differs_from_itself(document: Any) -> None:  # noqa: ANN401 (JSON)
    assert changes(document, document) == ()


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_are_those_of_the_rfc(document: Any, patch: Any, result: Any) -> None:  # noqa: ANN401
    assert patched(document, patch) == result


def test_a_configuration_is_known_by_its_digest() -> None:
    first = desired(network(), 1, [])
    again = desired(network(), 2, [])
    assert {b: each.digest for b, each in first.items()} == {b: e.digest for b, e in again.items()}
    revoked = desired(network(), 2, ["a" * 64])
    assert all(revoked[branch].digest != first[branch].digest for branch in first)
    assert digest_of('{"a": 1, "b": 2}') == digest_of('{ "b":2,"a":1}')


@pytest.mark.parametrize(
    ("software", "clock", "capabilities", "found"),
    [
        (None, None, None, []),
        ("1", 4.9, ["tun", "mptcp"], []),
        ("1", -61.0, ["tun", "mptcp"], ["its clock is 61 s behind"]),
        ("1", 5.0, ["tun", "mptcp"], ["its clock is 5 s ahead"]),
        ("2", 0.0, ["tun", "mptcp"], ["it runs version 2, the controller 1"]),
        ("1", 0.0, ["xdp"], ["it lacks mptcp, tun, which its configuration needs"]),
    ],
)
def test_what_may_be_wrong_with_a_gateway(
    software: str | None, clock: float | None, capabilities: list[str] | None, found: list[str]
) -> None:
    assert list(warnings("1", software, clock, capabilities, {"hawserd", "mptcp", "tun"})) == found


NOW = datetime(2026, 1, 1, tzinfo=UTC)
WANTED = Desired(2, "{}", "d" * 64)


@pytest.mark.parametrize(
    ("observed", "result"),
    [
        (Observed(connected=True, applied=WANTED.digest), Sync.IN_FORCE),
        (Observed(connected=False, applied=WANTED.digest), Sync.IN_FORCE),
        (Observed(connected=True, applied="other"), Sync.APPLYING),
        (Observed(connected=False, applied=None), Sync.OFFLINE),
        (Observed(connected=True, applied="x", failed="older"), Sync.APPLYING),
        (Observed(connected=True, applied="x", failed=WANTED.digest), Sync.FAILED),
        (
            Observed(True, "x", WANTED.digest, NOW + timedelta(seconds=1)),
            Sync.WAITING,
        ),
        (Observed(True, "x", WANTED.digest, NOW), Sync.APPLYING),
    ],
)
def test_synchronisation(observed: Observed, result: Sync) -> None:
    assert sync(WANTED, observed, NOW) is result
    assert sync(None, observed, NOW) is Sync.NONE


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, LATEST_TIME - 1),
    st.lists(st.floats(allow_infinity=False, width=32), max_size=40),
)
def test_a_packed_report_is_read_back(sequence: int, time: int, values: list[float]) -> None:
    packed = pack(Report(sequence, time, tuple(values)))
    assert len(packed) == 16 + 4 * len(values)
    found = unpack(packed, len(values))
    assert (found.sequence, found.time) == (sequence, time)
    assert np.array_equal(found.values, values, equal_nan=True)


@given(st.binary(max_size=100), st.integers(0, 10))
def test_what_is_no_report_is_refused(data: bytes, count: int) -> None:
    try:
        report = unpack(data, count)
    except ValueError:
        return
    assert not any(map(math.isinf, report.values))
    assert len(pack(report)) == len(data)


@given(st.text(max_size=30))
def test_names_of_unknown_series_are_no_error(name: str) -> None:
    found = described(name)
    assert found is None or re.fullmatch(NAME, name) or "" in found[1].values()


def test_names_of_series() -> None:
    name = name_of("path", ("b2", 0, 1), "rtt")
    assert name == "path/b2/0/1/rtt"
    found = described(name)
    assert found is not None
    assert found[0].unit == "ms"
    assert found[1] == {"peer": "b2", "group": "0", "member": "1"}
    assert described("path/b2/0/rtt") is None
    exported = [each.exported for kind in KINDS.values() for each in kind.metrics.values()]
    assert len(set(exported)) == len(exported)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"kind": "unknown"}',
        '{"kind": "hello", "protocol": 1, "software": "x", "time": 1e999}',
        '{"kind": "hello", "protocol": 1, "software": "a\\u0000b", "time": 1}',
        '{"kind": "outcome", "digest": "x", "version": 1, "result": "kept"}',
        '{"kind": "outcome", "digest": "%s", "version": 1, "result": "lost"}' % ("0" * 64),
        '{"kind": "series", "run": "0000000000000000", "names": %s}' % (["a/b"] * (MAX_SERIES + 1)),
        '{"kind": "series", "run": "%s", "names": ["a/b\\n"]}' % ("0" * 16),
        '{"kind": "series", "run": "x", "names": []}',
        '{"kind": "configure", "version": 1}',
    ],
)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (whatever is wrong with it)
        from_gateway(text.replace("'", '"'))


def test_messages_are_read_back() -> None:
    hello = Hello(protocol=1, software="0.1", time=1.5, applied="a" * 64)
    assert from_gateway(hello.model_dump_json()) == hello
    outcome = Outcome(digest="0" * 64, version=3, result="returned", detail="because")
    assert from_gateway(outcome.model_dump_json()) == outcome
    with pytest.raises(ValueError, match="kind"):
        from_controller(outcome.model_dump_json())


def test_a_copy_knows_the_same_and_changes_nothing() -> None:
    """So that a change can be tried while the plan goes on."""
    known, new = Computer(), network()
    first = known.desired(new, 1, ())
    other = known.copy()
    assert other.desired(new, 1, ()) == first
    other.desired(new.model_copy(update={"mtu": 1400}), 2, ("ab",))
    assert known.desired(new, 1, ()) == first
