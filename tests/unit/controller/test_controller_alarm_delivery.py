"""Messages about alarms, sent to a real HTTP server and a real SMTP server, each once."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from controller_sample import Api, Clock, controller
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from hawser.controller.alarms import alarm, delivery
from hawser.controller.alarms.address import is_allowed
from hawser.controller.alarms.condition import Condition, Kind, Level
from hawser.controller.alarms.dampening import Decision
from hawser.controller.alarms.message import Message, mail, subject
from hawser.controller.alarms.paths import Limits
from hawser.controller.alarms.receiver import Mail
from hawser.controller.context import Context
from hawser.controller.db.database import Database
from hawser.controller.db.tables import Alarm, Delivery, Receiver
from hawser.controller.jobs.alarms import Sender, Sources, Watchman, alarming
from lab.controller.postgres import Postgres
from lab.controller.receivers import Certificates, Mailbox, WebServer

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("receivers"))


@pytest.fixture
def web(certificates: Certificates) -> Iterator[WebServer]:
    made = WebServer(certificates)
    yield made
    made.stop()


@pytest.fixture
def mailbox(certificates: Certificates) -> Iterator[Mailbox]:
    made = Mailbox(certificates)
    yield made
    made.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime.now(UTC))


def hook(web: WebServer, certificates: Certificates, **more: object) -> dict[str, object]:
    url = f"{web.url}/hook?team=net"
    authority = certificates.authority
    return {"type": "webhook", "url": url, "secret": SECRET, "authority": authority} | more


def post(mailbox: Mailbox, certificates: Certificates, **more: object) -> dict[str, object]:
    return {
        "type": "mail",
        "host": "localhost",
        "port": mailbox.port,
        "user": "hawser",
        "password": "mail secret",
        "sender": "hawser@acme.example",
        "recipients": ["noc@acme.example", "boss@acme.example"],
        "authority": certificates.authority,
    } | more


def condition(subject: str = "b1>b2", level: Level = Level.CRITICAL) -> Condition:
    detail = f"from {subject} 4 of 4 paths are down"
    return Condition(Kind.PATH_DOWN, subject, level, ("b1", "b2"), "b1-b2", detail)


def decide(context: Context, *raised: Condition, cleared: bool = False) -> None:
    with context.database.write() as session:
        found = alarm.open_alarms(session) if cleared else ()
        gone = tuple(alarm.opened(row) for row in found)
        alarm.apply(session, context.clock(), Decision(raised, gone))


def sender(context: Context, clock: Callable[[], datetime] | None = None) -> Sender:
    return Sender(context.database, context.vault, clock or context.clock, LOOPBACK)


def state(context: Context, name: str) -> dict[str, Any]:
    found = Api(context).log_in().get("/v1/receivers")
    return next(each for each in found if each["name"] == name)


def test_a_webhook_and_a_mail_are_delivered_once_and_cleared(
    context: Context,
    clock: Clock,
    web: WebServer,
    mailbox: Mailbox,
    certificates: Certificates,
) -> None:
    api = Api(context).log_in()
    api.do("PUT", "/v1/receivers/hook", hook(web, certificates))
    api.do("PUT", "/v1/receivers/noc", post(mailbox, certificates))
    decide(context, condition(), condition("b2>b1"))
    work = sender(context)
    assert work.due() == [], "others of the group may follow"
    clock.turn(seconds=5)
    assert work.due() == ["hook", "noc"]
    assert [work.send("hook"), work.send("noc")] == [1, 1]
    assert work.due() == []
    decide(context, cleared=True)
    clock.turn(seconds=5)
    for name in ("hook", "noc", "hook", "noc"):
        work.send(name)
    (headers, content), (_, second) = web.got
    assert headers["path"] == "/hook?team=net"
    assert headers["host"] == web.url.removeprefix("https://")
    found = json.loads(content)
    assert (found["network"], found["group"], found["omitted"]) == ("acme", "b1-b2", 0)
    assert [each["event"] for each in found["alarms"]] == ["raised", "raised"]
    assert [each["event"] for each in json.loads(second)["alarms"]] == ["cleared", "cleared"]
    (recipients, one), (_, other) = mailbox.got
    assert recipients == ["noc@acme.example", "boss@acme.example"]
    assert one["Subject"] == "[acme] critical: 2 alarms of b1-b2"
    assert other["Subject"] == "[acme] cleared: 2 alarms of b1-b2"
    assert "from b2>b1 4 of 4 paths are down" in str(one.get_payload())
    assert one["Message-ID"] != other["Message-ID"]
    assert state(context, "hook")["delivered"] is not None


def test_the_signature_is_that_of_standard_webhooks(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    decide(context, condition())
    clock.turn(seconds=5)
    sender(context).send("hook")
    ((headers, content),) = web.got
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + content
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - clock().timestamp()) < 2


def test_what_fails_is_sent_again_ever_later_with_the_same_id(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    decide(context, condition())
    work, waited = sender(context), []
    web.status = 503
    for _ in range(4):
        begin = clock()
        while not work.due():
            clock.turn(seconds=5)
        waited.append((clock() - begin).total_seconds())
        assert work.send("hook") == 0
    assert waited == [5, 30, 60, 120]
    assert state(context, "hook")["error"] == "it answered 503"
    web.status = 204
    clock.turn(hours=1)
    assert work.send("hook") == 1
    assert len({headers["webhook-id"] for headers, _ in web.got}) == 1
    assert state(context, "hook")["error"] is None


def test_a_message_of_a_group_waits_for_the_one_before(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    work = sender(context)
    web.status = 500
    decide(context, condition())
    clock.turn(seconds=5)
    work.send("hook")
    decide(context, cleared=True)
    web.status = 200
    clock.turn(seconds=10)
    assert work.send("hook") == 0, "cleared is not told before raised"
    clock.turn(seconds=60)
    assert work.send("hook") == 2
    events = [json.loads(content)["alarms"][0]["event"] for _, content in web.got]
    assert events == ["raised", "raised", "cleared"]


def test_after_a_day_a_message_is_given_up(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    decide(context, condition())
    work = sender(context)
    web.status = 500
    for _ in range(200):
        clock.turn(minutes=20)
        work.send("hook")
    assert len(web.got) < 40
    found = state(context, "hook")
    assert (found["waiting"], found["abandoned"]) == (0, 1)


def test_the_queue_is_bounded(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    with context.database.write() as session:
        row = session.get_one(Receiver, "hook")
        for number in range(510):
            delivery.enqueue(session, clock(), row, f"group {number}", {"event": "raised"})
        for _ in range(60):
            delivery.enqueue(session, clock(), row, "group 509", {"event": "raised"})
        newest = session.scalars(select(Delivery).order_by(Delivery.number.desc())).first()
        assert newest is not None
        assert (len(newest.events), newest.omitted) == (50, 11)
    found = state(context, "hook")
    assert (found["waiting"], found["abandoned"]) == (500, 10)
    assert found["error"] == "too many messages wait"


def test_a_redirect_is_not_followed(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    web.status = 307
    decide(context, condition())
    clock.turn(seconds=5)
    assert sender(context).send("hook") == 0
    assert [headers["path"] for headers, _ in web.got] == ["/hook?team=net"]
    assert state(context, "hook")["error"] == "it answered 307"


def test_an_address_that_nobody_allowed_is_not_asked(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    decide(context, condition())
    clock.turn(seconds=5)
    work = Sender(context.database, context.vault, clock, ())
    assert work.send("hook") == 0
    assert web.got == []
    error = "localhost is not at a public address; alarms.networks in controller.json allows others"
    assert state(context, "hook")["error"] == error


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 (it is refused)
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_allowed(ip_address(address), ())


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "64:ff9b::1.1.1.1"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_allowed(ip_address(address), ())


@given(st.ip_addresses(v=4), st.booleans())
def test_an_embedded_address_is_as_good_as_itself(address: IPv4Address, mapped: bool) -> None:
    prefix = "::ffff:" if mapped else "64:ff9b::"
    assert is_allowed(ip_address(f"{prefix}{address}"), ()) == is_allowed(address, ())


def test_a_certificate_of_a_stranger_is_refused(
    context: Context, clock: Clock, web: WebServer, mailbox: Mailbox, certificates: Certificates
) -> None:
    api = Api(context).log_in()
    api.do("PUT", "/v1/receivers/hook", hook(web, certificates, authority=None))
    api.do("PUT", "/v1/receivers/noc", post(mailbox, certificates, authority=None))
    decide(context, condition())
    clock.turn(seconds=5)
    work = sender(context)
    assert [work.send("hook"), work.send("noc")] == [0, 0]
    assert (web.got, mailbox.got) == ([], [])
    for name in ("hook", "noc"):
        assert state(context, name)["error"] == "TLS: unable to get local issuer certificate"


def test_mail_is_not_sent_in_the_clear(
    context: Context, clock: Clock, certificates: Certificates
) -> None:
    plain = Mailbox(certificates, starttls=False)
    try:
        body = post(plain, certificates)
        Api(context).log_in().do("PUT", "/v1/receivers/noc", body)
        decide(context, condition())
        clock.turn(seconds=5)
        assert sender(context).send("noc") == 0
    finally:
        plain.stop()
    assert plain.got == []


def test_a_mail_server_that_is_busy_or_refuses_the_login(
    context: Context, clock: Clock, mailbox: Mailbox, certificates: Certificates
) -> None:
    api = Api(context).log_in()
    wrong = post(mailbox, certificates) | {"password": "wrong"}
    api.do("PUT", "/v1/receivers/noc", wrong)
    decide(context, condition())
    clock.turn(seconds=5)
    work = sender(context)
    assert work.send("noc") == 0
    assert state(context, "noc")["error"] == "the SMTP server answered 535"
    api.do("PUT", "/v1/receivers/noc", post(mailbox, certificates))
    mailbox.refusals = 1
    clock.turn(seconds=30)
    assert work.send("noc") == 0
    clock.turn(seconds=60)
    assert work.send("noc") == 1
    assert len(mailbox.got) == 1


def test_one_that_takes_and_says_nothing_is_left_in_time(
    context: Context, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hawser.controller.alarms.send._DEADLINE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        body = {"type": "webhook", "url": f"http://127.0.0.1:{port}/", "secret": SECRET}
        Api(context).log_in().do("PUT", "/v1/receivers/hook", body)
        decide(context, condition())
        clock.turn(seconds=5)
        assert sender(context).send("hook") == 0
    assert state(context, "hook")["error"] == "it has not answered in time"


def test_secrets_are_sealed_and_never_shown(
    context: Context, tmp_path: Path, mailbox: Mailbox, certificates: Certificates
) -> None:
    api = Api(context).log_in()
    body = {"type": "webhook", "url": "https://alarms.example/"}
    made = api.do("PUT", "/v1/receivers/hook", body)["secret"]
    assert made.startswith("whsec_")
    api.do("PUT", "/v1/receivers/noc", post(mailbox, certificates))
    shown = json.dumps([api.get("/v1/receivers"), api.get("/v1/audit?limit=100")])
    stored = b"".join(each.read_bytes() for each in (tmp_path / "acme").glob("controller.db*"))
    for secret in (made, "mail secret"):
        assert secret not in shown
        assert secret.encode() not in stored
        assert base64.b64decode(secret.partition("_")[2] or "bWFpbCBzZWNyZXQ=") not in stored


@pytest.mark.parametrize(
    "body",
    [
        {"type": "webhook", "url": "http://alarms.example/"},
        {"type": "webhook", "url": "file:///etc/passwd"},
        {"type": "webhook", "url": "https://alarms.example/", "secret": "whsec_c2hvcnQ="},
        {"type": "webhook", "url": "https://alarms.example/", "authority": "none"},
        {"type": "webhook", "url": "https://alarms.example/", "authority": "\u00e9"},
        {"type": "pager"},
        {"type": "mail", "host": "x", "sender": "a@b", "recipients": []},
        {"type": "mail", "host": "x", "sender": "a@b", "recipients": ["a@b\nBcc: c@d"]},
    ],
)
def test_what_is_no_receiver(context: Context, body: dict[str, object]) -> None:
    assert Api(context).log_in().call("PUT", "/v1/receivers/x", body).status_code == 422


def test_receivers_are_for_admins_few_and_removed_with_their_messages(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    api = Api(context).log_in()
    operator = api.as_new("operator")
    body = hook(web, certificates)
    assert operator.call("PUT", "/v1/receivers/hook", body).status_code == 403
    for number in range(16):
        api.do("PUT", f"/v1/receivers/r{number}", body)
    assert api.call("PUT", "/v1/receivers/r16", body).status_code == 409
    api.do("POST", "/v1/receivers/r1/test")
    work = sender(context)
    assert work.due() == ["r1"]
    assert work.send("r1") == 1
    assert json.loads(web.got[0][1])["alarms"][0]["event"] == "test"
    api.do("POST", "/v1/receivers/r2/test")
    api.do("DELETE", "/v1/receivers/r2")
    assert work.due() == []


def test_levels_below_the_least_are_not_sent(
    context: Context, clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    api = Api(context).log_in()
    api.do("PUT", "/v1/receivers/hook", hook(web, certificates, least="critical"))
    decide(context, condition(level=Level.WARNING))
    decide(context, cleared=True)
    clock.turn(seconds=5)
    assert sender(context).due() == []


def test_subjects_are_one_short_line() -> None:
    events = [{"event": "raised", "level": "warning", "detail": "x" * 300}]
    found = subject(Message("id", "acme", "b1", datetime.now(UTC), events))
    assert len(found) == 120
    target = Mail(type="mail", host="x", sender="a@b", recipients=("c@d",))
    event = events[0] | {"number": 1, "kind": "k", "raised": "r", "cleared": None}
    event["detail"] = "a\r\nBcc: c@d\n\nb"
    made = mail(Message("id", "acme", "b1", datetime.now(UTC), [event]), target, datetime.now(UTC))
    assert made["Subject"] == "[acme] warning: a Bcc: c@d b"
    assert "Bcc" not in made


def test_messages_outlast_a_restart_and_what_is_being_sent_is_noted(
    context: Context, web: WebServer, certificates: Certificates
) -> None:
    """The service is told to stop while the receiver thinks about its answer."""
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    clock = Clock(datetime.now(UTC) + timedelta(seconds=10))
    decide(context, condition())
    asked, answer = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        answer.wait(60)

    web.before = wait
    sources = Sources(
        context.database, context.watch, context.latest, context.statistics, context.clock, {}
    )

    async def serve() -> None:
        async with alarming(Watchman(sources, Limits()), sender(context, clock)):
            await asyncio.to_thread(asked.wait, 60)
            threading.Timer(0.5, answer.set).start()

    asyncio.run(serve())
    assert len(web.got) == 1
    clock.turn(hours=2)
    after = sender(context, clock)
    assert after.due() == []
    assert after.send("hook") == 0
    assert len(web.got) == 1


@pytest.fixture
def shared(
    tmp_path: Path, clock: Clock, postgres: Postgres, _quick_passwords: None
) -> Iterator[tuple[Context, str]]:
    url = postgres.new()
    made = controller(tmp_path / "one", clock, url)
    yield made, url
    made.close()


def test_two_controllers_deliver_each_message_once(
    shared: tuple[Context, str],
    clock: Clock,
    web: WebServer,
    mailbox: Mailbox,
    certificates: Certificates,
) -> None:
    context, url = shared
    api = Api(context).log_in()
    api.do("PUT", "/v1/receivers/hook", hook(web, certificates))
    api.do("PUT", "/v1/receivers/noc", post(mailbox, certificates))
    for number in range(12):
        found = condition(f"b{number}>x")
        decide(context, Condition(**vars(found) | {"group": f"g{number}"}))
    clock.turn(seconds=5)
    other = Database(url)
    senders = [sender(context), Sender(other, context.vault, clock, LOOPBACK)]

    def work(each: Sender) -> None:
        while due := each.due():
            for name in due:
                each.send(name)

    threads = [threading.Thread(target=work, args=(each,)) for each in senders for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    groups = sorted(json.loads(content)["group"] for _, content in web.got)
    assert groups == sorted(f"g{number}" for number in range(12))
    assert len({message["Message-ID"] for _, message in mailbox.got}) == len(mailbox.got) == 12


def test_a_controller_whose_clock_is_ahead_does_not_send_what_another_is_sending(
    shared: tuple[Context, str], clock: Clock, web: WebServer, certificates: Certificates
) -> None:
    context, url = shared
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    decide(context, condition())
    clock.turn(seconds=5)
    asked, answer = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        answer.wait(60)

    web.before = wait
    thread = threading.Thread(target=sender(context).send, args=("hook",))
    thread.start()
    other = Database(url)
    try:
        assert asked.wait(60)
        ahead = Clock(clock() + timedelta(hours=1))
        assert Sender(other, context.vault, ahead, LOOPBACK).send("hook") == 0
        assert len(web.got) == 1
    finally:
        answer.set()
        thread.join()
        other.close()
    assert len(web.got) == 1
    assert state(context, "hook")["delivered"] is not None


def test_a_database_that_goes_away_while_a_message_is_sent(
    shared: tuple[Context, str],
    clock: Clock,
    web: WebServer,
    certificates: Certificates,
    postgres: Postgres,
) -> None:
    """It was delivered but could not be noted: that is made up for, and nothing is sent again."""
    context, _ = shared
    Api(context).log_in().do("PUT", "/v1/receivers/hook", hook(web, certificates))
    decide(context, condition())
    clock.turn(seconds=5)
    work = sender(context)
    web.before = postgres.stop
    with pytest.raises(SQLAlchemyError):
        work.send("hook")
    web.before = lambda: None
    postgres.start()
    clock.turn(hours=1)
    assert work.due() == ["hook"]
    assert work.send("hook") == 0
    assert len(web.got) == 1
    assert state(context, "hook")["delivered"] is not None


def test_an_alarm_is_kept_once_by_two_controllers(shared: tuple[Context, str]) -> None:
    context, url = shared
    other = Database(url)

    def decide_at(database: Database) -> None:
        with database.write() as session:
            alarm.apply(session, context.clock(), Decision((condition(),)))

    threads = [
        threading.Thread(target=decide_at, args=(each,)) for each in (context.database, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with context.database.read() as session:
        assert len(session.scalars(select(Alarm)).all()) == 1
    other.close()
