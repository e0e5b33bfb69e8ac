"""The API: who may do what, versions, tokens, gateways."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest
import sqlalchemy.exc
from controller_sample import PASSWORD, Api, Clock, Machine
from cryptography import x509
from fastapi.routing import iter_route_contexts

from hawser.controller.access.limit import RateLimit
from hawser.controller.access.principal import Principal
from hawser.controller.access.role import Permission
from hawser.controller.api.depends import need
from hawser.controller.api.guard import OPEN
from hawser.controller.context import Context
from hawser.controller.db.database import Database
from hawser.controller.db.tables import AuditEntry, Version
from hawser.controller.errors import Forbidden
from hawser.controller.policy.configuration import Computer
from hawser.pki.authority import fingerprint
from lab import ROOT


def routes(api: Api) -> list[tuple[str, str]]:
    """Every route of the application: method, and a path with something in its variables."""
    found = []
    for route in iter_route_contexts(api.app.router.routes):
        path = (route.path or "").replace("{number}", "1").replace("{name}", "0123456789ab")
        found += [(method, path) for method in route.methods or {"GET"} if method != "HEAD"]
    return found


def test_every_route_is_known_to_the_tests(api: Api) -> None:
    assert len(routes(api)) >= 35
    assert set(routes(api)) >= OPEN
    assert set(OPEN_ANSWERS) == OPEN
    assert all(path.startswith("/v1/") for _, path in routes(api))


def test_the_guide_lists_every_route(api: Api) -> None:
    guide = (ROOT / "docs" / "guide" / "controller.md").read_text()
    listed = set()
    for line in re.findall(r"^(?:GET|POST|PUT|PATCH|DELETE)[A-Z ]* /v1/.*$", guide, re.MULTILINE):
        for methods, paths in re.findall(r"((?:[A-Z]+ )+)(/v1/[^\s,]+(?:, /v1/[^\s,]+)*)", line):
            for path in paths.split(", "):
                plain = re.sub(r"/(?:N|ID|NAME)(?=/|$)", "/1", path.partition("?")[0])
                listed |= {(method, plain) for method in methods.split()}
    known = {(method, path.replace("/0123456789ab", "/1")) for method, path in routes(api)}
    assert listed == known


OPEN_ANSWERS = {
    ("GET", "/v1/health"): (200,),
    ("POST", "/v1/login"): (422,),
    ("GET", "/v1/login/oidc"): (404,),  # no provider is set
    ("GET", "/v1/login/oidc/callback"): (401,),  # nobody began a login
    ("GET", "/v1/join"): (200,),
    ("POST", "/v1/join"): (422,),
}


def test_nothing_but_login_join_and_health_answers_without_authentication(context: Context) -> None:
    object.__setattr__(context, "unknown", RateLimit(1e3, 1e4))  # all requests are of one address
    stranger = Api(context)
    for method, path in routes(stranger):
        for headers in ({}, {"Authorization": "Bearer hws_x"}, {"Authorization": "Basic YTpi"}):
            answer = stranger.call(method, path, {}, headers=headers)
            if (method, path) in OPEN:
                assert answer.status_code in OPEN_ANSWERS[method, path]
            else:
                assert answer.status_code == 401, (method, path)
                assert set(answer.json()) == {"error", "errors"}
    for path in ("/", "/docs", "/openapi.json", "/v1/nothing", "/v1/health/", "//v1/health"):
        assert stranger.call("GET", path).status_code == 401


def test_an_auditor_sees_everything_and_changes_nothing(api: Api) -> None:
    auditor = api.as_new("auditor")
    before = api.get("/v1/audit?limit=1000")
    own = {"/v1/me/password", "/v1/logout", "/v1/keys", "/v1/keys/0123456789ab", "/v1/network/try"}
    own |= {"/v1/paths/whatif"}
    own |= {path for _, path in routes(api) if path.startswith(("/v1/me/factor", "/v1/me/sess"))}
    bodies = {
        "/v1/network": {"network": api.get("/v1/network")["network"], "reason": "x", "patch": {}},
        "/v1/users": {"name": "x", "role": "admin"},
        "/v1/tokens": {"branch": "b1"},
    }
    for method, path in routes(api):
        if (method, path) in OPEN or path in own:
            continue
        answer = auditor.call(method, path, bodies.get(path, {"reason": "x", "role": "admin"}))
        if method == "GET":
            assert answer.status_code in (200, 403, 404, 422), (method, path)
        else:
            assert answer.status_code in (403, 422), (method, path, answer.text)
    for path in ("/v1/network", "/v1/gateways", "/v1/audit", "/v1/versions", "/v1/tokens"):
        assert auditor.call("GET", path).status_code == 200
    assert api.get("/v1/audit?limit=1000") == before


LIMITED = {"permissions": ["read", "change", "admit"], "branches": ["b1"]}


def test_a_role_by_branch_reaches_no_further(api: Api) -> None:
    for branch in ("b1", "b2"):
        assert Machine().join(api, token(api, branch)).is_success
    foreign = token(api, "b3").split(".")[0]
    api.do("PUT", "/v1/roles/site", LIMITED)
    limited = api.as_new("site")
    assert limited.get("/v1/me")["branches"] == ["b1"]
    assert [each["branch"] for each in limited.get("/v1/gateways")] == ["b1"]
    assert {each["branch"] for each in limited.get("/v1/tokens")} == {"b1"}
    for method, path in routes(api):
        if "/gateways/1" in path:
            answer = limited.call(method, path.replace("/1", "/2"), {"reason": "x"})
            assert answer.status_code == 404, (method, path, answer.text)
    assert limited.call("DELETE", f"/v1/tokens/{foreign}").status_code == 404
    assert limited.call("POST", "/v1/tokens", {"branch": "b2"}).status_code == 403
    for path in ("/v1/users", "/v1/audit", "/v1/roles"):
        assert limited.call("GET", path).status_code == 403
    # Its own it manages.
    own = {"gw1.a": {"rate": "10 Mbit/s"}}
    assert patch(limited, {"ports": own}).json()["author"] == "some-site"
    assert patch(limited, {"overlay": {"branches": {"b1": {"wan": ["a"]}}}}).status_code == 200
    for beyond in (
        {"ports": {"gw2.a": {"rate": "10 Mbit/s"}}},
        {"ports": own | {"gw2.a": {"rate": "10 Mbit/s"}}},
        {"overlay": {"branches": {"b1": {"prefix": "10.9.0.0/24"}}}},
        {"overlay": {"branches": {"b1": None}}, "ports": {"gw1.a": None, "gw1.b": None}},
        {"prefixes": {"b1": ["192.168.0.0/16"]}},
        {"mtu": 1400},
    ):
        assert patch(limited, beyond).status_code == 403, beyond
    assert patch(api, {"mtu": 1400}).status_code == 200
    answer = limited.call("POST", "/v1/versions/1/restore", {"reason": "x"})
    assert answer.status_code == 403, "others have changed since"
    assert limited.call("POST", "/v1/gateways/1/revoke", {"reason": "x"}).status_code == 204


def test_who_is_limited_to_branches_holds_up_nobody(api: Api) -> None:
    """A roll-out keeps everybody else from changing the network, for a day if it is to."""
    api.do("PUT", "/v1/roles/site", LIMITED)
    limited = api.as_new("site")
    body = {
        "patch": {"ports": {"gw1.a": {"rate": "10 Mbit/s"}}},
        "reason": "x",
        "rollout": {"canary": ["b1"], "observe_s": 86400},
    }
    assert limited.call("PATCH", "/v1/network", body).status_code == 403
    restore = {"reason": "x", "rollout": body["rollout"]}
    assert limited.call("POST", "/v1/versions/1/restore", restore).status_code == 403
    assert api.get("/v1/network")["number"] == 1
    assert patch(api, {"mtu": 1400}).status_code == 200


def test_a_retry_is_in_the_audit_log(api: Api) -> None:
    assert Machine().join(api, token(api, "b1")).is_success
    api.do("POST", "/v1/gateways/1/retry")
    newest = api.get("/v1/audit?limit=1000")[-1]
    assert (newest["actor"], newest["action"], newest["target"]) == ("admin", "gateway.retry", "1")


def test_a_database_whose_connections_are_all_taken_does_not_answer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(_: Database) -> None:
        raise sqlalchemy.exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached")

    monkeypatch.setattr(Database, "read", taken)
    for path in ("/v1/health", "/v1/me"):
        assert api.call("GET", path).status_code == 503


def test_a_route_is_closed_to_limited_roles_unless_it_knows_them(api: Api) -> None:
    limited = need(Permission.READ)
    who = Principal("x", frozenset(Permission), "local", branches=frozenset({"b1"}))
    with pytest.raises(Forbidden, match="for some branches only"):
        limited(who)


def test_own_roles_are_made_changed_and_removed(api: Api) -> None:
    api.do("PUT", "/v1/roles/guest", {"permissions": ["read"]})
    guest = api.as_new("guest")
    assert guest.call("GET", "/v1/network").status_code == 200
    assert guest.call("POST", "/v1/tokens", {"branch": "b1"}).status_code == 403
    api.do("PUT", "/v1/roles/guest", {"permissions": ["admit"], "branches": ["b2"]})
    assert guest.call("GET", "/v1/network").status_code == 403, "it applies at once"
    assert guest.call("POST", "/v1/tokens", {"branch": "b2"}).status_code == 201
    assert api.call("DELETE", "/v1/roles/guest").status_code == 409
    api.do("PUT", "/v1/users/some-guest/role", {"role": "auditor"})
    api.do("DELETE", "/v1/roles/guest")
    assert api.get("/v1/roles") == []
    assert api.call("POST", "/v1/users", {"name": "x", "role": "guest"}).status_code == 422
    assert api.call("PUT", "/v1/roles/admin", {"permissions": []}).status_code == 409
    beyond = {"permissions": ["audit"], "branches": ["b1"]}
    assert api.call("PUT", "/v1/roles/x", beyond).status_code == 422


def test_a_key_can_be_limited_to_branches(api: Api) -> None:
    body = {"purpose": "x", "permissions": ["read", "admit"], "branches": ["b1"]}
    program = Api(api.app.state.context)
    program.headers = {"Authorization": f"Bearer {api.do('POST', '/v1/keys', body)['key']}"}
    assert program.get("/v1/me")["branches"] == ["b1"]
    assert program.call("POST", "/v1/tokens", {"branch": "b2"}).status_code == 403
    api.do("PUT", "/v1/roles/site", LIMITED)
    site = api.as_new("site")
    assert site.call("POST", "/v1/keys", body | {"branches": ["b2"]}).status_code == 403
    assert api.call("POST", "/v1/keys", body | {"permissions": ["audit"]}).status_code == 422


def test_an_operator_manages_no_users(api: Api) -> None:
    operator = api.as_new("operator")
    assert operator.call("GET", "/v1/users").status_code == 403
    assert operator.call("GET", "/v1/audit").status_code == 403
    assert operator.call("POST", "/v1/tokens", {"branch": "b1"}).status_code == 201


def test_wrong_passwords_are_refused_and_then_not_looked_at(context: Context, clock: Clock) -> None:
    api = Api(context)
    wrong = {"user": "admin", "password": "wrong"}
    for _ in range(5):
        assert api.call("POST", "/v1/login", wrong).status_code == 401
    answer = api.call("POST", "/v1/login", {"user": "admin", "password": PASSWORD})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    clock.turn(seconds=2)
    api.log_in()
    assert api.call("POST", "/v1/login", {"user": "nobody", "password": "x"}).status_code == 401


def test_a_session_ends(api: Api, clock: Clock) -> None:
    clock.turn(hours=11)
    assert api.get("/v1/me")["name"] == "admin"
    clock.turn(hours=2)
    assert api.call("GET", "/v1/me").status_code == 401
    api.log_in()
    assert api.call("POST", "/v1/logout").status_code == 204
    assert api.call("GET", "/v1/me").status_code == 401


def test_a_one_time_password_opens_nothing_else(api: Api) -> None:
    made = api.do("POST", "/v1/users", {"name": "new", "role": "admin"})
    other = Api(api.app.state.context).log_in("new", made["password"])
    assert other.call("GET", "/v1/network").status_code == 403
    assert other.call("PUT", "/v1/me/password", {"password": "short"}).status_code == 422
    other.do("PUT", "/v1/me/password", {"password": PASSWORD})
    assert other.call("GET", "/v1/network").status_code == 401, "its sessions have ended"
    assert other.log_in("new").call("GET", "/v1/network").status_code == 200


def test_the_last_admin_stays(api: Api) -> None:
    assert api.call("DELETE", "/v1/users/admin").status_code == 409
    assert api.call("PUT", "/v1/users/admin/role", {"role": "auditor"}).status_code == 409
    assert api.get("/v1/me")["name"] == "admin"


def test_keys_have_a_scope_and_an_end(api: Api, clock: Clock) -> None:
    body = {"purpose": "export", "permissions": ["read"], "days": 2}
    made = api.do("POST", "/v1/keys", body)
    program = Api(api.app.state.context)
    program.headers = {"Authorization": f"Bearer {made['key']}"}
    assert program.call("GET", "/v1/network").status_code == 200
    assert program.call("POST", "/v1/tokens", {"branch": "b1"}).status_code == 403
    assert program.call("POST", "/v1/keys", body).status_code == 403
    assert program.call("PUT", "/v1/me/password", {"password": PASSWORD}).status_code == 403
    program.headers["Authorization"] += "x"
    assert program.call("GET", "/v1/network").status_code == 401
    program.headers = {"Authorization": f"Bearer {made['key']}"}
    clock.turn(days=3)
    assert program.call("GET", "/v1/network").status_code == 401
    assert made["key"] not in str(api.log_in().get("/v1/keys"))


def test_a_key_permits_no_more_than_its_owner_may(api: Api) -> None:
    operator = api.as_new("operator")
    beyond = {"purpose": "x", "permissions": ["manage"]}
    assert operator.call("POST", "/v1/keys", beyond).status_code == 403
    made = operator.do("POST", "/v1/keys", {"purpose": "x", "permissions": ["change"]})
    api.do("PUT", "/v1/users/some-operator/role", {"role": "auditor"})
    program = Api(api.app.state.context)
    program.headers = {"Authorization": f"Bearer {made['key']}"}
    answer = program.call("PATCH", "/v1/network", {"patch": {"mtu": 1400}, "reason": "x"})
    assert answer.status_code == 403


def patch(api: Api, change: Any, **more: Any) -> Any:  # noqa: ANN401 (JSON)
    return api.call("PATCH", "/v1/network", {"patch": change, "reason": "because"} | more)


def test_a_change_is_a_version_with_a_way_back(api: Api) -> None:
    first = api.get("/v1/network")
    assert patch(api, {"mtu": 1400}).json()["number"] == 2
    classes = {"voice": {"dscp": 46, "type": "I"}}
    made = patch(api, {"overlay": {"classes": classes}, "mtu": None}).json()
    assert made["number"] == 3
    assert made["author"] == "admin"
    assert made["reason"] == "because"
    assert [each["path"] for each in made["changes"]] == ["/overlay/classes/voice", "/mtu"]
    between = api.get("/v1/versions/3/difference?older=1")["changes"]
    assert [each["path"] for each in between] == ["/overlay/classes/voice"]
    back = api.do("POST", "/v1/versions/1/restore", {"reason": "it was better"})
    assert (back["number"], back["restores"]) == (4, 1)
    assert back["network"] == first["network"]
    listed = api.get("/v1/versions?before=4&limit=2")
    assert [each["number"] for each in listed] == [3, 2]


def test_a_change_of_another_version_is_a_conflict(api: Api) -> None:
    assert patch(api, {"mtu": 1400}, base=1).status_code == 200
    assert patch(api, {"mtu": 1300}, base=1).status_code == 409
    again = patch(api, {"mtu": 1400})
    assert again.json()["number"] == 2, "nothing differs"


def test_a_wrong_network_is_refused_with_every_place(api: Api) -> None:
    change = {"ports": {"gw1.a": {"address": "192.0.2.22"}}, "overlay": {"transport": "ipip"}}
    answer = patch(api, change)
    assert answer.status_code == 422
    fields = {each["field"] for each in answer.json()["errors"]}
    assert {"overlay.transport", "ports.gw1.b.address"} <= fields
    assert patch(api, {"overlay": {"branches": {"b1": {"id": "one"}}}}).status_code == 422
    assert api.get("/v1/network")["number"] == 1


SMALL = {
    "branch": {
        "id": "${id}",
        "gateway": "${gateway}",
        "wan": ["wa"],
        "lan": "lan0",
        "prefix": "${lan}",
    },
    "ports": {"wa": {"address": "${address}", "next_hop": "${router}"}},
}
SITE = {
    "template": "small",
    "variables": {
        "id": 7,
        "gateway": "gw7",
        "lan": "10.7.0.0/24",
        "address": "192.0.2.202",
        "router": "192.0.2.201",
    },
}


def test_a_site_is_a_branch_like_any_other(api: Api) -> None:
    made = patch(api, {"templates": {"small": SMALL}, "sites": {"b7": SITE}})
    assert made.status_code == 200, made.text
    network = api.get("/v1/network")["network"]
    assert "b7" not in network["overlay"]["branches"]
    assert "gw7.wa" not in network["ports"]
    assert Machine().join(api, token(api, "b7")).json()["branch"] == "b7"
    first = api.get("/v1/gateways")[0]["id"]
    configuration = api.get(f"/v1/gateways/{first}/configuration")
    assert configuration["source"] == "10.7.0.1"
    # A change of the template reaches its sites.
    other = {"templates": {"small": {"ports": {"wa": {"interface": "eth9"}}}}}
    assert patch(api, other).status_code == 200
    answer = patch(api, {"sites": {"b7": {"variables": {"id": None}}}})
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["field"] == "sites.b7.branch.id"
    assert "which is no variable" in problem["message"]
    whole = {"network": network | {"sites": {"b7": SITE | {"template": "x"}}}, "reason": "x"}
    assert api.call("PUT", "/v1/network", whole).status_code == 422
    assert api.call("PUT", "/v1/network", whole | {"network": network}).status_code == 200


def test_what_a_change_would_do(api: Api) -> None:
    change = {"overlay": {"path_groups": {"far": {"paths": ["b1.a>b2.b"]}}}}
    found = api.do("POST", "/v1/network/try", {"patch": change})
    assert found["branches"] == ["b1", "b2"]
    assert found["changes"][0]["path"] == "/overlay/path_groups/far"
    assert api.get("/v1/network")["number"] == 1


def token(api: Api, branch: str = "b1", **more: Any) -> str:  # noqa: ANN401 (JSON)
    made = api.do("POST", "/v1/tokens", {"branch": branch} | more)
    text: str = made["token"]
    return text


def test_which_traffic_a_change_would_move(api: Api) -> None:
    groups = {"far": {"paths": ["b1.a>b3.a>b3.b>b2.b", "b1.b>b2.a"]}}
    rule = {"protocol": "udp", "type": "II"}
    api.do(
        "PATCH", "/v1/network", {"patch": {"overlay": {"classes": {"calls": rule}}}, "reason": "x"}
    )
    patch = {"overlay": {"path_groups": groups, "classes": {"calls": {"type": "I"}}}}
    found = api.do("POST", "/v1/network/try", {"patch": patch})
    assert [(each["branches"], each["traffic"]) for each in found["paths"]] == [
        (["b1", "b2"], "I"),
        (["b1", "b2"], "II"),
    ]
    assert found["paths"][0]["before"] == ["b1.a>b2.a", "b1.a>b2.b", "b1.b>b2.a", "b1.b>b2.b"]
    assert found["paths"][0]["after"] == groups["far"]["paths"]
    (moved,) = found["classes"]
    assert moved == {"name": "calls", "before": "II", "after": "I", "matches": False}
    urgent = {"fast": {"class": "I", "paths": ["b1.a>b2.a"]}, "slow": {"paths": ["b1.b>b2.b"]}}
    found = api.do("POST", "/v1/network/try", {"patch": {"overlay": {"path_groups": urgent}}})
    assert [each["after"] for each in found["paths"]] == [["b1.a>b2.a"], ["b1.b>b2.b"]]
    assert found["classes"] == []


def test_a_token_lets_one_gateway_in(api: Api, clock: Clock) -> None:
    text, machine = token(api), Machine()
    answer = machine.join(Api(api.app.state.context), text).json()
    assert answer["state"] == "approved"
    certificate = x509.load_pem_x509_certificate(answer["certificate"].encode())
    authority = x509.load_pem_x509_certificate(api.get("/v1/join")["certificate"].encode())
    certificate.verify_directly_issued_by(authority)
    assert certificate.public_key() == machine.key.public_key()
    assert certificate.subject.rfc4514_string() == "CN=b1"
    # An answer may be lost: the same key gets the same certificate again, another key nothing.
    assert machine.join(api, text).json() == answer
    assert Machine().join(api, text).status_code == 403
    # The branch has a gateway now.
    assert Machine().join(api, token(api)).status_code == 409


def test_expired_withdrawn_and_foreign_tokens_are_refused(api: Api, clock: Clock) -> None:
    text = token(api, hours=1)
    clock.turn(hours=2)
    late = Machine().join(api, text)
    assert (late.status_code, "expired" in late.text) == (403, True)
    text = token(api)
    api.do("DELETE", f"/v1/tokens/{text.split('.')[0]}")
    assert Machine().join(api, text).status_code == 403
    text = token(api)
    assert Machine().join(api, text.replace(text.split(".")[1], "x" * 43)).status_code == 403
    assert Machine().join(api, f"{'0' * 12}.{'x' * 43}.x").status_code == 403
    assert api.get("/v1/gateways") == []
    assert api.call("POST", "/v1/tokens", {"branch": "b9"}).status_code == 422


def test_approval_by_hand(api: Api) -> None:
    text, machine = token(api, approval="manual"), Machine()
    for _ in range(2):
        answer = machine.join(api, text).json()
        assert (answer["state"], answer["certificate"]) == ("pending", None)
    (waiting,) = api.get("/v1/gateways")
    assert waiting["state"] == "pending"
    api.do("POST", f"/v1/gateways/{waiting['id']}/approve")
    assert machine.join(api, text).json()["state"] == "approved"
    assert api.call("POST", f"/v1/gateways/{waiting['id']}/approve").status_code == 409


def test_a_revoked_gateway_is_refused_by_its_peers(api: Api) -> None:
    text, machine = token(api), Machine()
    certificate = machine.join(api, text).json()["certificate"].encode()
    Machine().join(api, token(api, "b2"))
    one, two = api.get("/v1/gateways")
    api.do("POST", f"/v1/gateways/{one['id']}/revoke", {"reason": "stolen"})
    assert machine.join(api, text).status_code == 403
    config = api.get(f"/v1/gateways/{two['id']}/configuration")
    found = fingerprint(x509.load_pem_x509_certificate(certificate))
    assert config["transport"]["tls"]["revoked"] == [found]
    again = {"reason": "again"}
    assert api.call("POST", f"/v1/gateways/{one['id']}/revoke", again).status_code == 409
    assert Machine().join(api, token(api)).json()["state"] == "approved", "its successor"
    assert api.get("/v1/gateways")[0]["reason"] == "stolen"


def test_the_audit_log_is_a_chain(api: Api, context: Context) -> None:
    patch(api, {"mtu": 1400})
    token(api)
    check = api.get("/v1/audit/check")
    assert check["broken"] is None
    log = api.get("/v1/audit?limit=1000")
    assert [each["number"] for each in log] == list(range(1, check["entries"] + 1))
    actions = [each["action"] for each in log]
    assert actions == ["network.change", "user.add", "login", "network.change", "token.add"]
    assert log[-1]["hash"] == check["hash"]
    for entry in log:  # as the documentation says
        body = {name: value for name, value in entry.items() if name != "hash"}
        text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert entry["hash"] == sha256(text.encode()).hexdigest()
    for change in ({"actor": "somebody"}, {"after": {"branch": "b2"}}, {"number": 9}):
        with context.database.write() as session:
            entry = session.get_one(AuditEntry, 3)
            before = {name: getattr(entry, name) for name in change}
            for name, value in change.items():
                setattr(entry, name, value)
        assert api.get("/v1/audit/check")["broken"] in (3, 4)
        with context.database.write() as session:
            entry = session.get_one(AuditEntry, change.get("number", 3))
            for name, value in before.items():
                setattr(entry, name, value)
    assert api.get("/v1/audit/check")["broken"] is None


def test_the_audit_log_has_before_and_after(api: Api, context: Context) -> None:
    patch(api, {"mtu": 1400})
    entry = api.get("/v1/audit?limit=1000")[-1]
    assert (entry["actor"], entry["action"]) == ("admin", "network.change")
    assert (entry["before"]["version"], entry["after"]["version"]) == (1, 2)
    assert entry["after"]["changes"] == [{"path": "/mtu", "before": 1500, "after": 1400}]
    # A version is as tamper-evident as the log.
    assert api.get("/v1/audit/check")["altered_version"] is None
    with context.database.write() as session:
        found = session.get_one(Version, 2)
        found.document = found.document | {"mtu": 9000}
    check = api.get("/v1/audit/check")
    assert (check["broken"], check["altered_version"]) == (None, 2)


def test_bodies_are_small(api: Api, context: Context) -> None:
    stranger = Api(context)
    big = {"user": "x" * 20_000, "password": "x"}
    assert stranger.call("POST", "/v1/login", big).status_code == 413
    assert patch(api, {"mtu": 1400}, more="x" * 9_000_000).status_code == 413

    async def chunks() -> AsyncIterator[bytes]:  # a body that does not say its length
        for _ in range(20):
            yield b" " * 1000

    answer = stranger.call("POST", "/v1/login", content=chunks())
    assert answer.status_code == 413


def test_the_openapi_document_is_for_those_who_are_logged_in(api: Api) -> None:
    found = api.get("/v1/openapi.json")
    assert found["openapi"].startswith("3.")
    described = {(m.upper(), path) for path, each in found["paths"].items() for m in each}
    assert {(r, p) for r, p in OPEN} <= described
    every = {
        (method, route.path)
        for route in iter_route_contexts(api.app.router.routes)
        for method in route.methods or ()
    }
    assert every == described


@pytest.mark.parametrize("depth", [100, 300, 500, 900, 2000])
def test_what_is_nested_deeply_is_refused(api: Api, depth: int) -> None:
    deep = '{"x":' * depth + "1" + "}" * depth
    site = f'{{"template": "t", "variables": {{"a": {deep}}}}}'
    text = f'{{"patch": {{"sites": {{"b": {site}}}, "templates": {{"t": {{}}}}}}}}'
    headers = {"Content-Type": "application/json"}
    answer = api.call("POST", "/v1/network/try", headers=headers, content=text)
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "null", "1e999", '{"user": "\\ud800"}'])
def test_what_is_no_body_is_refused(api: Api, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    for path in ("/v1/login", "/v1/join", "/v1/tokens", "/v1/network/try"):
        answer = api.call("POST", path, headers=headers, content=text)
        assert answer.status_code in (400, 422), (path, answer.text)


def test_a_change_is_tried_while_gateways_and_others_are_served(
    api: Api, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large network takes seconds."""
    begun, end = threading.Event(), threading.Event()
    whole = Computer.desired

    def slow(self: Computer, *arguments: Any) -> Any:  # noqa: ANN401 (the method's)
        begun.set()
        assert end.wait(60)
        return whole(self, *arguments)

    context.watch.plan()
    monkeypatch.setattr(Computer, "desired", slow)
    answers: list[int] = []
    body = {"patch": {"mtu": 1400}}

    def ask() -> None:
        answers.append(api.call("POST", "/v1/network/try", body).status_code)

    trying = threading.Thread(target=ask)
    trying.start()
    try:
        assert begun.wait(60)
        planned = threading.Thread(target=context.watch.plan)
        planned.start()
        planned.join(30)
        assert not planned.is_alive(), "the plan does not wait for it"
    finally:
        end.set()
        trying.join()
    assert answers == [200]
