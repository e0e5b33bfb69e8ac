"""What would be if: plans that are computed and not installed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from controller_sample import Api

from hawser.controller.context import Context
from hawser.controller.errors import Conflict
from hawser.controller.paths.whatif import Supposed, WhatIf
from hawser.controller.telemetry.latest import Statistics
from hawser.optimise.solver import ProgramError
from hawser.optimise.wan import Wan

MBIT = 1e6
RATES = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2, 3) for port in "ab"}


@pytest.fixture
def automatic(api: Api, context: Context) -> Api:
    """Branches with two ports of 20 Mbit/s; b1 and b2 demand 30 Mbit/s from each other."""
    body = {"patch": {"overlay": {"paths": "automatic"}, "ports": RATES}, "reason": "test"}
    api.do("PATCH", "/v1/network", body)
    for branch, peer in (("b1", "b2"), ("b2", "b1")):
        values = {f"class/{peer}/II/sent": 30 * MBIT, f"class/{peer}/II/queue": 0.0}
        report(context, branch, values)
    return api


def report(context: Context, branch: str, values: Mapping[str, float]) -> None:
    now = int(context.clock().timestamp())
    found = Statistics(branch, "run", 0, tuple(values), now, now, tuple(values.values()), 0)
    context.latest.put(int(branch[1:]), found)


def ask(api: Api, **body: object) -> Any:  # noqa: ANN401 (JSON)
    return api.do("POST", "/v1/paths/whatif", body)


def pair(found: Any, one: str, other: str) -> Any:  # noqa: ANN401 (JSON)
    return next(each for each in found["pairs"] if each["branches"] == [one, other])


def test_today(automatic: Api) -> None:
    found = ask(automatic)
    both = pair(found, "b1", "b2")
    assert both["demanded"] == pytest.approx(60 * MBIT)
    assert both["kept"] == both["best"] == pytest.approx(60 * MBIT)
    assert found["automatic"] is True


def test_twice_the_traffic_is_more_than_the_ports_carry(automatic: Api) -> None:
    both = pair(ask(automatic, traffic=2.0), "b1", "b2")
    assert both["demanded"] == pytest.approx(120 * MBIT)
    assert both["best"] == pytest.approx(80 * MBIT, rel=0.01), "two ports, both directions"


def test_a_new_port_carries_more(automatic: Api) -> None:
    ports = {
        f"gw{n}.c": {
            "address": f"198.51.100.{4 * n + 2}",
            "next_hop": f"198.51.100.{4 * n + 1}",
            "rate": "20 Mbit/s",
        }
        for n in (1, 2)
    }
    branches = {f"b{n}": {"wan": ["a", "b", "c"]} for n in (1, 2)}
    patch = {"overlay": {"branches": branches}, "ports": ports}
    both = pair(ask(automatic, traffic=2.0, patch=patch), "b1", "b2")
    assert both["best"] == pytest.approx(120 * MBIT, rel=0.01)
    assert any("b1.c" in path for path in both["paths"])
    assert both["changed"]


def test_a_lost_transit_is_missed(automatic: Api, context: Context) -> None:
    """All direct paths of b1 and b2 are measured to carry 1 Mbit/s, so b3 is their transit."""
    values = {"class/b2/II/sent": 4 * MBIT, "class/b2/II/queue": 50_000.0}
    for member in range(6):
        about = f"path/b2/0/{member}"
        values |= {f"{about}/rate": MBIT, f"{about}/capacity": MBIT, f"{about}/up": 1.0}
    report(context, "b1", values)
    with_it = pair(ask(automatic), "b1", "b2")
    assert any("b3" in path for path in with_it["paths"])
    assert with_it["best"] - with_it["kept"] == pytest.approx(10 * MBIT), "16 instead of 6 one way"
    found = ask(automatic, lost=["b3"])
    (both,) = found["pairs"]
    assert both["branches"] == ["b1", "b2"]
    assert not any("b3" in path for path in both["paths"])
    assert both["best"] == pytest.approx(with_it["kept"])


def test_nothing_is_installed(automatic: Api, context: Context) -> None:
    before = (
        automatic.get("/v1/network"),
        automatic.get("/v1/paths"),
        context.watch.plan().desired,
        automatic.get("/v1/audit?limit=200"),
    )
    ask(automatic, traffic=3.0, lost=["b2"], patch={"mtu": 1400})
    after = (
        automatic.get("/v1/network"),
        automatic.get("/v1/paths"),
        context.watch.plan().desired,
        automatic.get("/v1/audit?limit=200"),
    )
    assert after == before


def test_a_network_with_manual_paths_is_shown_what_would_be(api: Api) -> None:
    found = ask(api, patch={"ports": RATES})
    assert found["automatic"] is False
    assert len(found["pairs"]) == 3


@pytest.mark.parametrize(
    "body",
    [
        {"lost": ["b9"]},
        {"traffic": 0},
        {"traffic": -1},
        {"patch": {"overlay": {"transport": "pigeon"}}},
        {"more": 1},
    ],
)
def test_what_cannot_be_supposed(api: Api, body: dict[str, Any]) -> None:
    assert api.call("POST", "/v1/paths/whatif", body).status_code == 422


def test_who_is_limited_to_branches_sees_their_pairs(automatic: Api) -> None:
    role = {"permissions": ["read"], "branches": ["b3"]}
    automatic.do("PUT", "/v1/roles/site", role)
    found = ask(automatic.as_new("site"))
    assert [each["branches"] for each in found["pairs"]] == [["b1", "b3"], ["b2", "b3"]]


def test_a_process_that_dies_is_started_again() -> None:
    asking, nothing = WhatIf(), Supposed(Wan({}, {}), {}, {})
    try:
        assert asking.ask(nothing).best.total == 0
        number = asking._apart.number
        assert number is not None
        os.kill(number, signal.SIGKILL)
        with pytest.raises(ProgramError, match="ended"):
            asking.ask(nothing)
        assert asking.ask(nothing).best.total == 0
    finally:
        asking.stop()


def test_one_question_at_a_time() -> None:
    asking = WhatIf()
    asking._lock.acquire()
    refused = []

    def ask_too() -> None:
        try:
            asking.ask(Supposed(Wan({}, {}), {}, {}))
        except Conflict as error:
            refused.append(str(error))

    thread = threading.Thread(target=ask_too)
    thread.start()
    thread.join()
    asking._lock.release()
    assert refused == ["another question is being answered; ask again"]


def test_numbers_beyond_960_with_labels_of_5_low_bits(automatic: Api, context: Context) -> None:
    before = ask(automatic)
    wide = {"label_bits": 5, "branches": {"b3": {"id": 1900}}}
    automatic.do("PATCH", "/v1/network", {"patch": {"overlay": wide}, "reason": "more branches"})
    desired = json.loads(context.watch.plan().desired["b3"].document)
    assert (desired["id"], desired["transport"]["label_bits"]) == (1900, 5)
    assert ask(automatic)["pairs"] == before["pairs"]
    narrow = {"label_bits": 6}
    body = {"patch": {"overlay": narrow}, "reason": "fewer"}
    refused = automatic.call("PATCH", "/v1/network", body)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["field"] == "overlay.branches.b3.id"
    assert "found 1900, expected 0 to 959: with label_bits: 6" in error["message"]
