"""The controller that a command asks: its URL, its authority, and the caller's key."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hawser.control.https import ApiClient

UrlOption = Annotated[
    str,
    typer.Option(
        "--controller",
        metavar="URL",
        envvar="HAWSER_CONTROLLER",
        help="Where the controller is.",
    ),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        envvar="HAWSER_CA",
        help="Certificate of the controller's authority: ca.pem of its directory.",
    ),
]
URL = "https://127.0.0.1:8443"
_KEY = "HAWSER_KEY"
_START_S = 120.0
"""Until a new controller answers: some seconds, and more than ten on a busy machine."""
_POLL_S = 0.5


def client(url: str, authority: Path | None) -> ApiClient:
    """Give a client that sends the session's token or API key of the environment.

    Raises:
        InputError: there is none, or URL or authority are wrong.
    """
    secret = os.environ.get(_KEY)
    if not secret:
        from hawser.engine.errors import InputError

        raise InputError([f"expected {_KEY} in the environment: a session's token or an API key"])
    return client_with(url, authority, secret)


def client_with(url: str, authority: Path | None, secret: str | None) -> ApiClient:
    """Give a client that sends a session's token or an API key, or nothing.

    Raises:
        InputError: URL or authority are wrong.
    """
    from hawser.cli import files
    from hawser.control.https import ApiClient, trusting
    from hawser.engine.errors import InputError

    if authority is None:
        raise InputError(
            ["expected --ca FILE (or HAWSER_CA): ca.pem of the controller's directory"]
        )
    try:
        return ApiClient(url, trusting(files.content(authority)), secret)
    except ValueError as error:
        raise InputError([str(error)]) from error


def wait(url: str, authority: Path | None) -> None:
    """Wait up to two minutes for a controller that is starting.

    A new one makes the authority's certificate before it answers. Without an answer in time this
    returns, and the next request says what is wrong.

    Raises:
        InputError: URL or authority are wrong.
    """
    from hawser.control.https import ApiError

    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if authority is None or authority.exists():
            try:
                client_with(url, authority, None).ask("GET", "/v1/health")
            except ApiError as error:
                if error.status is not None:
                    return
            else:
                return
        time.sleep(_POLL_S)
