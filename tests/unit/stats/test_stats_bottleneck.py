"""Which element limited, from invented evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.stats.bottleneck import find
from hawser.stats.evidence import (
    Connection,
    CpuQuota,
    DropPoint,
    Evidence,
    Loss,
    Offered,
    Program,
    Queue,
    Role,
)


def queue(name: str = "link:x:forward", **values: float) -> Queue:
    quiet = {"rate": 20.0, "load": 0.3, "peak": 0.4, "packets": 10_000, "drops": 0}
    return Queue.model_validate({"name": name, **quiet, **values})


def program(element: str = "h1", role: Role = "generator", demand: float = 0.2) -> Program:
    return Program(element=element, name="iperf3", role=role, demand=demand, cpu=demand)


def quota(node: str = "fw", role: Role = "function", throttled: float = 0.0) -> CpuQuota:
    return CpuQuota(node=node, role=role, used=0.5, throttled=throttled)


def drop_point(node: str, role: Role, drops: int) -> DropPoint:
    return DropPoint(node=node, role=role, packets=10_000, drops=drops)


def connection(window: float = 0.0, buffer: float = 0.0) -> Connection:
    return Connection(
        sender="h1",
        sender_role="generator",
        receiver="h2",
        receiver_role="receiver",
        window=window,
        buffer=buffer,
    )


QUIET = Evidence(
    queues=(queue(), queue("link:y:forward")),
    programs=(program(), program("h2", "receiver"), program("daemon:fw", "function", 0.6)),
    cpu_quotas=(quota(),),
    stacks=(drop_point("fw", "function", 0),),
    sockets=(drop_point("h2", "receiver", 0),),
    connections=(connection(0.1, 0.05),),
)

FULL = queue("link:y:forward", load=0.97, peak=1.0, drops=40)
SHORT = queue("link:y:forward", load=0.4, drops=40, load_at_drop=0.5)
NAMED = {
    "full": ({"queues": (queue(), FULL)}, "rate", "link:y:forward"),
    "full without drops": (
        {"queues": (queue(load=0.96, peak=0.99),)},
        "rate",
        "link:x:forward",
    ),
    "full now and then": (
        {"queues": (queue(load=0.5, drops=50, load_at_drop=0.98),)},
        "rate",
        "link:x:forward",
    ),
    "short queue": ({"queues": (queue(), SHORT)}, "queue", "link:y:forward"),
    "policer": ({"stacks": (drop_point("fw", "function", 30),)}, "filter", "fw"),
    "throttled": ({"cpu_quotas": (quota(throttled=0.9),)}, "function", "fw"),
    "busy daemon": (
        {"programs": (program("daemon:gw1", "function", 0.99),)},
        "function",
        "daemon:gw1",
    ),
    "busy generator": ({"programs": (program(demand=0.98),)}, "generator", "h1"),
    "busy receiver": (
        {"programs": (program(demand=0.91), program("h2", "receiver", 0.99))},
        "receiver",
        "h2",
    ),
    "no room for datagrams": ({"sockets": (drop_point("h2", "receiver", 9),)}, "receiver", "h2"),
    "full window": ({"connections": (connection(window=0.9),)}, "window", "h2"),
    "small buffer": ({"connections": (connection(buffer=0.4),)}, "generator", "h1"),
    "loss": ({"losses": (Loss(name="path:p:forward", packets=20),)}, "loss", "path:p:forward"),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_was_at_its_limit_is_named(name: str) -> None:
    change, kind, element = NAMED[name]
    diagnosis = find(QUIET.model_copy(update=change))
    assert [(cause.kind, cause.element) for cause in diagnosis.limits] == [(kind, element)]
    assert diagnosis.nearest is None or diagnosis.nearest.element != element


def test_nothing_at_its_limit_is_named_but_the_nearest() -> None:
    diagnosis = find(QUIET)
    assert diagnosis.limits == ()
    assert diagnosis.nearest is not None
    assert (diagnosis.nearest.element, diagnosis.nearest.utilisation) == ("daemon:fw", 0.6)


def test_without_evidence_there_is_no_diagnosis() -> None:
    assert find(Evidence()).model_dump() == {"limits": (), "nearest": None}


def test_paths_that_are_full_together_are_named_together_the_slowest_first() -> None:
    full = tuple(
        queue(f"path:p{n}:forward", load=0.97, peak=1.0, drops=3, rate=rate)
        for n, rate in enumerate((33.0, 1.0, 4.0))
    )
    diagnosis = find(QUIET.model_copy(update={"queues": full}))
    assert [cause.element[5:7] for cause in diagnosis.limits] == ["p1", "p2", "p0"]


@pytest.mark.parametrize(("drops", "packets"), [(4, 100), (40, 1_000_000)])
def test_a_few_drops_explain_nothing(drops: int, packets: int) -> None:
    few = DropPoint(node="fw", role="function", packets=packets, drops=drops)
    lossy = queue(drops=drops, packets=packets, load_at_drop=0.4)
    evidence = QUIET.model_copy(update={"stacks": (few,), "sockets": (few,), "queues": (lossy,)})
    assert find(evidence).limits == ()


EXPLAINED = (
    ("full", "throttled"),
    ("full", "busy daemon"),
    ("full", "small buffer"),
    ("full", "loss"),
    ("throttled", "short queue"),
    ("busy daemon", "short queue"),
    ("no room for datagrams", "busy receiver"),
)


@pytest.mark.parametrize(("first", "second"), EXPLAINED)
def test_what_another_cause_explains_is_not_named(first: str, second: str) -> None:
    change, kind, element = NAMED[first]
    both = QUIET.model_copy(update={**change, **NAMED[second][0]})
    assert [(cause.kind, cause.element) for cause in find(both).limits] == [(kind, element)]


def test_a_full_direction_explains_a_short_queue_elsewhere() -> None:
    short = SHORT.model_copy(update={"name": "link:x:forward"})
    found = find(QUIET.model_copy(update={"queues": (short, FULL)}))
    assert [cause.element for cause in found.limits] == [FULL.name]


TOGETHER = (
    ("policer", "throttled"),
    ("policer", "busy daemon"),
    ("policer", "short queue"),
    ("policer", "busy generator"),
    ("throttled", "busy daemon"),
    ("short queue", "busy generator"),
    ("short queue", "loss"),
    ("policer", "loss"),
)


@pytest.mark.parametrize(("first", "second"), TOGETHER)
def test_causes_that_limit_each_by_itself_are_all_named(first: str, second: str) -> None:
    both = QUIET.model_copy(update={**NAMED[first][0], **NAMED[second][0]})
    found = [(cause.kind, cause.element) for cause in find(both).limits]
    assert found == [NAMED[first][1:], NAMED[second][1:]]


shares = st.floats(0, 2)
counts = st.integers(0, 10**9)
roles = st.sampled_from(["generator", "receiver", "function"])
names = st.sampled_from(["h1", "fw", "h2", "link:x:forward"])
evidence = st.builds(
    Evidence,
    queues=st.lists(
        st.builds(
            Queue, name=names, rate=st.floats(0.001, 1e5), load=shares, peak=shares,
            packets=counts, drops=counts, load_at_drop=shares,
        )
    ).map(tuple),
    programs=st.lists(
        st.builds(Program, element=names, name=names, role=roles, demand=shares, cpu=shares)
    ).map(tuple),
    cpu_quotas=st.lists(
        st.builds(CpuQuota, node=names, role=roles, used=shares, throttled=shares)
    ).map(tuple),
    stacks=st.lists(st.builds(DropPoint, node=names, role=roles, packets=counts, drops=counts)).map(
        tuple
    ),
)  # fmt: skip


@given(evidence)
def test_named_elements_are_among_those_seen(seen: Evidence) -> None:
    diagnosis = find(seen)
    known = {q.name for q in seen.queues} | {p.element for p in seen.programs}
    known |= {b.node for b in seen.cpu_quotas} | {s.node for s in seen.stacks}
    named = {cause.element for cause in diagnosis.limits}
    assert named <= known
    if diagnosis.nearest is not None:
        assert diagnosis.nearest.element not in named


@given(evidence)
def test_a_load_that_arrived_is_the_only_limit(seen: Evidence) -> None:
    offered = Offered(generator="h1", rate=10, delivered=0.999)
    diagnosis = find(seen.model_copy(update={"offered": offered}))
    assert [(cause.kind, cause.element) for cause in diagnosis.limits] == [("load", "h1")]


@given(evidence)
def test_where_congestion_control_never_waited_no_loss_is_named(seen: Evidence) -> None:
    idle = seen.model_copy(update={"connections": (connection(window=0.6, buffer=0.3),)})
    kinds = {cause.kind for cause in find(idle).limits}
    assert not kinds & {"filter", "queue", "loss"}


@given(evidence)
def test_without_a_drop_and_without_load_nobody_is_named(seen: Evidence) -> None:
    idle = Evidence(
        queues=tuple(q.model_copy(update={"drops": 0, "load": 0.8}) for q in seen.queues),
        programs=tuple(p.model_copy(update={"demand": 0.8}) for p in seen.programs),
        cpu_quotas=tuple(b.model_copy(update={"throttled": 0.3}) for b in seen.cpu_quotas),
        stacks=tuple(s.model_copy(update={"drops": 0}) for s in seen.stacks),
    )
    assert find(idle).limits == ()
