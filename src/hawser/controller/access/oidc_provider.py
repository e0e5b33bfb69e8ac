"""Asking an OpenID provider: its metadata, its keys, and a token for a code."""

from __future__ import annotations

import json
import ssl
from typing import Annotated, Any, Final
from urllib.parse import quote_plus, urlsplit

import httpx
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from hawser.controller.errors import Refused
from hawser.spec.model import Model

_TIMEOUT_S: Final = 10.0
_LONGEST: Final = 1_000_000
"""Bytes of an answer."""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class ProviderError(Refused):
    """The OpenID provider does not answer, or not as it should."""


def _is_safe(url: str) -> str:
    parts = urlsplit(url)
    plain = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or plain):
        raise ValueError(f"found {url!r}, expected an https URL")
    return url


def _certificates(text: str) -> str:
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise ValueError("expected certificates in PEM form") from error
    return text


Url = Annotated[
    str,
    StringConstraints(pattern=r"^[!-~]+$", max_length=500),
    AfterValidator(_is_safe),
]
Pem = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(_certificates)]
_Role = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
_Word = Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=200)]


class Settings(Model):
    """How users log in at an OpenID provider."""

    issuer: Url
    """Issuer identifier; its metadata is at `ISSUER/.well-known/openid-configuration`."""
    client_id: _Word
    client_secret: _Word
    url: Url
    """Where browsers reach this controller, such as `https://controller.example:8443`. The provider
    has to know `URL/v1/login/oidc/callback` as a redirect URI."""
    scopes: Annotated[tuple[_Word, ...], Field(max_length=20)] = ("profile", "email")
    """Besides `openid`."""
    claim: _Word = "groups"
    """Claim of the ID token from which the role follows."""
    roles: Annotated[dict[_Word, _Role], Field(max_length=100)] = {}
    """Role by a value of the claim; the first that the user has decides."""
    default_role: _Role | None = None
    """Role of users with none of these values; without it they are refused."""
    authority: Pem | None = None
    """Certificates in PEM form that are trusted instead of the system's."""


class Metadata(BaseModel):
    """What a provider says of itself (OpenID Connect Discovery 3)."""

    issuer: str
    authorization_endpoint: Url
    token_endpoint: Url
    jwks_uri: Url


class Provider:
    """A provider. It is asked anew each time: logins are few, and its keys change."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metadata: Metadata | None = None

    def metadata(self) -> Metadata:
        """Give its metadata.

        Raises:
            ProviderError: it does not answer as it should.
        """
        if self._metadata is None:
            issuer = self._settings.issuer
            found = self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            try:
                self._metadata = Metadata.model_validate(found)
            except ValidationError as error:
                raise ProviderError(f"{issuer}: the metadata lacks an endpoint") from error
            if self._metadata.issuer != issuer:  # Discovery section 4.3
                raise ProviderError(f"{issuer}: it says that it is {self._metadata.issuer}")
        return self._metadata

    def keys(self) -> dict[str, Any]:
        """Give its keys (RFC 7517).

        Raises:
            ProviderError: it does not answer as it should.
        """
        return self._ask("GET", self.metadata().jwks_uri)

    def exchange(self, code: str, verifier: str, redirect: str) -> str:
        """Exchange a code for an ID token.

        Raises:
            ProviderError: it refuses, or does not answer as it should.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        token = self._ask("POST", self.metadata().token_endpoint, form).get("id_token")
        if not isinstance(token, str):
            raise ProviderError(f"{self._settings.issuer}: it gave no ID token")
        return token

    def _ask(self, method: str, url: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        known = self._settings
        # RFC 6749 section 2.3.1: both are encoded as in a form.
        auth = (quote_plus(known.client_id), quote_plus(known.client_secret)) if form else None
        try:
            with (
                httpx.Client(verify=self._trust(), timeout=_TIMEOUT_S, trust_env=False) as client,
                client.stream(method, url, data=form, auth=auth) as answer,
            ):
                content = b""
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > _LONGEST:
                        raise ProviderError(f"{url}: the answer is too long")
                answer.raise_for_status()
            found = json.loads(content)
        except (httpx.HTTPError, ssl.SSLError, ValueError, RecursionError) as error:
            raise ProviderError(f"{url}: {error or type(error).__name__}") from error
        if not isinstance(found, dict):
            raise ProviderError(f"{url}: the answer is no JSON object")
        return found

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._settings.authority)
