"""Alarms: raised for what lasts, cleared, acknowledged, silenced; on virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from controller_sample import Api, Clock, Machine
from sqlalchemy import select, update

import hawser
from hawser.controller.alarms.paths import Limits
from hawser.controller.context import Context
from hawser.controller.db.tables import Certificate, Delivery, Observation
from hawser.controller.jobs.alarms import Sources, Watchman
from hawser.controller.telemetry.latest import Statistics

WEBHOOK = {"type": "webhook", "url": "https://alarms.example/hook", "least": "info"}
GOOD = {"up": 1.0, "rtt": 20.0, "jitter": 1.0, "loss": 0.0, "capacity": 1e7}


class Site:
    """A controller whose three gateways report what a test says."""

    def __init__(self, context: Context, clock: Clock) -> None:
        self.context, self.clock = context, clock
        self.api = Api(context).log_in()
        self.connected = {"b1", "b2", "b3"}
        self.values: dict[tuple[str, str, int], dict[str, float]] = {}
        for branch in ("b1", "b2", "b3"):
            token = self.api.do("POST", "/v1/tokens", {"branch": branch})["token"]
            assert Machine().join(self.api, token).is_success
        self.watchman = self.another()

    def another(self) -> Watchman:
        """As after a restart, or in another controller."""
        context = self.context
        parts = (context.database, context.watch, context.latest, context.statistics)
        return Watchman(Sources(*parts, self.clock, {}), Limits())

    def path(self, source: str, peer: str, member: int, **values: float) -> None:
        self.values[source, peer, member] = values

    def line(self, port: str, **values: float) -> None:
        """Values of all paths over a port of b1, to both peers and back."""
        at = "ab".index(port)
        for peer in ("b2", "b3"):
            for other in (0, 1):
                self.path("b1", peer, 2 * at + other, **values)
                self.path(peer, "b1", 2 * at + other, **values)

    def run(self, seconds: int, watchman: Watchman | None = None, every: int = 1) -> None:
        """Let time pass, with a report and a look every so many seconds."""
        for _ in range(0, seconds, every):
            self.report()
            (watchman or self.watchman).look()
            self.clock.turn(seconds=every)

    def report(self) -> None:
        now = self.clock()
        with self.context.database.note() as session:
            for row in session.scalars(select(Observation)):
                branch = f"b{row.gateway}"
                row.software = row.software or hawser.__version__
                if branch in self.connected:
                    row.connected, row.seen = row.connected or now, now
                else:
                    row.connected = None
        for number in (1, 2, 3):
            if (branch := f"b{number}") in self.connected:
                self.context.latest.put(number, self._statistics(branch))

    def _statistics(self, branch: str) -> Statistics:
        values = {
            f"path/{peer}/0/{member}/{metric}": value
            for peer in ("b1", "b2", "b3")
            if peer != branch
            for member in range(4)
            for metric, value in (GOOD | self.values.get((branch, peer, member), {})).items()
        }
        time = int(self.clock().timestamp())
        return Statistics(branch, "run", 0, tuple(values), time, time, tuple(values.values()), 0)

    def open(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get("/v1/alarms")
        return found

    def kinds(self) -> list[str]:
        return sorted(each["kind"] for each in self.open())

    def observe(self, branch: str, **values: object) -> None:
        with self.context.database.note() as session:
            of = Observation.gateway == int(branch[1:])
            session.execute(update(Observation).where(of).values(**values))

    def messages(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """What was queued: group, and events with their kinds."""
        with self.context.database.read() as session:
            rows = session.scalars(select(Delivery).order_by(Delivery.number))
            return [
                (row.group, [(each["event"], each["kind"]) for each in row.events]) for row in rows
            ]


@pytest.fixture
def site(context: Context, clock: Clock) -> Site:
    return Site(context, clock)


def test_nothing_is_wrong(site: Site) -> None:
    site.run(90)
    assert site.open() == []


def test_a_path_down_is_an_alarm_after_ten_seconds_and_cleared_after_thirty(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    site.run(5)
    site.path("b1", "b2", 0, up=0.0)
    site.run(10)
    assert site.open() == []
    site.run(2)
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"], alarm["branches"]) == (
        "path_down",
        "warning",
        ["b1", "b2"],
    )
    assert alarm["detail"] == "from b1 to b2 1 of 4 paths are down: b1.a>b2.a"
    assert alarm["notified"] is not None
    site.path("b1", "b2", 0)
    site.run(29)
    assert len(site.open()) == 1
    site.run(3)
    assert site.open() == []
    (alarm,) = site.api.get("/v1/alarms?state=all")
    assert alarm["cleared"] > alarm["raised"]
    assert site.messages() == [
        ("b1-b2", [("raised", "path_down")]),
        ("b1-b2", [("cleared", "path_down")]),
    ]


def test_what_lasts_shorter_is_no_alarm(site: Site) -> None:
    for _ in range(4):
        site.path("b1", "b2", 0, up=0.0)
        site.run(5)
        site.path("b1", "b2", 0)
        site.run(40)
    assert site.api.get("/v1/alarms?state=all") == []


def test_a_flapping_path_is_few_alarms_an_hour(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    for _ in range(45):  # an hour of 40 s down, 40 s up
        site.path("b1", "b2", 0, up=0.0)
        site.run(40, every=8)
        site.path("b1", "b2", 0)
        site.run(40, every=8)
    found = site.api.get("/v1/alarms?state=all")
    assert [each["flaps"] for each in found] == [1, 0]
    assert len(site.messages()) == 3, "raised, cleared, raised"
    site.run(70)
    assert site.open() == [], "it is cleared after the minute that one flap costs"


def test_a_path_that_is_down_half_of_the_time_is_an_alarm(site: Site) -> None:
    for _ in range(20):
        site.path("b1", "b2", 0, up=0.0)
        site.run(4)
        site.path("b1", "b2", 0)
        site.run(4)
    assert site.kinds() == ["path_down"]


def test_a_level_that_rises_is_told_and_withdraws_the_acknowledgement(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    site.path("b1", "b2", 0, up=0.0)
    site.run(15)
    (alarm,) = site.open()
    done = site.api.do("POST", f"/v1/alarms/{alarm['number']}/acknowledge", {"note": "on it"})
    assert (done["acknowledged_by"], done["note"]) == ("admin", "on it")
    again = site.api.call("POST", f"/v1/alarms/{alarm['number']}/acknowledge", {})
    assert again.status_code == 409
    for member in range(1, 4):
        site.path("b1", "b2", member, up=0.0)
    site.run(2)
    (alarm,) = site.open()
    assert (alarm["level"], alarm["acknowledged"]) == ("critical", None)
    assert site.messages()[-1][1] == [("escalated", "path_down")]
    assert site.api.get("/v1/audit?limit=200")[-1]["action"] == "alarm.acknowledge"


def test_the_failure_of_a_line_is_one_message(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    site.line("a", up=0.0)
    # The members of b2 and b3 that end at port a of b1 are 0 and 1 in both directions.
    site.run(20)
    assert {each["group"] for each in site.open()} == {"b1.a"}
    ((group, events),) = site.messages()
    assert group == "b1.a"
    assert events == 4 * [("raised", "path_down")]


def test_a_branch_that_nobody_reaches_is_one_group(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    site.run(3)
    site.connected.discard("b3")
    for source in ("b1", "b2"):
        for member in range(4):
            site.path(source, "b3", member, up=0.0)
    site.run(100)
    assert site.kinds() == ["gateway_silent", "path_down", "path_down"]
    assert {each["group"] for each in site.open()} == {"b3"}
    assert {each["level"] for each in site.open()} == {"critical"}
    site.connected.add("b3")
    site.values.clear()
    site.run(40)
    assert site.open() == []


def test_a_lossy_path_and_a_slow_leak_of_delay_are_degraded(site: Site) -> None:
    site.path("b1", "b2", 1, loss=0.2)
    site.run(35)
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"]) == ("path_degraded", "warning")
    assert "b1.a>b2.b loses 0.2 of its bytes (limit 0.05)" in alarm["detail"]
    assert alarm["figures"]["loss"] == pytest.approx(0.2)
    site.path("b1", "b2", 1)
    site.run(65)
    assert site.open() == []
    for minute in range(60):  # 1 ms a minute
        site.path("b2", "b3", 0, rtt=20.0 + minute)
        site.run(60, every=10)
    (alarm,) = site.open()
    assert alarm["kind"] == "path_degraded"
    assert "(lowest of a day 20 ms)" in alarm["detail"]


def test_an_sla_that_some_or_no_path_meets(site: Site) -> None:
    policy = {"II": {"sla": {"delay": "30 ms", "loss": "2 %"}}}
    site.api.do("PATCH", "/v1/network", {"patch": {"policy": policy}, "reason": "x"})
    site.path("b1", "b2", 0, rtt=80.0)
    site.run(15)
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"]) == ("sla_broken", "warning")
    text = "from b1 to b2 1 of 4 paths do not meet the SLA of class II: b1.a>b2.a: delay 40 ms"
    assert alarm["detail"] == f"{text} (at most 30 ms)"
    for member in range(1, 4):
        site.path("b1", "b2", member, loss=0.03)
    site.run(15)
    assert "no_compliant_path" in site.kinds()
    site.run(35)
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"]) == ("no_compliant_path", "critical")
    site.values.clear()
    site.run(35)
    assert site.open() == []


@pytest.mark.parametrize(
    ("values", "kind", "level", "part"),
    [
        ({"clock_offset_s": -7.0}, "clock_off", "warning", "was 7 s behind"),
        ({"clock_offset_s": 2000.0}, "clock_off", "critical", "was 2000 s ahead"),
        ({"software": "0.0.9"}, "version_old", "info", "it runs version 0.0.9, the controller"),
    ],
)
def test_clock_and_version(
    site: Site, values: Mapping[str, Any], kind: str, level: str, part: str
) -> None:
    site.report()
    site.observe("b2", **values)
    site.run(2)
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"], alarm["branches"]) == (kind, level, ["b2"])
    assert part in alarm["detail"]
    site.observe("b2", clock_offset_s=0.0, software=hawser.__version__)
    site.run(2)
    assert site.open() == []


def test_newer_or_odd_versions_are_not_old(site: Site) -> None:
    site.report()
    for version in ("99.0.0", "odd", ""):
        site.observe("b2", software=version)
        site.run(2)
        assert site.open() == []


def test_a_certificate_that_was_not_renewed(site: Site) -> None:
    with site.context.database.note() as session:
        ends = site.clock() + timedelta(days=4)
        of = Certificate.gateway == 3
        session.execute(update(Certificate).where(of).values(expires=ends))
    site.clock.turn(days=3, hours=10)
    site.run(2)
    site.api.log_in()
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"]) == ("certificate_ends", "critical")
    assert "its certificate ends 2026-01-05 00:00 UTC" in alarm["detail"]


def test_a_revoked_gateway_has_no_alarms(site: Site) -> None:
    site.run(2)
    site.connected.discard("b3")
    site.run(70)
    assert "gateway_silent" in site.kinds()
    site.api.do("POST", "/v1/gateways/3/revoke", {"reason": "moved"})
    site.run(35)
    assert site.open() == []


def test_a_quota_that_is_nearly_used(site: Site) -> None:
    ports = {"gw1.a": {"quota_gb": 0.001}}
    site.api.do("PATCH", "/v1/network", {"patch": {"ports": ports}, "reason": "x"})
    layout = site.context.statistics.layout("b1", ["port/a/sent", "port/a/received"])
    now = int(site.clock().timestamp())
    for second in range(20):  # 0.7 of 1 MB
        site.context.statistics.write(layout, now + second, [1.8e5, 1e5])
    site.clock.turn(seconds=20)
    site.run(2)
    assert site.open() == []
    site.context.statistics.write(layout, now + 20, [1e6, 2e5])
    site.clock.turn(minutes=6)
    site.run(2)
    (alarm,) = site.open()
    assert (alarm["kind"], alarm["level"], alarm["group"]) == ("quota_near", "warning", "b1.a")
    assert "port gw1.a of b1 has carried 0.00085 of 0.001 GB" in alarm["detail"]


def test_maintenance_silences_and_what_is_left_is_told_at_its_end(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    end = (site.clock() + timedelta(seconds=120)).isoformat()
    body = {"end": end, "branches": ["b1"], "reason": "new line"}
    window = site.api.do("POST", "/v1/maintenance", body)
    site.path("b1", "b2", 0, up=0.0)
    site.path("b3", "b1", 0, up=0.0)
    site.path("b3", "b2", 0, up=0.0)
    site.run(20)
    assert len(site.open()) == 3
    assert site.messages() == [("b2-b3", [("raised", "path_down")])]
    site.values.pop(("b3", "b1", 0))
    site.run(40)
    assert len(site.open()) == 2
    assert len(site.messages()) == 1, "what came and went in maintenance is not told"
    site.run(70)
    assert site.messages()[1:] == [("b1-b2", [("raised", "path_down")])]
    (found,) = site.api.get("/v1/maintenance")
    assert found["number"] == window["number"]
    assert site.api.call("DELETE", "/v1/maintenance/1").status_code == 409


def test_windows_end_early_and_are_checked(site: Site) -> None:
    now = site.clock()
    for end, reason in ((now, 422), (now + timedelta(days=40), 422)):
        body = {"end": end.isoformat(), "reason": "x"}
        assert site.api.call("POST", "/v1/maintenance", body).status_code == reason
    later = {"begin": (now + timedelta(hours=1)).isoformat()}
    body = {"end": (now + timedelta(hours=2)).isoformat(), "reason": "x"}
    site.api.do("POST", "/v1/maintenance", body | later)
    site.api.do("DELETE", "/v1/maintenance/1")
    assert site.api.get("/v1/maintenance") == []
    assert site.api.call("DELETE", "/v1/maintenance/1").status_code == 404


def test_alarms_outlast_a_restart_and_another_controller_clears_them(site: Site) -> None:
    site.path("b1", "b2", 0, up=0.0)
    site.run(15)
    (before,) = site.open()
    again = site.another()
    site.run(20, again)
    assert site.open() == [before]
    site.path("b1", "b2", 0)
    site.run(35, again)
    assert site.open() == []
    assert len(site.api.get("/v1/alarms?state=all")) == 1


def test_a_path_that_was_slow_before_a_restart_is_still_slow(site: Site) -> None:
    site.run(70)
    site.path("b1", "b2", 0, rtt=200.0)
    again = site.another()
    site.run(35, again)
    (alarm,) = site.open()
    assert "b1.a>b2.a has an RTT of 200 ms (lowest of a day 20 ms)" in alarm["detail"]
    for restarted in range(3):
        site.run(100, site.another(), every=10)
        assert site.open() == [alarm], restarted
    site.path("b1", "b2", 0)
    site.run(65, site.another())
    assert site.open() == []


def test_the_lowest_round_trip_time_is_forgotten_after_a_day(site: Site) -> None:
    site.run(70)
    site.path("b1", "b2", 0, rtt=200.0)
    again = site.another()
    site.run(40, again)
    assert site.kinds() == ["path_degraded"]
    site.clock.turn(hours=25)
    site.api.log_in()
    site.run(70, again)
    assert site.open() == []  # this is how it is now
    site.path("b1", "b2", 0)
    site.run(70, again)
    site.clock.turn(hours=25)
    site.api.log_in()
    last = site.another()
    site.path("b1", "b2", 0, rtt=200.0)
    site.run(70, last)
    assert site.open() == []


def test_a_roll_out_in_stages_clears_no_alarm_of_a_slow_path(site: Site) -> None:
    site.run(10)
    site.path("b1", "b2", 0, rtt=200.0)
    site.run(40)
    (before,) = site.open()
    change = {"patch": {"overlay": {"queue": "2 MB"}}, "reason": "more"}
    site.api.do("PATCH", "/v1/network", change | {"rollout": {"canary": ["b2"]}})
    site.run(150)
    assert site.api.get("/v1/rollouts")[0]["state"] == "running"
    assert site.open() == [before]


def test_two_controllers_raise_an_alarm_once(site: Site) -> None:
    site.api.do("PUT", "/v1/receivers/hook", WEBHOOK)
    two = site.another()
    site.path("b1", "b2", 0, up=0.0)
    for _ in range(20):
        site.run(1)
        two.look()
    site.path("b1", "b2", 0)
    for _ in range(40):
        site.run(1)
        two.look()
    assert len(site.api.get("/v1/alarms?state=all")) == 1
    assert [events for _, events in site.messages()] == [
        [("raised", "path_down")],
        [("cleared", "path_down")],
    ]


def test_a_controller_without_the_reports_leaves_the_alarm(site: Site) -> None:
    site.path("b1", "b2", 0, up=0.0)
    site.run(15)
    site.context.latest.drop(1)
    other = site.another()
    for _ in range(60):
        site.clock.turn(seconds=1)
        with site.context.database.note() as session:
            session.execute(update(Observation).values(seen=site.clock()))
        other.look()
    assert site.kinds() == ["path_down"]


def test_who_is_limited_to_branches_sees_their_alarms(site: Site) -> None:
    role = {"permissions": ["read", "change"], "branches": ["b3"]}
    site.api.do("PUT", "/v1/roles/site", role)
    limited = site.api.as_new("site")
    site.path("b1", "b2", 0, up=0.0)
    site.path("b2", "b3", 0, up=0.0)
    site.run(15)
    (own,) = limited.get("/v1/alarms")
    assert own["branches"] == ["b2", "b3"]
    other = next(each["number"] for each in site.open() if each["branches"] == ["b1", "b2"])
    assert limited.call("POST", f"/v1/alarms/{other}/acknowledge", {}).status_code == 404
    assert limited.call("POST", f"/v1/alarms/{own['number']}/acknowledge", {}).is_success
    end = (site.clock() + timedelta(hours=1)).isoformat()
    body = {"end": end, "reason": "x"}
    assert limited.call("POST", "/v1/maintenance", body).status_code == 403
    assert limited.call("POST", "/v1/maintenance", body | {"branches": ["b3"]}).is_success
    assert limited.call("GET", "/v1/receivers").status_code == 403


def test_lists_have_pages(site: Site) -> None:
    for member, source in enumerate(("b1", "b2", "b3")):
        peer = "b1" if source != "b1" else "b2"
        site.path(source, peer, member, up=0.0)
    site.run(15)
    numbers = [each["number"] for each in site.open()]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 3
    first = site.api.get("/v1/alarms?limit=2")
    rest = site.api.get(f"/v1/alarms?limit=2&before={first[-1]['number']}")
    assert [each["number"] for each in (*first, *rest)] == numbers


def test_reports_of_what_nobody_knows_do_no_harm(site: Site) -> None:
    values = {
        "path/b9/0/0/up": 0.0,
        "path/b2/x/0/up": 0.0,
        "path/b2/0/99/up": 0.0,
        "path/b2/7/0/up": float("nan"),
        "path/b2/0": 1.0,
        "other/b2/0/0/up": 0.0,
    }
    for _ in range(15):
        site.report()
        time = int(site.clock().timestamp())
        found = Statistics("b1", "run", 0, tuple(values), time, time, tuple(values.values()), 0)
        site.context.latest.put(1, found)
        site.watchman.look()
        site.clock.turn(seconds=1)
    (alarm,) = site.open()
    assert "path 99 of group 0" in alarm["detail"]
