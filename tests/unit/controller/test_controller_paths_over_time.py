"""Automatic paths that flap, lose packets or become slow, on virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from controller_sample import Api, Clock, network

from hawser.controller.context import Context
from hawser.controller.jobs.paths import PathConfiguration
from hawser.controller.paths.planner import Answer, Planner, Planning, Question
from hawser.controller.policy.version import network_of
from hawser.controller.telemetry.latest import Statistics
from hawser.optimise.switching import Rules
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.site import document_of

MBIT = 1e6
PORTS = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2, 3) for port in "ab"}
RULES = Rules(hold_s=3, per_hour=4)


class InThisProcess(Planner):
    """Plans as the planner does, without starting a process."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self._planning = Planning(rules, {})

    def ask(self, asked: Question, last_hour: Mapping[tuple[str, str], Any]) -> Answer:
        return self._planning.answer(asked)


class Lines:
    """Branches b1 to b3; what b1 and b2 measure of the paths to each other is what a test says."""

    def __init__(self, context: Context, clock: Clock, api: Api, policy: object) -> None:
        self.context, self.clock, self.api = context, clock, api
        patch = {"overlay": {"paths": "automatic"}, "ports": PORTS, "policy": policy}
        api.do("PATCH", "/v1/network", {"patch": patch, "reason": "test"})
        sources = (context.database, context.watch, context.latest, context.clock)
        parts = (*sources, context.planned, context.trains)
        self.work = PathConfiguration("one", *parts, RULES)
        self.work.planner = InThisProcess(RULES)
        self.direct: dict[str, float] = {}
        """Values of direct paths of b1 and b2."""
        self.transit: dict[str, float] = {}
        """Values of paths of b3."""
        self.sent = 16 * MBIT
        self.waits = False

    def run(self, seconds: int, every: int = 1) -> None:
        for _ in range(0, seconds, every):
            for branch in ("b1", "b2", "b3"):
                self._report(branch)
            self.work.look()
            self.clock.turn(seconds=every)

    def _report(self, branch: str) -> None:
        found = self.context.watch.in_force()
        assert found is not None
        values: dict[str, float] = {}
        for peer in ("b1", "b2", "b3"):
            busy = {branch, peer} == {"b1", "b2"}
            for group in found[1].between(branch, peer) if peer != branch else ():
                for member, path in enumerate(group.paths):
                    good = {"up": 1.0, "rate": 0.0, "capacity": 2e7, "rtt": 20.0, "loss": 0.0}
                    own = self.direct if busy and len(path.hops) == 1 else {}
                    own = own if busy else self.transit
                    for metric, value in (good | own).items():
                        values[f"path/{peer}/{group.number}/{member}/{metric}"] = value
            if busy:
                values[f"class/{peer}/II/sent"] = self.sent
                values[f"class/{peer}/II/queue"] = 50_000.0 if self.waits else 0.0
        now = int(self.clock().timestamp())
        report = Statistics(branch, "run", 0, tuple(values), now, now, tuple(values.values()), 0)
        self.context.latest.put(int(branch[1:]), report)

    def changes(self) -> list[dict[str, Any]]:
        found = self.api.get("/v1/paths/changes?limit=200")
        return [each for each in found if each["branches"] == ["b1", "b2"]]

    def paths(self) -> set[str]:
        found = self.api.get("/v1/paths")["pairs"]
        return set(next(each["paths"] for each in found if each["branches"] == ["b1", "b2"]))


def lines(context: Context, clock: Clock, policy: object = None) -> Lines:
    return Lines(context, clock, Api(context).log_in(), policy or {})


def test_flapping_paths_change_groups_a_few_times_an_hour_each_with_its_reason(
    context: Context, clock: Clock
) -> None:
    """Now the direct paths are down, now the transit: each time other groups are best."""
    site = lines(context, clock)
    site.sent, waiting = 30 * MBIT, set()
    for _ in range(10):
        site.direct, site.transit = {}, {"up": 0.0}
        site.run(36, every=6)
        site.direct, site.transit = {"up": 0.0}, {}
        site.run(36, every=6)
        waiting.add(site.api.get("/v1/paths")["waiting"])
    found = site.changes()
    assert len(found) == RULES.per_hour
    for change in found:
        assert "b1 and b2 demand" in change["reason"]
        assert "their paths carry" in change["reason"]
        assert change["figures"]["will_carry_bps"] > change["figures"]["carries_bps"]
    times = [change["time"] for change in reversed(found)]
    assert all(one < other for one, other in pairwise(times))
    assert any("changed 4 times in the last hour" in text for text in waiting)


def test_a_path_with_heavy_loss_is_not_chosen_for_a_class_that_forbids_it(
    context: Context, clock: Clock
) -> None:
    site = lines(context, clock, {"II": {"sla": {"loss": "2 %"}}})
    site.run(15)
    assert site.changes() == []
    site.direct = {"loss": 0.2}
    site.run(60)
    (change,) = site.changes()
    assert "loses" in change["reason"]
    assert "(SLA: 2 %)" in change["reason"]
    assert sum("b3" in path for path in change["after"]) >= 2
    site.run(60)
    assert len(site.changes()) == 1
    text = "\n".join(site.api.get("/v1/explain?source=b1&destination=b2")["steps"])
    assert "policy.II.sla asks of its paths: loss at most 2 %" in text
    assert change["reason"] in text


def test_without_thresholds_loss_moves_nothing(context: Context, clock: Clock) -> None:
    site = lines(context, clock)
    site.direct = {"loss": 0.2, "rtt": 900.0}
    site.run(90)
    assert site.changes() == []


def test_a_slow_leak_of_delay_is_one_change_when_the_threshold_is_passed(
    context: Context, clock: Clock
) -> None:
    site = lines(context, clock, {"I": {"sla": {"delay": "50 ms"}}})
    for step in range(200):  # half a millisecond a second of RTT
        site.direct = {"rtt": 20.0 + 1.5 * step}
        site.run(3, every=3)
    (change,) = site.changes()
    assert "has a delay of 5" in change["reason"]
    assert "ms (SLA: 50)" in change["reason"]
    assert change["figures"]["carries_bps"] == 0
    assert any("b3" in path for path in site.paths())


def test_one_lost_probe_of_an_idle_path_changes_nothing(context: Context, clock: Clock) -> None:
    site = lines(context, clock, {"II": {"sla": {"loss": "2 %"}}})
    site.run(60)
    site.direct = {"loss": 0.125}  # one of eight
    site.run(8)
    site.direct = {}
    site.run(60)
    assert site.changes() == []


@pytest.mark.parametrize("kind", ["I", "II"])
def test_thresholds_make_no_second_group(kind: str) -> None:
    document = document_of(network())
    document["overlay"]["paths"] = "automatic"
    document["policy"] = {kind: {"sla": {"loss": "2 %"}}}
    groups = fabric_of(network_of(document)).between("b1", "b2")
    assert [group.number for group in groups] == [0]
