"""Versions of the network: each with its author, its reason and what it changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session, load_only

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import Rollout, Version
from hawser.controller.errors import Conflict, Invalid, NotFound
from hawser.controller.policy.difference import changes
from hawser.controller.policy.limit import permit
from hawser.spec.check.network import network as check
from hawser.spec.errors import Problems
from hawser.spec.network import Network
from hawser.spec.pair import branch_of, is_second
from hawser.spec.site import document_of, expanded, tree_of
from hawser.spec.tree import Table, plain
from hawser.spec.validate import Issue

Json = Any
_LONGEST_REASON = 500
_CHANGED = "network.change"


def read(document: Json) -> Network:
    """Read a network as strictly as a file: an address is no number, a number no text.

    Raises:
        ValidationError: it is none.
        Invalid: its sites cannot be made of its templates.
    """
    if isinstance(document, dict) and document.get("sites"):
        tree, problems = tree_of(document), Problems()
        assert isinstance(tree, Table)  # noqa: S101 (of a mapping)
        document = plain(expanded(tree, problems))
        if problems:
            raise Invalid([Issue(tuple(each.field.split(".")), each.message) for each in problems])
    return Network.model_validate_json(json.dumps(document), strict=True)


def has_gateway(document: Json, name: str) -> bool:
    """Tell whether the network of a document has a gateway of this name (`spec.pair`)."""
    branch = branch_of(name)
    known = branch in document["overlay"]["branches"] or branch in document.get("sites", ())
    return known and (not is_second(name) or branch in document.get("pairs", ()))


def network_of(document: Json) -> Network:
    """Read a network that was written by `document_of`, or changed since, and check it.

    Raises:
        Invalid: everything that is wrong with it.
    """
    try:
        network = read(document)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        raise Invalid([Issue(each["loc"], each["msg"]) for each in details]) from error
    if issues := list(check(network)):
        raise Invalid(issues)
    return network


def newest_number(session: Session) -> int:
    """Give the number of the version in force."""
    return session.scalar(select(func.max(Version.number))) or 0


def newest(session: Session) -> Version:
    """Give the version in force."""
    return version(session, newest_number(session))


def version(session: Session, number: int) -> Version:
    """Give a version.

    Raises:
        NotFound: there is none of that number.
    """
    found = session.get(Version, number)
    if found is None:
        raise NotFound(f"there is no version {number}")
    return found


def versions(session: Session, before: int, limit: int) -> Sequence[Version]:
    """Give versions with lower numbers than one, the newest first, without their documents."""
    wanted = select(Version).where(Version.number < before).order_by(Version.number.desc())
    columns = load_only(
        Version.number,
        Version.time,
        Version.author,
        Version.reason,
        Version.restores,
        Version.changes,
    )
    return session.scalars(wanted.limit(limit).options(columns)).all()


def first(session: Session, who: Principal, now: datetime, network: Network) -> Version:
    """Add the first version of a new database."""
    document = document_of(network)
    return _add(session, who, now, None, document, "first version", None)


def change(
    session: Session,
    who: Principal,
    now: datetime,
    base: int | None,
    new: Callable[[Json], Json],
    reason: str,
) -> Version:
    """Add a version; the one in force is given back where nothing differs.

    Args:
        session: of `Database.write`.
        who: its author.
        now: the time.
        base: number of the version that the author has seen; None for whichever is in force.
        new: gives the new document for the one in force.
        reason: why, for those who read the history.

    Raises:
        Conflict: another version is in force than `base`, or a roll-out is running.
        Forbidden: it reaches beyond the author's branches.
        Invalid: everything that is wrong with the new document.
    """
    current = newest(session)
    if base is not None and current.number != base:
        raise Conflict(f"found version {base}, but version {current.number} is in force")
    document = document_of(network_of(new(current.document)))
    permit(who, current.document, document)
    if document == current.document:
        return current
    return _add(session, who, now, current, document, reason, None)


def restore(session: Session, who: Principal, now: datetime, number: int, reason: str) -> Version:
    """Make an older version's network the newest again.

    Raises:
        NotFound: there is no such version.
        Conflict: a roll-out is running.
        Forbidden: it would change more than the author's branches.
        Invalid: this program does not take its document any more.
    """
    current, old = newest(session), version(session, number)
    document = document_of(network_of(old.document))
    permit(who, current.document, document)
    return _add(session, who, now, current, document, reason, number)


def _add(
    session: Session,
    who: Principal,
    now: datetime,
    current: Version | None,
    document: Json,
    reason: str,
    restores: int | None,
) -> Version:
    if number := session.scalar(select(Rollout.number).where(Rollout.state == "running")):
        raise Conflict(f"roll-out {number} is running: wait for its end, finish it or return it")
    before = current.document if current else {}
    found = [each.model_dump() for each in changes(before, document)]
    added = Version(
        number=current.number + 1 if current else 1,
        time=now,
        author=str(who),
        reason=reason[:_LONGEST_REASON],
        restores=restores,
        document=document,
        changes=found,
    )
    session.add(added)
    session.flush()
    _record(session, who, now, current, added)
    return added


def _record(
    session: Session, who: Principal, now: datetime, current: Version | None, added: Version
) -> None:
    """Put a version into the audit log: its digest makes the document tamper-evident too."""
    after: dict[str, Any] = {
        "version": added.number,
        "sha256": digest_of(added.document),
        "reason": added.reason,
    }
    before = None
    if current is not None:
        before = {"version": current.number, "sha256": digest_of(current.document)}
        after["changes"] = added.changes
    if added.restores is not None:
        after["restores"] = added.restores
    target = f"version {added.number}"
    audit.record(session, who, now, _CHANGED, target, before=before, after=after)


def digest_of(document: Json) -> str:
    """Give the SHA-256 of a document's JSON (sorted keys, no white space)."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def altered(session: Session) -> int | None:
    """Give the number of the first version whose document the audit log does not know."""
    changed = (each.after for each in audit.all_entries(session) if each.action == _CHANGED)
    logged = {each["version"]: each["sha256"] for each in changed if each and "sha256" in each}
    wanted = select(Version).order_by(Version.number).execution_options(yield_per=20)
    for found in session.scalars(wanted):
        # Versions of before this digest was logged are not known, and are no sign of tampering.
        if logged.get(found.number, digest_of(found.document)) != digest_of(found.document):
            return found.number
    return None
