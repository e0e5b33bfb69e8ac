"""DNS names of applications: resolved, kept while they do not resolve, and given to gateways."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from ipaddress import IPv4Address
from typing import Any

import pytest
from controller_sample import Api, Clock
from dns.resolver import NoResolverConfiguration
from hypothesis import given
from hypothesis import strategies as st

from hawser.controller.context import Context
from hawser.controller.jobs import names as job
from hawser.controller.jobs.names import NameResolution, Resolver
from hawser.controller.policy import names
from hawser.controller.policy.names import AT_ONCE, MOST, Answer
from hawser.spec.named import MAX_ADDRESSES
from lab.dns_server import DnsServer

NAME = "pbx.acme.example"
POLICY = {
    "applications": {"voice": {"names": [NAME], "protocol": "udp"}},
    "policy": {"I": {"applications": ["voice"]}},
}


@pytest.fixture
def server() -> Iterator[DnsServer]:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    with DnsServer(made, {NAME: ["10.2.0.9"]}) as running:
        yield running


@pytest.fixture
def work(context: Context, server: DnsServer) -> NameResolution:
    resolver = Resolver(["127.0.0.1"], server.port)
    return NameResolution(context.database, context.clock, resolver)


@pytest.fixture
def voice(api: Api) -> Api:
    api.do("PATCH", "/v1/network", {"patch": POLICY, "reason": "test"})
    return api


def matched(context: Context) -> list[str]:
    """Destinations that b1's classifier matches."""
    document = json.loads(context.watch.plan().desired["b1"].document)
    rules = (document.get("classifier") or {"rules": []})["rules"]
    return [each["destination"] for each in rules if each["destination"]]


def test_gateways_get_the_addresses(
    voice: Api, context: Context, work: NameResolution, server: DnsServer
) -> None:
    assert matched(context) == []
    (found,) = voice.get("/v1/names")
    assert (found["addresses"], found["resolved"], found["next"]) == ([], None, None)
    assert work.look()
    assert matched(context) == ["10.2.0.9/32"]
    assert not work.look(), "nothing is due"
    assert server.asked == [NAME]
    (found,) = voice.get("/v1/names")
    assert found["applications"] == ["voice"]
    assert [(each["address"], each["used"]) for each in found["addresses"]] == [("10.2.0.9", True)]
    assert found["error"] is None


def test_an_answer_is_used_for_its_time_to_live(
    voice: Api, context: Context, work: NameResolution, server: DnsServer, clock: Clock
) -> None:
    server.ttl = 300
    assert work.look()
    clock.turn(seconds=250)
    assert not work.look()
    assert len(server.asked) == 1
    clock.turn(seconds=60)
    server.zone[NAME] = ["10.2.0.10"]
    assert work.look()
    assert matched(context) == ["10.2.0.9/32", "10.2.0.10/32"], "the old one is held"
    clock.turn(minutes=61)
    assert work.look()
    assert matched(context) == ["10.2.0.10/32"]


@pytest.mark.parametrize(
    ("zone", "reason"),
    [
        ({}, "there is no such name"),
        ({NAME: []}, "it has no IPv4 address"),
        ({NAME: ["127.0.0.1", "224.0.0.1"]}, "only addresses that no host has"),
    ],
)
def test_a_name_that_does_not_resolve_keeps_its_addresses(
    voice: Api,
    context: Context,
    work: NameResolution,
    server: DnsServer,
    clock: Clock,
    zone: Mapping[str, Sequence[str]],
    reason: str,
) -> None:
    assert work.look()
    server.zone = dict(zone)
    clock.turn(hours=10)
    assert not work.look()
    (found,) = voice.get("/v1/names")
    assert reason in found["error"]
    assert matched(context) == ["10.2.0.9/32"]
    server.zone = {NAME: ["10.2.0.9"]}
    clock.turn(minutes=2)
    assert not work.look(), "it is as before"
    assert voice.get("/v1/names")[0]["error"] is None


def test_a_server_that_says_nothing(
    voice: Api,
    context: Context,
    work: NameResolution,
    server: DnsServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job, "_PATIENCE_S", 0.3)
    server.silent = True
    assert not work.look()
    assert "no DNS server answered within 0.3 s" in voice.get("/v1/names")[0]["error"]


def test_a_machine_without_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dns.resolver.Resolver.read_resolv_conf", _no_servers)
    assert Resolver().resolve(NAME).error == "found no DNS server in /etc/resolv.conf"


def _no_servers(*_: object) -> None:
    raise NoResolverConfiguration


def test_a_rollback_finds_the_addresses_again(
    voice: Api, context: Context, work: NameResolution, clock: Clock, server: DnsServer
) -> None:
    assert work.look()
    voice.do("POST", "/v1/versions/1/restore", {"reason": "without"})
    clock.turn(hours=10)
    assert not work.look(), "nobody wants it"
    assert len(server.asked) == 1
    voice.do("POST", "/v1/versions/2/restore", {"reason": "with"})
    assert matched(context) == ["10.2.0.9/32"], "before it is resolved again"


def test_two_controllers_ask_once(
    voice: Api, context: Context, work: NameResolution, server: DnsServer
) -> None:
    other = NameResolution(context.database, context.clock, Resolver(["127.0.0.1"], server.port))
    with context.database.write() as session:
        assert names.claim(session, {NAME}, context.clock()) == (NAME,)
    assert not other.look()
    assert server.asked == []


def test_a_name_is_tried_in_a_dry_run(voice: Api, context: Context, work: NameResolution) -> None:
    assert work.look()
    body = {"patch": {"policy": {"I": {"max_rate": "10 Mbit/s"}}}}
    assert set(voice.do("POST", "/v1/network/try", body)["branches"]) == {"b1", "b2", "b3"}
    assert voice.do("POST", "/v1/network/try", {"patch": {}})["branches"] == []


def test_many_names_are_resolved_in_parts(api: Api, context: Context, work: NameResolution) -> None:
    many = [f"n{n}.acme.example" for n in range(AT_ONCE + 5)]
    patch: Any = {
        "applications": {"voice": {"names": many}},
        "policy": {"I": {"applications": ["voice"]}},
    }
    api.do("PATCH", "/v1/network", {"patch": patch, "reason": "test"})
    work.look()
    asked = [each for each in api.get("/v1/names") if each["error"]]
    assert len(asked) == AT_ONCE
    work.look()
    assert all(each["error"] for each in api.get("/v1/names"))


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.lists(st.ip_addresses(v=4), min_size=1, max_size=40)),
        max_size=8,
    )
)
def test_addresses_are_bounded_and_the_newest_are_kept(
    answers: list[tuple[int, list[IPv4Address]]],
) -> None:
    clock, known = Clock(), dict[str, str]()
    for minutes, found in answers:
        clock.turn(minutes=minutes)
        known = names._addresses(known, found, clock())
        assert len(known) <= MAX_ADDRESSES
        assert len(set(found) & set(map(IPv4Address, known))) == min(len(set(found)), MAX_ADDRESSES)


def test_times_between_queries_are_bounded() -> None:
    for ttl in (timedelta(0), timedelta(days=9)):
        assert names.LEAST <= names.until_next(Answer(ttl=ttl)) <= MOST
