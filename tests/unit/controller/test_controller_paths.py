"""Automatic paths: from reports to groups, their history, and explanations."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from controller_sample import Api, Clock

from hawser.controller.context import Context
from hawser.controller.db.tables import PathChange
from hawser.controller.jobs.paths import PathConfiguration
from hawser.controller.paths import chosen
from hawser.controller.paths.planner import Planner
from hawser.controller.paths.question import question
from hawser.controller.policy import version
from hawser.controller.telemetry.latest import Statistics
from hawser.optimise.solver import ProgramError
from hawser.optimise.switching import Rules
from hawser.overlay.sdwan.network import fabric_of

MBIT = 1e6
RATES = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2, 3) for port in "ab"}


@pytest.fixture
def automatic(api: Api) -> Api:
    body = {"patch": {"overlay": {"paths": "automatic"}, "ports": RATES}, "reason": "test"}
    api.do("PATCH", "/v1/network", body)
    return api


@pytest.fixture
def work(context: Context) -> Iterator[PathConfiguration]:
    made = configuration(context)
    yield made
    made.planner.stop()


def configuration(context: Context, instance: str = "one") -> PathConfiguration:
    rules = Rules(hold_s=2, per_hour=3)
    sources = (context.database, context.watch, context.latest, context.clock)
    parts = (*sources, context.planned, context.trains)
    return PathConfiguration(instance, *parts, rules)


def report(context: Context, branch: str, values: Mapping[str, float]) -> None:
    """Have a gateway report."""
    now = int(context.clock().timestamp())
    number = int(branch[1:])
    names = tuple(values)
    found = Statistics(branch, "run", 0, names, now, now, tuple(values.values()), 0)
    context.latest.put(number, found)


def poor(peer: str, rate: float) -> Mapping[str, float]:
    """All direct paths to a peer carry little, and packets wait."""
    values = {f"class/{peer}/II/sent": 4 * rate, f"class/{peer}/II/queue": 50_000.0}
    for member in range(6):
        about = f"path/{peer}/0/{member}"
        values |= {f"{about}/rate": rate, f"{about}/capacity": rate, f"{about}/up": 1.0}
    return values


def look(context: Context, clock: Clock, work: PathConfiguration, seconds: int) -> int:
    """Report for some seconds that b1's paths to b2 are poor; give when groups were replaced."""
    for second in range(seconds):
        report(context, "b1", poor("b2", 0.5 * MBIT))
        if work.look():
            return second
        clock.turn(seconds=1)
    return -1


def configured(context: Context, branch: str) -> str:
    return context.watch.plan().desired[branch].document


def test_poor_paths_are_helped_and_the_reason_is_kept(
    automatic: Api, context: Context, clock: Clock, work: PathConfiguration
) -> None:
    before = configured(context, "b3")
    assert 2 <= look(context, clock, work, 10) <= 6
    (change,) = automatic.get("/v1/paths/changes")
    assert change["branches"] == ["b1", "b2"]
    assert any("b3" in path for path in change["after"])
    assert len(change["before"]) == len(change["after"]) == 8
    assert sum("b3" in path for path in change["after"]) == 4, "nothing is measured of b3's ports"
    assert "their paths carry" in change["reason"]
    assert change["figures"]["will_carry_bps"] > 2 * change["figures"]["carries_bps"]
    assert configured(context, "b3") != before, "the transit has flow entries for it"
    audit = automatic.get("/v1/audit?limit=100")[-1]
    assert (audit["action"], audit["after"]["reason"]) == ("paths.change", change["reason"])


def test_nothing_is_chosen_where_paths_are_manual(
    api: Api, context: Context, clock: Clock, work: PathConfiguration
) -> None:
    assert look(context, clock, work, 8) == -1
    assert api.get("/v1/paths")["automatic"] is False
    assert work.planner.number is None


def test_manual_groups_are_kept(
    automatic: Api, context: Context, clock: Clock, work: PathConfiguration
) -> None:
    group = {"mine": {"id": 0, "paths": ["b1.a>b2.a"]}}
    body = {"patch": {"overlay": {"path_groups": group}}, "reason": "test"}
    automatic.do("PATCH", "/v1/network", body)
    assert look(context, clock, work, 8) == -1
    pairs = [each["branches"] for each in automatic.get("/v1/paths")["pairs"]]
    assert pairs == [["b1", "b3"], ["b2", "b3"]]


def test_a_solver_that_dies_leaves_the_groups_and_comes_back(
    automatic: Api, context: Context, clock: Clock, work: PathConfiguration
) -> None:
    assert look(context, clock, work, 10) > 0
    kept = context.watch.plan().desired
    clock.turn(seconds=10)
    report(context, "b1", poor("b2", 0.1 * MBIT))
    assert work.planner.number is not None
    os.kill(work.planner.number, signal.SIGKILL)
    with pytest.raises(ProgramError, match="ended"):
        work.look()
    work.failed("the planner's process has ended")
    assert automatic.get("/v1/paths")["error"] == "the planner's process has ended"
    assert context.watch.plan().desired == kept
    report(context, "b1", poor("b2", 0.1 * MBIT))
    work.look()
    assert work.planner.number is not None
    assert automatic.get("/v1/paths")["error"] is None


def test_a_planner_that_takes_too_long_is_ended(context: Context) -> None:
    network = version.network_of(_document(context))
    asked = question(0.0, network, fabric_of(network), ())
    planner = Planner(Rules(), patience_s=0.0)
    with pytest.raises(ProgramError, match="has not answered"):
        planner.ask(asked, {})
    assert planner.number is None


def test_changes_of_before_a_restart_count(automatic: Api, context: Context, clock: Clock) -> None:
    with context.database.write() as session:
        for number in range(1, 4):
            row = PathChange(
                number=number,
                time=clock(),
                one="b1",
                other="b2",
                before=[],
                after=[],
                reason="",
                figures={},
            )
            session.add(row)
    work = configuration(context)
    try:
        assert look(context, clock, work, 8) == -1
    finally:
        work.planner.stop()
    assert "3 times in the last hour" in automatic.get("/v1/paths")["waiting"]


def test_one_controller_chooses(automatic: Api, context: Context, clock: Clock) -> None:
    with context.database.write() as session:
        assert chosen.may_plan(session, "one", clock())
        assert not chosen.may_plan(session, "two", clock())
        assert chosen.is_planner(session, "one", clock())
        clock.turn(seconds=10)
        assert chosen.is_planner(session, "one", clock()) is None
        assert chosen.is_planner(session, "two", clock()) is False
        clock.turn(seconds=10)
        assert chosen.may_plan(session, "two", clock())
        assert not chosen.may_plan(session, "one", clock())


def test_paths_over_what_is_no_more_are_not_used(
    automatic: Api, context: Context, clock: Clock, work: PathConfiguration
) -> None:
    assert look(context, clock, work, 10) > 0
    branches = {"b3": {"wan": ["a"]}}
    body = {
        "patch": {"overlay": {"branches": branches}, "ports": {"gw3.b": None}},
        "reason": "test",
    }
    automatic.do("PATCH", "/v1/network", body)
    assert set(context.watch.plan().desired) == {"b1", "b2", "b3"}


def test_reports_of_what_nobody_knows_do_no_harm(
    automatic: Api, context: Context, work: PathConfiguration
) -> None:
    odd = {"path/b9/0/0/rate": 1.0, "class/b2/II/sent": float("nan"), "path/b2/7/99/up": 1.0}
    report(context, "b1", odd)
    report(context, "b77", odd)
    assert work.look() is False


def steps(api: Api, asked: str) -> Any:  # noqa: ANN401 (JSON)
    return api.get(f"/v1/explain?{asked}")


def test_a_flow_is_explained_from_rule_to_figures(
    automatic: Api, context: Context, clock: Clock, work: PathConfiguration
) -> None:
    classes = {"calls": {"protocol": "udp", "destination_ports": [5000, 5999], "type": "I"}}
    automatic.do(
        "PATCH", "/v1/network", {"patch": {"overlay": {"classes": classes}}, "reason": "x"}
    )
    assert look(context, clock, work, 10) > 0
    found = steps(automatic, "source=b1&destination=10.2.0.9&protocol=udp&port=5004")
    assert (found["source"], found["destination"], found["rule"]) == ("b1", "b2", "calls")
    assert found["class"] == "I"
    (group,) = found["groups"]
    assert group["origin"] == "overlay.paths: automatic"
    assert group["members"][0]["values"]["capacity"] == 0.5 * MBIT
    text = "\n".join(found["steps"])
    for part in ("rule calls of overlay.classes", "no group of Type I", "2 hops", "last change"):
        assert part in text
    assert found["change"]["reason"] in text
    other = steps(automatic, "source=b1&destination=b2&protocol=tcp&port=5004")
    assert (other["rule"], other["class"]) == (None, "II")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("source=b1&destination=192.0.2.200", "Type III leaves by the ports of type internet"),
        ("source=b1&destination=10.1.0.9", "its gateway has no part in it"),
        ("source=192.0.2.200&destination=b1", "in no branch"),
        ("source=b1&destination=b2", "default: all pairs of WAN ports"),
    ],
)
def test_what_needs_no_group(api: Api, asked: str, part: str) -> None:
    assert part in "\n".join(steps(api, asked)["steps"])


def test_origins_of_groups(api: Api) -> None:
    groups = {
        "bulk": {"id": 3, "paths": ["b1.a>b2.a"]},
        "calls": {"class": "I", "paths": ["b2.b>b1.b"]},
    }
    api.do("PATCH", "/v1/network", {"patch": {"overlay": {"path_groups": groups}}, "reason": "x"})
    found = steps(api, "source=b2&destination=b1")
    assert [each["origin"] for each in found["groups"]] == ["overlay.path_groups.bulk"]
    assert found["groups"][0]["members"][0]["path"] == "b2.a>b1.a"


@pytest.mark.parametrize("asked", ["source=b9&destination=b1", "source=b1&destination=10.1"])
def test_ends_that_are_none(api: Api, asked: str) -> None:
    assert api.call("GET", f"/v1/explain?{asked}").status_code == 422


def _document(context: Context) -> Any:  # noqa: ANN401 (JSON)
    with context.database.read() as session:
        return version.newest(session).document
