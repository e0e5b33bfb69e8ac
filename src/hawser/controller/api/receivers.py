"""Routes: where alarms are sent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter

from hawser.controller.alarms import delivery, receiver
from hawser.controller.alarms.condition import Level
from hawser.controller.alarms.delivery import Event
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import Manager, Shared
from hawser.controller.api.model import Answer
from hawser.controller.db.tables import Receiver
from hawser.spec.model import Name

router = APIRouter(tags=["alarms"])


class ReceiverAnswer(Answer):
    """A receiver, without its secret."""

    name: str
    settings: dict[str, Any]
    created: datetime
    waiting: int
    """Messages that are not delivered yet."""
    abandoned: int
    """Messages that were given up: after a day, or because too many waited."""
    delivered: datetime | None
    """When the last message was delivered."""
    error: str | None
    """Why the newest message that was not delivered was not."""


class NewReceiver(Answer):
    """What only the answer to this request has."""

    secret: str | None
    """The key of a webhook's signature, if the controller has made it."""


@router.get("/receivers")
def list_receivers(shared: Shared, _who: Manager) -> list[ReceiverAnswer]:
    """List receivers."""
    with shared.database.read() as session:
        return [
            ReceiverAnswer(
                name=row.name,
                settings=receiver.plain(receiver.settings(shared.vault, row)),
                created=row.created,
                abandoned=row.abandoned,
                **delivery.queue_of(session, row.name),
            )
            for row in receiver.receivers(session)
        ]


@router.put("/receivers/{name}", responses=documented(409))
def set_receiver(
    name: Name,
    body: receiver.Settings,
    shared: Shared,
    who: Manager,
) -> NewReceiver:
    """Add a receiver, or replace its settings as a whole."""
    with shared.database.write() as session:
        made = receiver.configure(session, shared.vault, who, shared.clock(), name, body)
    return NewReceiver(secret=made)


@router.delete("/receivers/{name}", status_code=204, responses=documented(404))
def remove_receiver(name: Name, shared: Shared, who: Manager) -> None:
    """Remove a receiver. What waits for it is not sent."""
    with shared.database.write() as session:
        receiver.remove(session, shared.vault, who, shared.clock(), name)


@router.post("/receivers/{name}/test", status_code=202, responses=documented(404))
def send_test(name: Name, shared: Shared, _who: Manager) -> None:
    """Send a message that is no alarm. The list of receivers shows what became of it."""
    now = shared.clock()
    with shared.database.write() as session:
        row = receiver.by_name(session, name)
        delivery.enqueue(session, now, row, "test", _test(row, now), timedelta(0))


def _test(row: Receiver, now: datetime) -> dict[str, object]:
    return {
        "event": Event.TEST.value,
        "number": 0,
        "kind": "test",
        "level": Level.INFO.value,
        "group": "test",
        "branches": [],
        "detail": f"a test message to receiver {row.name}",
        "figures": {},
        "raised": now.isoformat(timespec="seconds"),
        "cleared": None,
    }
