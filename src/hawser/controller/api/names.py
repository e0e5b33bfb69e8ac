"""Routes: DNS names of applications, and what they resolve to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv4Address
from typing import Any

from fastapi import APIRouter

from hawser.controller.api.depends import BranchReader, Shared
from hawser.controller.api.model import Answer
from hawser.controller.db.tables import ResolvedName
from hawser.controller.policy import names, version
from hawser.spec.named import used_addresses

Json = Any
_Used = Mapping[str, Mapping[str, tuple[IPv4Address, ...]]]

router = APIRouter(tags=["network"])


class AddressAnswer(Answer):
    """An address of a name."""

    address: IPv4Address
    seen: datetime
    """When it was last in an answer."""
    used: bool
    """Whether gateways classify by it: it is behind a branch, and there are rules left."""


class NameAnswer(Answer):
    """A DNS name of an application."""

    name: str
    applications: tuple[str, ...]
    addresses: tuple[AddressAnswer, ...]
    resolved: datetime | None
    """Time of the last answer; null before the first."""
    next: datetime | None
    """When it is resolved again; null before the first query."""
    error: str | None
    """Why the last query gave no address: the addresses are those of before."""


@router.get("/names")
def list_names(shared: Shared, _who: BranchReader) -> list[NameAnswer]:
    """List the DNS names of applications that are of some class, with their addresses."""
    with shared.database.read() as session:
        document = version.newest(session).document
        rows = {row.name: row for row in names.rows(session)}
        resolved = names.resolved(session)
    used = used_addresses(version.network_of(document), resolved)
    wanted = sorted(names.names_in(document))
    return [_name(name, document["applications"], used, rows.get(name)) for name in wanted]


def _name(name: str, applications: Json, used: _Used, row: ResolvedName | None) -> NameAnswer:
    having = tuple(each for each, found in applications.items() if name in found["names"])
    rules = {address for each in having for address in used.get(each, {}).get(name, ())}
    seen = row.addresses if row else {}
    addresses = (
        AddressAnswer(
            address=address, seen=datetime.fromisoformat(seen[str(address)]), used=address in rules
        )
        for address in sorted(map(IPv4Address, seen))
    )
    return NameAnswer(
        name=name,
        applications=having,
        addresses=tuple(addresses),
        resolved=row.resolved if row else None,
        next=row.next if row else None,
        error=row.error if row else None,
    )
