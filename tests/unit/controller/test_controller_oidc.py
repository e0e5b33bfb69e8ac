"""Logging in at an OpenID provider: against a real one, and against all that can be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from controller_sample import Api, Clock
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from hawser.controller.access import oidc
from hawser.controller.access.limit import RateLimit
from hawser.controller.access.oidc_provider import Settings
from hawser.controller.context import Context
from hawser.controller.db.tables import OidcLogin, Secret
from hawser.controller.errors import Forbidden, Unauthorized
from lab.oidc import SECRET, OidcProvider

CALLBACK = "https://test/v1/login/oidc/callback"
ROLES = {"ops": "operator", "staff": "auditor"}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    made = OidcProvider(tmp_path_factory.mktemp("provider"), CALLBACK)
    yield made
    made.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime.now(UTC))


@pytest.fixture
def stranger(api: Api, context: Context, provider: OidcProvider) -> Api:
    """The API as somebody has it who may log in at the provider."""
    body = {
        "issuer": provider.issuer,
        "client_id": "hawser",
        "client_secret": SECRET,
        "url": "https://test",
        "roles": ROLES,
    }
    api.do("PUT", "/v1/oidc", body)
    return Api(context)


def begin(api: Api, query: str = "") -> tuple[str, str]:
    """Begin a login: where the browser is sent, and its cookie."""
    answer = api.call("GET", f"/v1/login/oidc{query}")
    assert answer.status_code == 303, answer.text
    assert "HttpOnly" in answer.headers["set-cookie"]
    return answer.headers["location"], answer.headers["set-cookie"].partition(";")[0]


def end(api: Api, back: str, cookie: str) -> httpx.Response:
    return api.call("GET", back.removeprefix("https://test"), headers={"Cookie": cookie})


def log_in(api: Api, provider: OidcProvider, name: str) -> Api:
    url, cookie = begin(api, "?cookie=false")
    answer = end(api, provider.log_in(url, name), cookie)
    assert answer.status_code == 200, answer.text
    made = Api(api.app.state.context)
    made.headers = {"Authorization": f"Bearer {answer.json()['token']}"}
    return made


def test_a_user_of_the_provider_logs_in_with_the_role_of_its_group(
    api: Api, stranger: Api, provider: OidcProvider
) -> None:
    ann = log_in(stranger, provider, "ann+ops")
    assert ann.get("/v1/me")["name"] == "ann"
    assert ann.call("POST", "/v1/tokens", {"branch": "b1"}).status_code == 201
    assert ann.call("GET", "/v1/users").status_code == 403
    assert log_in(stranger, provider, "ann+ops").get("/v1/me")["name"] == "ann", "the same user"
    actors = [each["actor"] for each in api.get("/v1/audit?limit=1000")]
    assert "ann" in actors
    # Somebody else of the same name is another user, and has no password to guess.
    other = log_in(stranger, provider, "ann+staff")
    assert other.get("/v1/me")["name"].startswith("oidc-")
    assert other.call("POST", "/v1/tokens", {"branch": "b1"}).status_code == 403
    for password in ("", "x"):
        body = {"user": "ann", "password": password}
        assert stranger.call("POST", "/v1/login", body).status_code == 401
    assert ann.call("PUT", "/v1/me/password", {"password": "x" * 12}).status_code == 409
    assert api.call("POST", "/v1/users/ann/password").status_code == 409


def test_a_browser_gets_its_session_in_a_cookie(stranger: Api, provider: OidcProvider) -> None:
    url, cookie = begin(stranger)
    answer = end(stranger, provider.log_in(url, "bob+ops"), cookie)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookies = answer.headers.get_list("set-cookie")
    session = next(each for each in cookies if each.startswith("__Host-hawser-session="))
    page = Api(stranger.app.state.context)
    page.headers = {"Cookie": session.partition(";")[0]}
    assert page.get("/v1/me")["name"] == "bob"


def test_who_has_no_role_is_refused(api: Api, stranger: Api, provider: OidcProvider) -> None:
    url, cookie = begin(stranger)
    answer = end(stranger, provider.log_in(url, "eve"), cookie)
    assert answer.status_code == 403
    assert "no role" in answer.json()["error"]
    assert [each["name"] for each in api.get("/v1/users")] == ["admin"]


def test_a_login_is_ended_once_by_the_browser_that_began_it(
    stranger: Api, provider: OidcProvider
) -> None:
    url, cookie = begin(stranger, "?cookie=false")
    back = provider.log_in(url, "ann+ops")
    _, other = begin(stranger)
    for wrong in (other, "", "__Host-hawser-login=x"):
        assert end(stranger, back, wrong).status_code == 401, "it was not this browser"
    assert end(stranger, back.replace("code=", "x="), cookie).status_code == 401
    assert end(stranger, back, cookie).status_code == 200
    assert end(stranger, back, cookie).status_code == 401, "a code is used once"


def test_a_login_waits_ten_minutes(stranger: Api, context: Context, provider: OidcProvider) -> None:
    url, cookie = begin(stranger)
    back = provider.log_in(url, "ann+ops")
    with context.database.write() as session:
        for row in session.query(OidcLogin):
            row.expires = context.clock()
    assert end(stranger, back, cookie).status_code == 401


def test_logins_that_are_never_ended_keep_nobody_out(
    stranger: Api, context: Context, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_MOST_PENDING", 5)
    lost, _ = begin(stranger)
    for _ in range(7):
        context.clock.turn(seconds=1)  # type: ignore[attr-defined]
        begin(stranger)
    with context.database.read() as session:
        assert session.query(OidcLogin).count() == 5
    assert log_in(stranger, provider, "ann+ops").get("/v1/me")["name"] == "ann"
    assert lost


def test_one_address_begins_only_so_many_logins(stranger: Api, context: Context) -> None:
    object.__setattr__(context, "logins", RateLimit(0.01, 2))
    begin(stranger)
    begin(stranger)
    answer = stranger.call("GET", "/v1/login/oidc")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 1


def test_pkce_and_nonce_are_sent(stranger: Api) -> None:
    url, _ = begin(stranger)
    query = parse_qs(urlsplit(url).query)
    assert query["code_challenge_method"] == ["S256"]
    assert len(query["code_challenge"][0]) == 43
    assert query["nonce"] != query["state"]


def test_the_client_secret_is_sealed_and_not_shown(
    api: Api, stranger: Api, context: Context
) -> None:
    assert stranger.call("GET", "/v1/oidc").status_code == 401
    assert SECRET not in str(api.get("/v1/oidc"))
    assert SECRET not in str(api.get("/v1/audit?limit=1000"))
    with context.database.read() as session:
        assert SECRET.encode() not in session.get_one(Secret, "oidc").sealed
    api.do("DELETE", "/v1/oidc")
    assert stranger.call("GET", "/v1/login/oidc").status_code == 404


def test_a_provider_that_is_away_is_no_error_of_ours(api: Api, stranger: Api) -> None:
    settings = api.get("/v1/oidc") | {"client_secret": "x"}
    api.do("PUT", "/v1/oidc", settings | {"issuer": "http://127.0.0.1:1"})
    assert stranger.call("GET", "/v1/login/oidc").status_code == 502


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "http://example.org"},
        {"url": "x"},
        {"roles": {"ops": "nobody"}},
        {"default_role": "nobody"},
        {"issuer": "file:///etc/passwd"},
        {"authority": "none"},
        {"authority": "\u00e9"},
    ],
)
def test_wrong_settings_are_refused(api: Api, stranger: Api, change: dict[str, Any]) -> None:
    settings = api.get("/v1/oidc") | {"client_secret": "x"}
    assert api.call("PUT", "/v1/oidc", settings | change).status_code == 422


NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ECKey.generate_key("P-256", {"kid": "1", "alg": "ES256", "use": "sig"})
SETTINGS = Settings.model_validate(
    {
        "issuer": "https://id.example",
        "client_id": "hawser",
        "client_secret": "x" * 32,
        "url": "https://test",
        "roles": ROLES,
    }
)
CLAIMS = {
    "iss": "https://id.example",
    "aud": "hawser",
    "sub": "7",
    "nonce": "n",
    "iat": int(NOW.timestamp()),
    "exp": int(NOW.timestamp()) + 300,
}


def check(token: str) -> dict[str, Any]:
    keys = KeySet([KEY]).as_dict(private=False)
    return oidc.checked(token, keys, SETTINGS, "n", NOW)


def signed(claims: dict[str, Any], key: ECKey = KEY) -> str:
    return jwt.encode({"alg": "ES256", "kid": "1"}, claims, key)


def test_a_good_id_token() -> None:
    assert check(signed(CLAIMS))["sub"] == "7"
    assert check(signed(CLAIMS | {"aud": ["other", "hawser"], "azp": "hawser"}))["sub"] == "7"


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://evil.example"},
        {"aud": "other"},
        {"aud": []},
        {"azp": "other"},
        {"nonce": "other"},
        {"exp": int(NOW.timestamp()) - 61},
        {"sub": 7},
        {"sub": ""},
        *({name: None} for name in CLAIMS),
    ],
)
def test_an_id_token_with_a_wrong_claim_is_refused(change: dict[str, Any]) -> None:
    claims = {name: each for name, each in (CLAIMS | change).items() if each is not None}
    with pytest.raises(Unauthorized):
        check(signed(claims))


def test_an_id_token_signed_by_somebody_else_is_refused() -> None:
    other = ECKey.generate_key("P-256", {"kid": "1"})
    none = "eyJhbGciOiJub25lIn0." + signed(CLAIMS).split(".")[1] + "."
    shared = jwt.encode({"alg": "HS256"}, CLAIMS, OctKey.import_key(SETTINGS.client_secret))
    for token in (signed(CLAIMS, other), none, shared, "", "x.y.z", signed(CLAIMS) + "x"):
        with pytest.raises(Unauthorized):
            check(token)


@pytest.mark.parametrize("groups", [None, "ops-not", [], ["x", 7], {"ops": 1}])
def test_a_claim_without_a_known_value_gives_no_role(groups: Any) -> None:  # noqa: ANN401 (JSON)
    with pytest.raises(Forbidden):
        oidc.role_of(SETTINGS, {"groups": groups})
    allowed = SETTINGS.model_copy(update={"default_role": "auditor"})
    assert oidc.role_of(allowed, {"groups": groups}) == "auditor"


def test_the_first_role_decides() -> None:
    assert oidc.role_of(SETTINGS, {"groups": ["staff", "ops"]}) == "operator"
    assert oidc.role_of(SETTINGS, {"groups": "staff"}) == "auditor"
