"""Staged roll-outs: what is judged, what gateways get meanwhile, and the way back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from controller_sample import Api, Clock, Machine, network

from hawser.control.link import Hello, Outcome
from hawser.controller.context import Context
from hawser.controller.db.tables import Observation
from hawser.controller.jobs.rollout import RECONNECT, advance
from hawser.controller.policy import rollout
from hawser.controller.policy.configuration import Computer, Desired, desired
from hawser.controller.policy.judgement import GRACE, PATIENCE, Member, Stage, Verdict, judge
from hawser.controller.policy.sync import Sync
from hawser.controller.telemetry import observation
from hawser.overlay.config.gateway import GatewayConfig
from hawser.spec.network import Network

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OBSERVE = timedelta(seconds=10)
REACHED = {"b1": frozenset({"b2", "b3"}), "b2": frozenset({"b1", "b3"})}


def member(branch: str, sync: Sync = Sync.IN_FORCE, **more: Any) -> Member:  # noqa: ANN401
    whole = {"connected": True, "reaches": frozenset({"b2", "b3"})} | more
    return Member(branch=branch, sync=sync, **whole)


def stage(**more: Any) -> Stage:  # noqa: ANN401
    return Stage(**{"since": NOW, "observe": OBSERVE, "reached": REACHED} | more)


def test_a_stage_that_is_well_for_long_enough_is_followed_by_the_next() -> None:
    first = judge(stage(), [member("b1")], NOW)
    assert (first.verdict, first.settled) == (Verdict.WAIT, NOW)
    assert judge(stage(settled=NOW), [member("b1")], NOW + OBSERVE).verdict is Verdict.NEXT


@pytest.mark.parametrize("sync", [Sync.FAILED, Sync.WAITING])
def test_a_gateway_that_returned_returns_all(sync: Sync) -> None:
    found = judge(stage(), [member("b1", sync, detail="b2: not any more")], NOW)
    assert (found.verdict, found.reason) == (Verdict.RETURN, "b1: b2: not any more")


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ({"connected": False}, "b1: lost the controller"),
        ({"reaches": frozenset()}, "b1: reaches none of b2, b3 any more"),
    ],
)
def test_a_gateway_that_is_lost_for_long_returns_all(lost: dict[str, Any], reason: str) -> None:
    first = judge(stage(settled=NOW), [member("b1", **lost)], NOW)
    assert (first.verdict, first.settled, first.ailing) == (Verdict.WAIT, None, {"b1": NOW})
    later = judge(stage(ailing=first.ailing), [member("b1", **lost)], NOW + GRACE)
    assert (later.verdict, later.reason) == (Verdict.RETURN, reason)
    again = judge(stage(ailing=first.ailing), [member("b1")], NOW + GRACE)
    assert (again.verdict, again.ailing) == (Verdict.WAIT, {})


def test_whoever_was_away_before_is_not_waited_for() -> None:
    away = member("b3", Sync.OFFLINE, connected=False)
    found = judge(stage(settled=NOW), [member("b1"), away], NOW + OBSERVE)
    assert found.verdict is Verdict.NEXT


def test_a_gateway_that_does_not_answer_is_not_waited_for_without_end() -> None:
    slow = [member("b1", Sync.APPLYING)]
    assert judge(stage(), slow, NOW + PATIENCE - timedelta(seconds=1)).verdict is Verdict.WAIT
    assert judge(stage(), slow, NOW + PATIENCE).verdict is Verdict.RETURN


def changed(**overlay: Any) -> Network:  # noqa: ANN401
    found = network()
    return Network.model_validate(
        found.model_dump(by_alias=True)
        | {"overlay": found.overlay.model_dump(by_alias=True) | overlay}
    )


def config(found: Desired) -> GatewayConfig:
    return GatewayConfig.model_validate_json(found.document)


def groups(found: Desired) -> dict[str, tuple[int, ...]]:
    return {p.branch: tuple(g.id for g in p.groups) for p in config(found).peers}


VIA_3 = ["b1.a>b3.a>b3.b>b2.b"]


def test_both_ends_of_a_group_agree_in_every_stage() -> None:
    """The group of b1 and b2 becomes number 5; that of b1 and b3 number 6."""
    old = network()
    new = changed(
        path_groups={
            "one": {"id": 5, "paths": ["b1.a>b2.a"]},
            "two": {"id": 6, "paths": ["b1.a>b3.a"]},
        },
        queue="2 MB",
    )
    canary = Computer().desired_in_stages((old, 1), (new, 2), {"b1"}, ())
    assert groups(canary["b1"]) == {"b2": (0,), "b3": (0,)}
    assert config(canary["b1"]).queue_bytes == 2_000_000  # all that concerns it alone is new
    assert canary["b1"].version == 2
    before = desired(old, 1, ())
    assert canary["b2"] == before["b2"]
    assert canary["b3"] == before["b3"]
    two = Computer().desired_in_stages((old, 1), (new, 2), {"b1", "b2"}, ())
    assert groups(two["b1"]) == {"b2": (5,), "b3": (0,)}
    assert groups(two["b2"]) == {"b1": (5,), "b3": (0,)}
    assert two["b3"] == before["b3"]
    assert Computer().desired_in_stages((old, 1), (new, 2), {"b1", "b2", "b3"}, ()) == desired(
        new, 2, ()
    )


def test_a_path_through_a_branch_waits_for_its_gateway() -> None:
    """Both have a switch before and after, as in a network with another path through a branch."""
    old = changed(path_groups={"far": {"id": 1, "paths": ["b1.b>b3.b>b3.a>b2.a"]}})
    new = changed(path_groups={"far": {"id": 2, "paths": VIA_3}})
    ends = Computer().desired_in_stages((old, 1), (new, 2), {"b1", "b2"}, ())
    assert groups(ends["b1"])["b2"] == (1,)
    transit = config(ends["b1"]).switch
    assert transit
    assert transit == config(desired(old, 1, ())["b1"]).switch


def test_branches_that_come_and_go() -> None:
    less = network().model_dump(by_alias=True)
    del less["overlay"]["branches"]["b3"]
    less["ports"] = {name: each for name, each in less["ports"].items() if "gw3" not in name}
    two = Network.model_validate(less)
    going = Computer().desired_in_stages((network(), 1), (two, 2), {"b1"}, ())
    assert sorted(going) == ["b1", "b2", "b3"]
    assert sorted(groups(going["b1"])) == ["b2", "b3"]
    coming = Computer().desired_in_stages((two, 1), (network(), 2), {"b1"}, ())
    assert sorted(coming) == ["b1", "b2"]
    assert sorted(groups(coming["b1"])) == ["b2"]


class Gateways:
    """Three gateways that have joined, and say what a test has them say."""

    def __init__(self, context: Context, api: Api) -> None:
        self.context = context
        self.began = context.clock() - RECONNECT
        self.numbers: dict[str, int] = {}
        for branch in ("b1", "b2", "b3"):
            token = api.do("POST", "/v1/tokens", {"branch": branch})["token"]
            assert Machine().join(api, token).is_success
        for each in api.get("/v1/gateways"):
            self.numbers[each["branch"]] = each["id"]
        for branch in self.numbers:
            self.connect(branch)
            self.reach(branch, {"b1", "b2", "b3"} - {branch})
        self.keep()

    def _note(self, write: Any) -> None:  # noqa: ANN401
        with self.context.database.note() as session:
            write(session)

    def connect(self, branch: str) -> None:
        now, number = self.context.clock(), self.numbers[branch]
        with self.context.database.read() as session:
            applied = session.get_one(Observation, number).applied
        hello = Hello(protocol=1, software="1", time=0, applied=applied)
        self._note(lambda s: observation.connected(s, number, branch, hello, now))

    def disconnect(self, branch: str) -> None:
        now, number = self.context.clock(), self.numbers[branch]
        self._note(lambda s: observation.disconnected(s, number, branch, now))

    def reach(self, branch: str, peers: set[str]) -> None:
        up = {name: name in peers for name in self.numbers if name != branch}
        now, number = self.context.clock(), self.numbers[branch]
        self._note(lambda s: observation.reaches(s, number, branch, up, now))

    def keep(self, *branches: str) -> None:
        """Keep what they should have."""
        plan = self.context.watch.plan()
        for branch in branches or self.numbers:
            self.report(branch, plan.desired[branch], "kept")

    def report(self, branch: str, wanted: Desired, result: Any, detail: str = "") -> None:  # noqa: ANN401
        found = Outcome(digest=wanted.digest, version=wanted.version, result=result, detail=detail)
        now, number = self.context.clock(), self.numbers[branch]
        self._note(lambda s: observation.outcome(s, number, found, now))

    def wanted(self) -> dict[str, int]:
        """Version of the configuration that each should have."""
        return {name: each.version for name, each in self.context.watch.plan().desired.items()}

    def tick(self) -> bool:
        plan = self.context.watch.plan()
        return advance(self.context.database, plan, self.began, self.context.clock())


CHANGE = {"patch": {"overlay": {"queue": "2 MB"}}, "reason": "more", "rollout": {"canary": ["b2"]}}


def test_a_roll_out_goes_from_the_canary_to_the_rest(
    api: Api, context: Context, clock: Clock
) -> None:
    gateways = Gateways(context, api)
    api.do("PATCH", "/v1/network", CHANGE)
    assert gateways.wanted() == {"b1": 1, "b2": 2, "b3": 1}
    assert not gateways.tick()
    gateways.keep("b2")
    assert not gateways.tick()
    clock.turn(seconds=9)
    assert not gateways.tick()
    clock.turn(seconds=1)
    assert gateways.tick()
    assert gateways.wanted() == {"b1": 2, "b2": 2, "b3": 2}
    gateways.keep()
    assert not gateways.tick()
    clock.turn(seconds=10)
    assert gateways.tick()
    found = api.get("/v1/rollouts")[0]
    assert (found["state"], found["version"], found["base"]) == ("done", 2, 1)
    assert found["stages"] == [["b2"], ["b1", "b3"]]
    with context.database.read() as session:  # it grows with the square of the branches
        assert rollout.by_number(session, 1).reached == {}
    assert api.get("/v1/network")["number"] == 2


def test_a_roll_out_returns_by_itself(api: Api, context: Context) -> None:
    gateways = Gateways(context, api)
    api.do("PATCH", "/v1/network", CHANGE)
    wanted = context.watch.plan().desired["b2"]
    gateways.report("b2", wanted, "returned", "the controller did not confirm it")
    assert gateways.tick()
    newest = api.get("/v1/network")
    assert (newest["number"], newest["restores"]) == (3, 1)
    assert newest["author"] == "roll-out 1"
    found = api.get("/v1/rollouts/1")
    assert found["state"] == "returned"
    assert found["detail"] == "b2: the controller did not confirm it"
    assert found["returned_by"] == 3
    # Who has the configuration already needs no other.
    states = {each["branch"]: each["configuration"]["state"] for each in api.get("/v1/gateways")}
    assert set(states.values()) == {"in_force"}
    actions = [each["action"] for each in api.get("/v1/audit")]
    assert actions[-4:] == ["network.change", "rollout.begin", "network.change", "rollout.return"]


def test_a_canary_that_loses_its_peers_returns(api: Api, context: Context, clock: Clock) -> None:
    gateways = Gateways(context, api)
    api.do("PATCH", "/v1/network", CHANGE)
    gateways.keep("b2")
    gateways.reach("b2", set())
    assert not gateways.tick()
    clock.turn(seconds=GRACE.total_seconds())
    assert gateways.tick()
    assert api.get("/v1/rollouts/1")["detail"] == "b2: reaches none of b1, b3 any more"


def test_gateways_get_time_to_connect_to_a_controller_that_has_started(
    api: Api, context: Context, clock: Clock
) -> None:
    gateways = Gateways(context, api)
    api.do("PATCH", "/v1/network", CHANGE)
    gateways.keep("b2")
    gateways.disconnect("b2")
    clock.turn(minutes=10)
    gateways.began = clock()
    assert not gateways.tick()
    clock.turn(seconds=RECONNECT.total_seconds() - 6)
    gateways.connect("b2")  # it has not said yet whom it reaches
    assert not gateways.tick()
    gateways.disconnect("b2")
    clock.turn(seconds=6)
    assert not gateways.tick()
    clock.turn(seconds=GRACE.total_seconds())
    assert gateways.tick()
    assert api.get("/v1/rollouts/1")["detail"] == "b2: lost the controller"


def test_nothing_is_changed_while_a_roll_out_runs(api: Api, context: Context) -> None:
    Gateways(context, api)
    api.do("PATCH", "/v1/network", CHANGE)
    other = {"patch": {"overlay": {"queue": "3 MB"}}, "reason": "more still"}
    refused = api.call("PATCH", "/v1/network", other)
    assert refused.status_code == 409
    assert "roll-out 1 is running" in refused.json()["error"]
    assert api.call("POST", "/v1/versions/1/restore", {"reason": "no"}).status_code == 409
    api.do("POST", "/v1/rollouts/1/finish")
    api.do("PATCH", "/v1/network", other)
    ended = api.call("POST", "/v1/rollouts/1/return", {"reason": "too late"})
    assert ended.status_code == 409


def test_an_operator_returns_a_roll_out(api: Api, context: Context) -> None:
    gateways = Gateways(context, api)
    api.do("PATCH", "/v1/network", CHANGE)
    found = api.do("POST", "/v1/rollouts/1/return", {"reason": "not today"})
    assert (found["state"], found["returned_by"]) == ("returned", 3)
    assert set(gateways.wanted().values()) == {3}
    assert not gateways.tick()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (CHANGE | {"rollout": {"canary": ["b2", "b9"]}}, "rollout.canary.1"),
        (CHANGE | {"patch": {"overlay": {"switch": "bpf"}}}, "rollout"),
        (CHANGE | {"patch": {"overlay": {"label_bits": 5}}}, "rollout"),
    ],
)
def test_what_cannot_be_staged_is_refused(api: Api, change: dict[str, Any], field: str) -> None:
    refused = api.call("PATCH", "/v1/network", change)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == field
    assert api.get("/v1/network")["number"] == 1
    assert api.get("/v1/rollouts") == []
