"""What receivers get: the body of a webhook with its signature, and an e-mail. Pure."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Final

from hawser.controller.alarms.condition import Level, is_at_least
from hawser.controller.alarms.receiver import Mail

_SUMMARY: Final = 120
"""Characters of a subject."""


@dataclass(frozen=True)
class Message:
    """What is told of one group of alarms."""

    id: str
    """By which the receiver recognises a message that comes again."""
    network: str
    group: str
    created: datetime
    events: Sequence[Mapping[str, Any]]
    omitted: int = 0
    """Events that there was no room for."""


def body(message: Message) -> bytes:
    """Write a message as JSON."""
    found = {
        "type": "alarms",
        "network": message.network,
        "group": message.group,
        "time": message.created.isoformat(timespec="seconds"),
        "alarms": list(message.events),
        "omitted": message.omitted,
    }
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def signed(secret: str, message: Message, content: bytes, now: datetime) -> dict[str, str]:
    """Give the headers of a webhook (standardwebhooks.com, symmetric signatures).

    Args:
        secret: `whsec_` and the key in Base64.
        message: what is sent.
        content: its body.
        now: when it is sent, so that the receiver can refuse what somebody sends again later.
    """
    key = base64.b64decode(secret.partition("_")[2])
    time = str(int(now.timestamp()))
    signature = hmac.digest(key, f"{message.id}.{time}.".encode() + content, "sha256")
    return {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": time,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


def subject(message: Message) -> str:
    """Say in a line what has happened, the most urgent first."""
    raised = [each for each in message.events if each["event"] != "cleared"]
    shown = raised or message.events
    level = Level.INFO
    for each in shown:
        level = Level(each["level"]) if is_at_least(Level(each["level"]), level) else level
    head = level.value if raised else "cleared"
    if len(message.events) == 1:
        what = str(message.events[0]["detail"])
    else:
        what = f"{len(message.events) + message.omitted} alarms of {message.group}"
    text = " ".join(f"[{message.network}] {head}: {what}".split())  # no header of its own
    return text if len(text) <= _SUMMARY else f"{text[: _SUMMARY - 3]}..."


def mail(message: Message, target: Mail, now: datetime) -> EmailMessage:
    """Write a message as an e-mail. It has the same Message-ID each time."""
    made = EmailMessage()
    made["From"], made["To"] = target.sender, ", ".join(target.recipients)
    made["Subject"] = subject(message)
    made["Date"] = format_datetime(now)
    made["Message-ID"] = f"<{message.id}@{target.sender.partition('@')[2]}>"
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834 section 5: no replies by machines
    lines = [
        f"{each['event']}: alarm {each['number']}, {each['level']}, {each['kind']}\n"
        f"  {each['detail']}\n"
        f"  raised {each['raised']}" + (f", cleared {each['cleared']}" if each["cleared"] else "")
        for each in message.events
    ]
    if message.omitted:
        lines.append(f"and {message.omitted} more")
    made.set_content("\n\n".join(lines) + "\n")
    return made
