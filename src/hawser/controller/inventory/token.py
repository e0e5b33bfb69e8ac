"""Tokens: each lets one gateway join, as the gateway of one branch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.access.secret import digest, new_id, new_secret, same
from hawser.controller.db.tables import Token
from hawser.controller.errors import Conflict, Forbidden, Invalid, NotFound
from hawser.controller.policy import version
from hawser.spec.pair import branch_of, is_second
from hawser.spec.validate import Issue

LONGEST = timedelta(days=30)


class Approval(StrEnum):
    """Who lets in the gateway that shows a token."""

    AUTOMATIC = "automatic"
    """The token is enough."""
    MANUAL = "manual"
    """An operator, who sees where the request comes from."""


def tokens(session: Session) -> Sequence[Token]:
    """Give all tokens, the newest first."""
    return session.scalars(select(Token).order_by(Token.created.desc(), Token.id)).all()


def add_token(
    session: Session,
    who: Principal,
    now: datetime,
    branch: str,
    approval: Approval,
    lifetime: timedelta,
) -> tuple[Token, str]:
    """Make a token for the gateway of a branch, or its second one (`spec.pair`), with its secret.

    Raises:
        Forbidden: it is not one of the caller's branches.
        Invalid: there is no such branch.
    """
    if not who.has(branch):
        raise Forbidden(f"you have no permission for {branch}")
    document = version.newest(session).document
    if not version.has_gateway(document, branch):
        expected = "a branch with a second gateway" if is_second(branch) else "a branch"
        message = f"found {branch_of(branch)}, expected {expected} of the network"
        raise Invalid([Issue(("branch",), message)])
    secret = new_secret()
    token = Token(
        id=new_id(),
        digest=digest(secret),
        branch=branch,
        approval=approval.value,
        author=str(who),
        created=now,
        expires=now + lifetime,
    )
    session.add(token)
    session.flush()
    after = {"branch": branch, "approval": approval.value, "expires": token.expires.isoformat()}
    audit.record(session, who, now, "token.add", token.id, after=after)
    return token, secret


def withdraw(session: Session, who: Principal, now: datetime, name: str) -> None:
    """Withdraw a token.

    Raises:
        NotFound: there is no such token.
        Conflict: it was used; its gateway can be revoked.
    """
    token = session.get(Token, name)
    if token is None or not who.has(token.branch):
        raise NotFound(f"there is no token {name}")
    if token.used is not None:
        raise Conflict(f"token {name} was used already")
    token.withdrawn = now
    audit.record(session, who, now, "token.withdraw", name)


def find(session: Session, name: str, secret: str) -> Token:
    """Give a token, whether or not it can still be used.

    Raises:
        Forbidden: it is no token of this controller.
    """
    token = session.get(Token, name)
    if token is None or not same(token.digest, digest(secret)):
        raise Forbidden("this token is not one of this controller")
    return token


def claim(session: Session, name: str, secret: str, key: str, now: datetime) -> Token:
    """Bind a token to a public key. The same key may present it again, to poll its request.

    Raises:
        Forbidden: it is no token of this controller, expired, withdrawn, or used by another key.
    """
    token = find(session, name, secret)
    if token.withdrawn is not None:
        raise Forbidden("this token was withdrawn")
    if token.key is not None and token.key != key:
        raise Forbidden("this token was used by another gateway")
    if token.expires <= now and token.key is None:
        raise Forbidden("this token has expired")
    if token.key is None:
        token.key, token.used = key, now
    return token
