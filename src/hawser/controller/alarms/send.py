"""Sending one message by HTTP POST or SMTP. An attempt ends in time, whatever the receiver does."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from datetime import datetime
from typing import Final

import aiosmtplib
import httpx

from hawser.controller.alarms.address import Networks, Undeliverable, checked
from hawser.controller.alarms.message import Message, body, mail, signed
from hawser.controller.alarms.receiver import Mail, Webhook

_DEADLINE_S: Final = 20.0
"""Of an attempt: less than the time for which a message stays claimed."""
_OPERATION_S: Final = 10.0
_GOOD: Final = range(200, 300)


async def send(target: Webhook | Mail, message: Message, now: datetime, networks: Networks) -> None:
    """Send a message.

    Args:
        target: where to.
        message: what.
        now: the time.
        networks: addresses that are allowed besides public ones.

    Raises:
        Undeliverable: the receiver has not taken it, or not in time.
    """
    try:
        async with asyncio.timeout(_DEADLINE_S):
            if isinstance(target, Webhook):
                await _post(target, message, now, networks)
            else:
                await _mail(target, message, now, networks)
    except TimeoutError as error:
        raise Undeliverable("it has not answered in time") from error
    except (OSError, httpx.HTTPError, aiosmtplib.SMTPException) as error:
        raise Undeliverable(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Say what failed, without what the other side has written: it may be any service at all."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"the SMTP server answered {error.code}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    behind = error.__cause__ or error.__context__
    if isinstance(behind, Exception):
        return _reason(behind)
    return getattr(error, "strerror", None) or type(error).__name__


async def _post(target: Webhook, message: Message, now: datetime, networks: Networks) -> None:
    url = httpx.URL(target.url)
    port = url.port or (443 if url.scheme == "https" else 80)
    address = await checked(url.host, port, networks)
    content = body(message)
    headers = {"Host": url.netloc.decode(), "User-Agent": "hawser"}
    headers |= signed(target.secret or "", message, content, now)
    trust = ssl.create_default_context(cadata=target.authority)
    # A redirect would lead to an address that nobody has checked: it is an error.
    client = httpx.AsyncClient(
        verify=trust, timeout=_OPERATION_S, trust_env=False, follow_redirects=False
    )
    async with client:
        asked = client.build_request(
            "POST",
            url.copy_with(host=address),
            content=content,
            headers=headers,
            extensions={"sni_hostname": url.host},
        )
        answer = await client.send(asked, stream=True)  # its body is of no interest
        await answer.aclose()
    if answer.status_code not in _GOOD:
        raise Undeliverable(f"it answered {answer.status_code}")


async def _mail(target: Mail, message: Message, now: datetime, networks: Networks) -> None:
    address = await checked(target.host, target.port, networks)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    client = None
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, target.port))
        client = aiosmtplib.SMTP(sock=connection, start_tls=False, timeout=_OPERATION_S)
        await client.connect()
        trust = ssl.create_default_context(cadata=target.authority)
        await client.starttls(server_hostname=target.host, tls_context=trust)
        if target.user is not None:
            await client.login(target.user, target.password or "")
        await client.send_message(
            mail(message, target, now), sender=target.sender, recipients=list(target.recipients)
        )
        with suppress(OSError, aiosmtplib.SMTPException):  # it has the message already
            await client.execute_command(b"QUIT")
    finally:
        if client is not None and isinstance(client.transport, asyncio.WriteTransport):
            client.transport.abort()  # a peer that does not end TLS in order is not waited for
            await asyncio.sleep(0)
        connection.close()
