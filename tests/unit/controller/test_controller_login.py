"""Logging in: second factors, sessions of browsers, forged requests."""

from __future__ import annotations

from base64 import b32decode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from controller_sample import PASSWORD, Api, Clock
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from hawser.controller.access import browser, login, password
from hawser.controller.context import Context
from hawser.controller.errors import TooMany, Unauthorized

OTHER = "another good password"


class Authenticator:
    """An authenticator that was given a URI."""

    def __init__(self, uri: str, clock: Clock) -> None:
        found = parse_qs(urlsplit(uri).query)
        secret = TOTP(_decoded(found["secret"][0]), int(found["digits"][0]), SHA1(), 30)  # noqa: S303 (RFC 6238)
        self._totp, self._clock = secret, clock

    def code(self, later_s: int = 0) -> str:
        return self._totp.generate(int(self._clock().timestamp()) + later_s).decode()


def _decoded(secret: str) -> bytes:
    return b32decode(secret + "=" * (-len(secret) % 8))


def log_in(api: Api, **more: Any) -> Any:  # noqa: ANN401 (JSON)
    body = {"user": "admin", "password": PASSWORD} | more
    return api.call("POST", "/v1/login", body)


@pytest.fixture
def authenticator(api: Api, clock: Clock) -> Authenticator:
    """The admin's, who has a second factor."""
    made = Authenticator(api.do("POST", "/v1/me/factor")["uri"], clock)
    assert api.call("PUT", "/v1/me/factor", {"code": "000000x"}).status_code == 422
    api.do("PUT", "/v1/me/factor", {"code": made.code()})
    assert api.call("GET", "/v1/me").status_code == 401, "its sessions have ended"
    clock.turn(minutes=16)  # the wrong code is forgotten
    return made


def test_a_second_factor_is_asked_for(api: Api, clock: Clock, authenticator: Authenticator) -> None:
    answer = log_in(api)
    assert (answer.status_code, answer.json()["error"]) == (
        401,
        "the code of the second factor is needed",
    )
    assert log_in(api, password="x", code=authenticator.code()).status_code == 401  # noqa: S106
    code = authenticator.code()
    assert log_in(api, code=code).status_code == 200
    assert log_in(api, code=code).status_code == 401, "a code is taken once"
    assert log_in(api, code=authenticator.code(-30)).status_code == 401, "nor an older one"
    assert log_in(api, code=authenticator.code(300)).status_code == 401
    assert log_in(api, code=authenticator.code(30)).status_code == 200, "a clock is ahead"


def test_codes_are_not_guessed(api: Api, authenticator: Authenticator) -> None:
    wrong = str((int(authenticator.code()) + 1) % 1_000_000).zfill(6)
    for _ in range(5):
        assert log_in(api, code=wrong).status_code == 401
    assert log_in(api, code=authenticator.code()).status_code == 429


def test_codes_are_not_guessed_within_a_session(
    api: Api, clock: Clock, authenticator: Authenticator
) -> None:
    token = log_in(api, code=authenticator.code()).json()["token"]
    api.headers = {"Authorization": f"Bearer {token}"}
    clock.turn(seconds=30)
    wrong = str((int(authenticator.code()) + 1) % 1_000_000).zfill(6)
    for _ in range(5):
        assert api.call("POST", "/v1/me/factor/remove", {"code": wrong}).status_code == 422
    right = {"code": authenticator.code()}
    assert api.call("POST", "/v1/me/factor/remove", right).status_code == 429
    assert log_in(api, code=authenticator.code()).status_code == 429, "nor beside it"
    clock.turn(minutes=10)
    api.do("POST", "/v1/me/factor/remove", {"code": authenticator.code()})


def test_a_second_factor_is_removed_with_a_code_or_by_an_admin(
    api: Api, clock: Clock, authenticator: Authenticator
) -> None:
    api.headers = {
        "Authorization": f"Bearer {log_in(api, code=authenticator.code()).json()['token']}"
    }
    clock.turn(seconds=30)
    assert api.call("POST", "/v1/me/factor").status_code == 409
    assert api.call("POST", "/v1/me/factor/remove", {"code": "1"}).status_code == 422
    api.do("POST", "/v1/me/factor/remove", {"code": authenticator.code()})
    assert log_in(api).status_code == 200
    other = api.as_new("operator")
    lost = Authenticator(other.do("POST", "/v1/me/factor")["uri"], clock)
    other.do("PUT", "/v1/me/factor", {"code": lost.code()})
    assert log_in(api, user="some-operator").status_code == 401
    api.do("DELETE", "/v1/users/some-operator/factor")
    assert log_in(api, user="some-operator").status_code == 200


def test_secrets_are_sealed(context: Context, api: Api, authenticator: Authenticator) -> None:
    with context.database.read() as session:
        rows = session.execute(text("SELECT totp FROM user_account")).scalars().all()
        sealed = session.execute(text("SELECT sealed FROM secret")).scalars().all()
    secret = authenticator._totp._hotp._key
    assert all(secret not in row for row in rows)
    assert all(b"PRIVATE KEY" not in row for row in sealed)
    assert repr(context.vault) == "Vault()"


def in_browser(api: Api) -> tuple[Api, str]:
    """A browser that has logged in, and its CSRF token."""
    answer = log_in(api, cookie=True)
    cookie = answer.headers["set-cookie"]
    for part in ("__Host-", "HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert "Domain" not in cookie
    assert answer.json()["token"] is None
    page = Api(api.app.state.context)
    page.headers = {"Cookie": cookie.partition(";")[0]}
    return page, answer.json()["csrf"]


def test_answers_with_a_token_are_not_kept(api: Api) -> None:
    assert log_in(api).headers["Cache-Control"] == "no-store"
    assert log_in(api, cookie=True).headers["Cache-Control"] == "no-store"


def test_a_right_password_among_many_guesses_at_once_is_not_taken(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They pass the first check together, and are verified one after the other."""
    verify = password.verify

    def after_others(stored: str | None, text: str) -> bool:
        monkeypatch.setattr(password, "verify", verify)
        for _ in range(5):
            assert log_in(api, password="wrong").status_code == 401  # noqa: S106
        return verify(stored, text)

    monkeypatch.setattr(password, "verify", after_others)
    assert log_in(api).status_code == 429


def test_guesses_from_one_network_count_together(context: Context) -> None:
    """Whoever has an IPv6 network has 2^64 addresses of it."""

    def guess(address: str, given: str) -> None:
        login.log_in(
            context.database,
            context.vault,
            login.Credentials("admin", given, None, address),
            context.clock(),
        )

    for number in range(5):
        with pytest.raises(Unauthorized):
            guess(f"2001:db8:0:1::{number:x}", "wrong")
    with pytest.raises(TooMany):
        guess("2001:db8:0:1::ffff", PASSWORD)
    guess("2001:db8:0:2::1", PASSWORD)
    guess("192.0.2.1", PASSWORD)


def test_a_browser_needs_the_csrf_token_for_changes(api: Api) -> None:
    page, csrf = in_browser(api)
    assert page.get("/v1/me")["csrf"] == csrf
    change = {"branch": "b1"}
    assert page.call("POST", "/v1/tokens", change).status_code == 403
    forged = {"X-CSRF-Token": "0" * 64}
    assert page.call("POST", "/v1/tokens", change, headers=forged).status_code == 403
    good = {"X-CSRF-Token": csrf, "Origin": "https://test"}
    assert page.call("POST", "/v1/tokens", change, headers=good).status_code == 201
    for origin in ("https://evil", "http://test", "null", "https://test.evil", "https://[", ""):
        foreign = good | {"Origin": origin}
        assert page.call("POST", "/v1/tokens", change, headers=foreign).status_code == 403
    answer = page.call("POST", "/v1/logout", headers=good)
    assert answer.status_code == 204
    assert 'session=""' in answer.headers["set-cookie"]
    assert page.call("GET", "/v1/me").status_code == 401
    assert api.get("/v1/me")["csrf"] is None, "a session whose token is sent needs none"


def test_another_site_logs_nobody_in(api: Api) -> None:
    body = {"user": "admin", "password": PASSWORD, "cookie": True}
    answer = api.call("POST", "/v1/login", body, headers={"Origin": "https://evil"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_present_password_is_needed_for_another(api: Api) -> None:
    for current in ({}, {"current": "wrong"}):
        answer = api.call("PUT", "/v1/me/password", {"password": OTHER} | current)
        assert answer.status_code == 422
    api.do("PUT", "/v1/me/password", {"password": OTHER, "current": PASSWORD})
    assert log_in(api).status_code == 401
    assert log_in(api, password=OTHER).status_code == 200


def test_all_sessions_end_at_once(api: Api) -> None:
    page, _ = in_browser(api)
    api.do("DELETE", "/v1/me/sessions")
    assert api.call("GET", "/v1/me").status_code == 401
    assert page.call("GET", "/v1/me").status_code == 401


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_header_breaks_the_guard(cookie: str, origin: str) -> None:
    found = browser.session_of(cookie)
    assert found is None or isinstance(found, str)
    assert browser.is_foreign("POST", origin, "test") == (origin != "https://test")
