"""Statistics that other controllers of the same network have received.

A gateway reports to the controller that it is connected to, which stores that on its own disk. So a
question is asked of all, with the caller's own token, and the answers are put together.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext
from typing import Any
from urllib.parse import urlencode

from hawser.control.https import ApiClient, ApiError, trusting

_log = logging.getLogger(__name__)

_PATIENCE_S = 3.0
"""How long another controller may take to connect, and between parts of its answer."""
_SILENT_S = 10.0
"""How long one that did not answer is not asked again."""
_NOT_FOUND = 404


class Others:
    """The other controllers. Threads may share it."""

    def __init__(self, urls: Sequence[str] = (), authority: bytes = b"") -> None:
        """Take their URLs, and the certificate of the authority that all have."""
        self._urls = tuple(urls)
        self._trust = trusting(authority) if urls else None
        self._threads = ThreadPoolExecutor(4 * len(urls)) if urls else None
        self._silent: dict[str, float] = {}
        self._lock = threading.Lock()

    def ask(self, path: str, query: Mapping[str, Any], token: str) -> list[Any]:
        """Ask all for what they have themselves; who does not answer is left out.

        Args:
            path: of the API.
            query: what is asked; values may be lists.
            token: of a session or an API key, which is valid at all controllers.
        """
        trust = self._trust
        if self._threads is None or trust is None:
            return []
        wanted = {name: value for name, value in query.items() if value is not None}
        full = f"{path}?{urlencode(wanted | {'here': 'true'}, doseq=True)}"
        answers = self._threads.map(lambda url: self._one(url, full, token, trust), self._urls)
        return [each for each in answers if each is not None]

    def _one(self, url: str, path: str, token: str, trust: SSLContext) -> Any:  # noqa: ANN401 (JSON)
        with self._lock:
            if self._silent.get(url, 0.0) > time.monotonic():
                return None
        try:
            return ApiClient(url, trust, token, _dial).ask("GET", path)
        except ApiError as error:
            if error.status is None:
                _log.warning("statistics of another controller lack: %s", error)
                with self._lock:
                    self._silent[url] = time.monotonic() + _SILENT_S
            elif error.status != _NOT_FOUND:
                _log.warning("%s: %s", url, error)
            return None


def _dial(address: tuple[str, int], _patience: float) -> socket.socket:
    return socket.create_connection(address, _PATIENCE_S)


Row = tuple[float, float, float]
"""Mean, least and greatest value."""


def merged(parts: Iterable[Mapping[int, Row]]) -> dict[int, Row]:
    """Put rows of several controllers together, by time.

    A row that several have is of a time in which the gateway changed from one to the other: each
    has a part of it, and the mean is that of both.
    """
    found: dict[int, list[Row]] = {}
    for part in parts:
        for at, row in part.items():
            found.setdefault(at, []).append(row)
    return {at: _joined(found[at]) for at in sorted(found)}


def _joined(rows: Sequence[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    means, lows, highs = zip(*rows, strict=True)
    return sum(means) / len(rows), min(lows), max(highs)
