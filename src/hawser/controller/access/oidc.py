"""Logging in at an OpenID provider: authorization code flow with PKCE (RFC 6749, 7636, 9700).

The browser is sent to the provider and comes back with a code. The controller exchanges that for an
ID token, checks it (OpenID Connect Core 3.1.3.7), and takes the user's role from a claim, anew at
each login. A user is known by issuer and subject, never by a name that the provider may reassign.
"""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.login import Login, begin_session
from hawser.controller.access.oidc_provider import Provider, Settings
from hawser.controller.access.own_role import grant_of
from hawser.controller.access.principal import Principal, system
from hawser.controller.access.secret import digest, new_secret
from hawser.controller.access.vault import Vault
from hawser.controller.db.database import Database
from hawser.controller.db.tables import OidcLogin, User
from hawser.controller.errors import Forbidden, NotFound, Unauthorized

CALLBACK: Final = "/v1/login/oidc/callback"
_SECRET: Final = "oidc"  # noqa: S105 (its name)
_PENDING: Final = timedelta(minutes=10)
_MOST_PENDING: Final = 1000
"""Logins that wait for the provider. Whoever begins one is not authenticated yet, so the oldest
make room: nobody is kept from logging in by those of others."""
_ALGORITHMS: Final = ["RS256", "PS256", "ES256", "ES384", "Ed25519", "EdDSA"]
"""Signatures with public keys only: with HS256 the client secret would be a key."""
_LEEWAY_S: Final = 60
_NAME: Final = re.compile(r"[a-z][a-z0-9._@-]{0,63}")


@dataclass(frozen=True)
class Started:
    """A login that has begun."""

    url: str
    """Where the browser goes."""
    state: str
    """What it has to bring back, and to have kept in a cookie."""


def settings(session: Session, vault: Vault) -> Settings:
    """Give how users log in at the provider.

    Raises:
        NotFound: they do not.
    """
    found = vault.read(session, _SECRET)
    if not found:
        raise NotFound("no OpenID provider is set")
    return Settings.model_validate_json(found)


def configure(
    session: Session, vault: Vault, who: Principal, now: datetime, wanted: Settings
) -> None:
    """Set the provider, whose client secret is sealed.

    Raises:
        Invalid: a role does not exist.
    """
    for role in (*wanted.roles.values(), *filter(None, (wanted.default_role,))):
        grant_of(session, role)
    vault.write(session, _SECRET, wanted.model_dump_json().encode())
    after = wanted.model_dump(mode="json", exclude={"client_secret"})
    audit.record(session, who, now, "oidc.set", wanted.issuer, after=after)


def remove(session: Session, vault: Vault, who: Principal, now: datetime) -> None:
    """Let nobody log in at the provider any more.

    Raises:
        NotFound: no provider is set.
    """
    before = settings(session, vault).issuer
    vault.write(session, _SECRET, b"")
    audit.record(session, who, now, "oidc.remove", before)


def start(database: Database, vault: Vault, now: datetime, *, cookie: bool) -> Started:
    """Begin a login.

    Raises:
        NotFound: no provider is set.
        ProviderError: it does not answer as it should.
    """
    with database.read() as session:
        found = settings(session, vault)
    endpoint = Provider(found).metadata().authorization_endpoint
    state, nonce, verifier = new_secret(), new_secret(), new_secret()
    with database.write() as session:
        session.execute(delete(OidcLogin).where(OidcLogin.expires < now))
        oldest = (
            select(OidcLogin.state).order_by(OidcLogin.expires.desc()).offset(_MOST_PENDING - 1)
        )
        session.execute(delete(OidcLogin).where(OidcLogin.state.in_(oldest)))
        row = OidcLogin(
            state=digest(state),
            nonce=nonce,
            verifier=verifier,
            cookie=cookie,
            expires=now + _PENDING,
        )
        session.add(row)
    query = {
        "response_type": "code",
        "client_id": found.client_id,
        "redirect_uri": found.url + CALLBACK,
        "scope": " ".join(("openid", *found.scopes)),
        "state": state,
        "nonce": nonce,
        "code_challenge": _challenge(verifier),
        "code_challenge_method": "S256",
    }
    separator = "&" if "?" in endpoint else "?"
    return Started(f"{endpoint}{separator}{urlencode(query)}", state)


def finish(
    database: Database, vault: Vault, state: str, code: str, address: str, now: datetime
) -> tuple[Login, bool]:
    """End a login with what the browser brought back; whether the session is for a browser.

    Raises:
        Unauthorized: nobody began this login here, or the provider's answer is not good.
        Forbidden: the user has no role here.
        ProviderError: the provider does not answer as it should.
    """
    with database.write() as session:  # a state is used once, whatever comes of it
        found, row = settings(session, vault), session.get(OidcLogin, digest(state))
        if row is not None:
            session.delete(row)
    if row is None or row.expires <= now:
        raise Unauthorized("this login has ended, or was never begun; log in again")
    provider = Provider(found)
    token = provider.exchange(code, row.verifier, found.url + CALLBACK)
    claims = checked(token, provider.keys(), found, row.nonce, now)
    with database.write() as session:
        user = _user(session, found, claims, now)
        return begin_session(session, user, address, now), row.cookie


def checked(
    token: str, keys: Mapping[str, Any], settings: Settings, nonce: str, now: datetime
) -> dict[str, Any]:
    """Check an ID token and give its claims.

    Raises:
        Unauthorized: it is not good.
    """
    try:
        found = jwt.decode(token, KeySet.import_key_set(dict(keys)), algorithms=_ALGORITHMS)  # type: ignore[arg-type]
        jwt.JWTClaimsRegistry(
            now=int(now.timestamp()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "value": settings.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(found.claims)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise Unauthorized(f"the provider's ID token is not good: {error}") from error
    claims = found.claims
    if claims.get("azp", settings.client_id) != settings.client_id:
        raise Unauthorized("the provider's ID token is for another client")
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= 255:
        raise Unauthorized("the provider's ID token names nobody")
    return claims


def role_of(settings: Settings, claims: Mapping[str, Any]) -> str:
    """Give the role of a user: that of the first entry of `roles` whose value the claim has.

    Raises:
        Forbidden: it has none.
    """
    found = claims.get(settings.claim)
    values = found if isinstance(found, list) else [found]
    for value, role in settings.roles.items():
        if value in values:
            return role
    if settings.default_role is None:
        raise Forbidden(f"the provider gives you no role: none for {settings.claim} = {found}")
    return settings.default_role


def _user(session: Session, settings: Settings, claims: dict[str, Any], now: datetime) -> User:
    """Give the user of a subject, with its role of now; who comes first is added."""
    subject = f"{settings.issuer}#{claims['sub']}"
    user = session.scalar(select(User).where(User.subject == subject))
    role, who = role_of(settings, claims), system("OpenID provider")
    grant_of(session, role)
    if user is None:
        name = _free_name(session, claims)
        user = User(name=name, password="", one_time=False, role=role, created=now, subject=subject)
        user.totp_active = False
        session.add(user)
        session.flush()
        after = {"role": role, "subject": subject}
        audit.record(session, who, now, "user.add", name, after=after)
    elif user.role != role:
        change = {"before": {"role": user.role}, "after": {"role": role}}
        user.role = role
        audit.record(session, who, now, "user.role", user.name, **change)
    return user


def _free_name(session: Session, claims: Mapping[str, Any]) -> str:
    """Give a new user's name: never one that somebody has, who may be somebody else."""
    for claim in ("preferred_username", "email"):
        name = str(claims.get(claim, "")).lower()
        if _NAME.fullmatch(name) and session.get(User, name) is None:
            return name
    return f"oidc-{sha256(claims['sub'].encode()).hexdigest()[:8]}-{secrets.token_hex(4)}"


def _challenge(verifier: str) -> str:
    """Give the code challenge of a verifier, method S256 (RFC 7636 section 4.2)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
