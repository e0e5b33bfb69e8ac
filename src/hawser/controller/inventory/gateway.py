"""Gateways from the request to join until they are revoked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import Certificate, Gateway, Observation, Token
from hawser.controller.errors import Conflict, Forbidden, Invalid, NotFound
from hawser.controller.inventory.token import Approval, claim
from hawser.controller.policy import version
from hawser.pki.authority import Authority, fingerprint, pem
from hawser.pki.request import key_id, read_request
from hawser.spec.pair import branch_of
from hawser.spec.validate import Issue


class State(StrEnum):
    """State of a gateway's membership."""

    PENDING = "pending"
    APPROVED = "approved"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Signer:
    """Signs certificates of gateways."""

    authority: Authority
    lifetime: timedelta


def state_of(gateway: Gateway) -> State:
    """Give the state of a gateway."""
    if gateway.revoked is not None:
        return State.REVOKED
    return State.PENDING if gateway.approved is None else State.APPROVED


def gateways(session: Session) -> Sequence[Gateway]:
    """Give all gateways, those that were revoked too."""
    return session.scalars(select(Gateway).order_by(Gateway.id)).all()


def approved(session: Session) -> dict[int, str]:
    """Give the names of approved gateways (`spec.pair`), by their numbers."""
    wanted = select(Gateway.id, Gateway.branch).where(
        Gateway.approved.is_not(None), Gateway.revoked.is_(None)
    )
    return {row[0]: row[1] for row in session.execute(wanted.order_by(Gateway.id))}


def by_id(session: Session, number: int) -> Gateway:
    """Give a gateway.

    Raises:
        NotFound: there is none.
    """
    found = session.get(Gateway, number)
    if found is None:
        raise NotFound(f"there is no gateway {number}")
    return found


def of_branch(session: Session, branch: str) -> Gateway | None:
    """Give the gateway of a branch that is not revoked."""
    return session.scalar(
        select(Gateway).where(Gateway.branch == branch, Gateway.revoked.is_(None))
    )


def of_certificate(session: Session, found: str) -> Gateway | None:
    """Give whose certificate has a fingerprint."""
    certificate = session.get(Certificate, found)
    return session.get(Gateway, certificate.gateway) if certificate else None


def join(
    session: Session,
    signer: Signer,
    token_id: str,
    secret: str,
    request: str,
    address: str,
    now: datetime,
) -> Gateway:
    """Handle a machine's request to join, which it may repeat until it is approved.

    Raises:
        Forbidden: the token is not good, or the gateway was revoked.
        Conflict: its branch has a gateway, or is no more.
        Invalid: the certificate signing request is not good.
    """
    try:
        key = key_id(read_request(request.encode()))
    except ValueError as error:
        raise Invalid([Issue(("request",), str(error))]) from error
    token = claim(session, token_id, secret, key, now)
    gateway = session.scalar(select(Gateway).where(Gateway.token == token.id))
    if gateway is None:
        gateway = _ask(session, token, key, request, address, now)
    if gateway.revoked is not None:
        raise Forbidden("this gateway was revoked")
    if gateway.approved is None and token.approval == Approval.AUTOMATIC:
        rule = Principal(f"token {token.id}", frozenset(), address)
        approve(session, signer, rule, now, gateway)
    return gateway


def _ask(
    session: Session, token: Token, key: str, request: str, address: str, now: datetime
) -> Gateway:
    document = version.newest(session).document
    if not version.has_gateway(document, token.branch):
        raise Conflict(f"the network has no branch {token.branch} any more")
    if of_branch(session, token.branch) is not None:
        raise Conflict(f"branch {token.branch} has a gateway, which can be revoked")
    gateway = Gateway(
        branch=token.branch, token=token.id, key=key, request=request, address=address, asked=now
    )
    session.add(gateway)
    session.flush()
    session.add(Observation(gateway=gateway.id, failures=0))
    who = Principal(f"token {token.id}", frozenset(), address)
    after = {"branch": token.branch, "key": key}
    audit.record(session, who, now, "gateway.ask", str(gateway.id), after=after)
    return gateway


def approve(
    session: Session, signer: Signer, who: Principal, now: datetime, gateway: Gateway
) -> None:
    """Approve a gateway.

    Raises:
        Conflict: it is not pending.
    """
    if state_of(gateway) is not State.PENDING:
        raise Conflict(f"gateway {gateway.id} is {state_of(gateway).value}")
    gateway.approved, gateway.approver = now, str(who)
    certify(session, signer, gateway, gateway.request, now)
    audit.record(session, who, now, "gateway.approve", str(gateway.id))


def certify(
    session: Session, signer: Signer, gateway: Gateway, request: str, now: datetime
) -> Certificate:
    """Sign a request of an approved gateway.

    Raises:
        ValueError: it is no request.
    """
    public = read_request(request.encode())
    made = signer.authority.sign(public, [branch_of(gateway.branch)], now, signer.lifetime)
    certificate = Certificate(
        fingerprint=fingerprint(made),
        gateway=gateway.id,
        key=key_id(public),
        pem=pem(made).decode(),
        issued=now,
        expires=now + signer.lifetime,
    )
    session.add(certificate)
    session.flush()
    return certificate


def renew(
    session: Session, signer: Signer, gateway: Gateway, request: str, now: datetime
) -> Certificate:
    """Give an approved gateway another certificate: the one it has for the key, if any.

    Raises:
        Forbidden: it is not approved.
        ValueError: the request is none.
    """
    if state_of(gateway) is not State.APPROVED:
        raise Forbidden(f"gateway {gateway.id} is {state_of(gateway).value}")
    for found in certificates(session, gateway.id):
        if found.key == key_id(read_request(request.encode())) and found.expires > now:
            return found
    made = certify(session, signer, gateway, request, now)
    who = Principal(f"gateway {gateway.id}", frozenset(), gateway.address)
    after = {"fingerprint": made.fingerprint}
    audit.record(session, who, now, "gateway.renew", str(gateway.id), after=after)
    return made


def revoke(session: Session, who: Principal, now: datetime, number: int, reason: str) -> Gateway:
    """Revoke a gateway, or reject its request to join.

    Raises:
        NotFound: there is none.
        Conflict: it was revoked before.
    """
    gateway = by_id(session, number)
    before = state_of(gateway)
    if before is State.REVOKED:
        raise Conflict(f"gateway {number} was revoked before")
    gateway.revoked, gateway.reason = now, reason
    change = {"before": {"state": before.value}, "after": {"reason": reason}}
    audit.record(session, who, now, "gateway.revoke", str(number), **change)
    return gateway


def certificates(session: Session, number: int) -> Sequence[Certificate]:
    """Give all certificates of a gateway, the newest first."""
    wanted = select(Certificate).where(Certificate.gateway == number)
    return session.scalars(wanted.order_by(Certificate.issued.desc())).all()


def ends(session: Session) -> dict[int, datetime]:
    """Give when the newest certificate of each gateway expires."""
    wanted = select(Certificate.gateway, func.max(Certificate.expires))
    return {row[0]: row[1] for row in session.execute(wanted.group_by(Certificate.gateway))}


def newest_certificates(session: Session) -> dict[int, tuple[datetime, datetime]]:
    """Give when the newest certificate of each gateway was issued, and when it expires."""
    wanted = select(
        Certificate.gateway, func.max(Certificate.issued), func.max(Certificate.expires)
    )
    rows = session.execute(wanted.group_by(Certificate.gateway))
    return {gateway: (issued, expires) for gateway, issued, expires in rows}


def revoked_fingerprints(session: Session, now: datetime) -> Sequence[str]:
    """Give fingerprints of unexpired certificates of revoked gateways."""
    wanted = (
        select(Certificate.fingerprint)
        .join(Gateway, Gateway.id == Certificate.gateway)
        .where(Gateway.revoked.is_not(None), Certificate.expires > now)
    )
    return session.scalars(wanted.order_by(Certificate.fingerprint)).all()
