"""Which idle tunnels the controller has measured, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from controller_sample import Api, Clock

from hawser.control.link import Measure, Measured, Place
from hawser.controller.context import Context
from hawser.controller.paths.planner import Planning, Question
from hawser.controller.paths.question import question
from hawser.controller.paths.trains import SECONDS, Trains, places
from hawser.optimise.measured import KNOWN_BY_TRAINS_S, Estimate
from hawser.optimise.switching import Rules
from hawser.spec.route import Hop, Stop

MBIT = 1e6


def hop(one: str, other: str) -> Hop:
    return Stop.of(one), Stop.of(other)


AB, BA = hop("b1.a", "b2.a"), hop("b2.a", "b1.a")
FAR = hop("b1.b", "b3.a")
SAME_PORT = hop("b1.a", "b3.b")
PLACES = {
    AB: Place(peer="b2", group=0, member=0),
    BA: Place(peer="b1", group=0, member=0),
    FAR: Place(peer="b3", group=0, member=2),
    SAME_PORT: Place(peer="b3", group=0, member=1),
}
PORTS = {Stop.of(f"b{n}.{port}"): 40 * MBIT for n in (1, 2, 3) for port in "ab"}


class Gateways:
    """Gateways of b1 and b2, and what they are asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Place]] = []
        self.trains = Trains()
        self.join("b1")
        self.join("b2")

    def join(self, branch: str) -> Callable[[Measure], None]:
        ask = partial(self._note, branch)
        self.trains.join(branch, ask)
        return ask

    def _note(self, branch: str, message: Measure) -> None:
        assert message.port == 40 * MBIT
        self.asked.append((branch, message.place))

    def ask(self, now: float, *wanted: Hop) -> list[tuple[str, Place]]:
        self.asked = []
        self.trains.ask(now, wanted, PLACES, PORTS)
        return self.asked

    def answer(self, now: float, tunnel: Hop, available: float, half: float) -> None:
        found = Measured(
            place=PLACES[tunnel],
            available=available * MBIT,
            low=(available - half) * MBIT,
            high=(available + half) * MBIT,
            trains=5,
        )
        self.trains.take(tunnel[0].branch, found, now)


def test_each_port_has_one_measurement_at_a_time_the_first_wanted_first() -> None:
    gateways = Gateways()
    found = gateways.ask(0, AB, BA, SAME_PORT, FAR)
    assert found == [("b1", PLACES[AB]), ("b1", PLACES[FAR])]
    assert gateways.ask(1, AB, BA, SAME_PORT, FAR) == []
    gateways.answer(5, AB, 10, 1)
    assert gateways.ask(6, BA) == [], "its trains may take the port's share of 20 s"
    assert gateways.ask(SECONDS, SAME_PORT) == [("b1", PLACES[SAME_PORT])]


def test_what_was_found_is_known_for_ten_minutes() -> None:
    gateways = Gateways()
    gateways.ask(0, AB)
    gateways.answer(5, AB, 10, 1)
    assert gateways.trains.found(5) == {AB: Estimate(5, 10 * MBIT, 9 * MBIT, 11 * MBIT)}
    assert gateways.trains.found(5 + KNOWN_BY_TRAINS_S) != {}
    assert gateways.trains.found(6 + KNOWN_BY_TRAINS_S) == {}


@pytest.mark.parametrize("half", [2.6, 10])
def test_a_wide_interval_counts_as_nothing_known(half: float) -> None:
    gateways = Gateways()
    gateways.ask(0, AB)
    gateways.answer(5, AB, 10, half)
    assert gateways.trains.found(5) == {}
    assert gateways.ask(30, AB) == [], "not again at once"
    assert gateways.ask(130, AB) == [("b1", PLACES[AB])]


def test_gateways_that_do_not_answer_or_are_away_hold_nothing_up() -> None:
    gateways = Gateways()
    gateways.ask(0, AB)
    assert gateways.ask(30, SAME_PORT) == []
    assert gateways.ask(41, SAME_PORT, AB) == [("b1", PLACES[SAME_PORT])]
    gateways.trains.take("b1", Measured(place=PLACES[AB], available=1.0, low=1.0, high=1.0), 42)
    assert gateways.trains.found(42) == {}, "nobody waits for it any more"
    old, new = gateways.join("b2"), gateways.join("b2")
    gateways.trains.leave("b2", old)
    assert gateways.ask(100, BA) == [("b2", PLACES[BA])], "it has connected once more"
    gateways.trains.leave("b2", new)
    assert gateways.ask(200, BA) == []


def test_errors_and_what_nobody_asked_for_are_no_results() -> None:
    gateways = Gateways()
    gateways.answer(0, AB, 10, 1)
    gateways.ask(1, AB)
    gateways.trains.take("b2", Measured(place=PLACES[AB], available=1.0, low=1.0, high=1.0), 2)
    gateways.trains.take("b1", Measured(place=PLACES[AB], error="409"), 2)
    assert gateways.trains.found(2) == {}


def asked(context: Context, trains: dict[Hop, Estimate]) -> Question:
    found = context.watch.in_force()
    assert found is not None
    return question(0.0, *found, context.latest.all().values(), trains)


def test_the_planner_names_what_is_not_known_and_takes_what_is(
    api: Api, context: Context, clock: Clock
) -> None:
    del clock
    ports = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2, 3) for port in "ab"}
    patch = {"overlay": {"paths": "automatic"}, "ports": ports}
    api.do("PATCH", "/v1/network", {"patch": patch, "reason": "test"})
    found = context.watch.in_force()
    assert found is not None
    by_tunnel = places(found[1])
    assert len(by_tunnel) == 3 * 4 * 2
    planning = Planning(Rules(), {})
    answer = planning.answer(asked(context, {}))
    assert set(answer.unknown) == set(by_tunnel)
    used = [tunnel for tunnel in answer.unknown if answer.verdict.best.loads.get(tunnel)]
    assert used
    assert list(answer.unknown[: len(used)]) == used
    known = Estimate(0, 8 * MBIT, 7 * MBIT, 9 * MBIT)
    answer = planning.answer(asked(context, {AB: known}))
    assert AB not in answer.unknown
    assert answer.wan.tunnels[AB] == 7 * MBIT
    assert answer.wan.tunnels[BA] == 20 * MBIT


def test_the_network_in_force_is_resolved_once(api: Api, context: Context) -> None:
    found, again = context.watch.in_force(), context.watch.in_force()
    assert found is not None
    assert again is not None
    assert again[1] is found[1], (
        "who looks every second would resolve a thousand branches each time"
    )
    patch = {"overlay": {"queue": "2 MB"}}
    api.do("PATCH", "/v1/network", {"patch": patch, "reason": "test"})
    changed = context.watch.in_force()
    assert changed is not None
    assert changed[1] is not found[1]
