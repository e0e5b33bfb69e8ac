"""Sending statistics to a Prometheus-like store, and again until it has taken them."""

from __future__ import annotations

import json
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from hawser.controller.telemetry.exposition import labels_of
from hawser.controller.telemetry.remote_write import request
from hawser.pki.file import replace_private
from hawser.spec.model import Model
from hawser.spec.units import Duration
from hawser.store.statistics.store import StatisticsStore

_log = logging.getLogger(__name__)

_BEHIND_S: Final = 5
"""Reports of a second have arrived so much later."""
_REACH_S: Final = 3600
"""How long what could not be sent is kept."""
_SERIES_AT_ONCE: Final = 5000
_TIMEOUT_S: Final = 10
_LONGEST_ANSWER: Final = 65536
_REFUSED: Final = range(400, 500)
_TOO_MANY: Final = 429


class Target(Model):
    """A store that takes remote writes (Prometheus, VictoriaMetrics, Mimir)."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    every: Duration = Duration(15)
    """Means of so many seconds are sent."""
    ca: Path | None = None
    """Authority of its certificate, if it is not one of the machine's."""
    bearer_file: Path | None = None
    """File with a token for the header `Authorization`."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token elsewhere, and leave the values behind: it is an error."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def _opener(trust: ssl.SSLContext) -> urllib.request.OpenerDirector:
    secure = urllib.request.HTTPSHandler(context=trust)
    return urllib.request.build_opener(secure, _NoRedirects())


class RemoteWrite:
    """Sends what it has not sent. Where it is, is in a file, so that a restart loses nothing."""

    def __init__(self, target: Target, store: StatisticsStore, file: Path) -> None:
        self._target, self._store, self._file = target, store, file
        self.every = max(1, round(float(target.every)))

    def send(self) -> int:
        """Send all that is due; give how many requests were sent.

        Raises:
            OSError: the store does not answer or take it; the next call begins there again.
        """
        now = self._store.now() - _BEHIND_S
        begin = max(self._sent(), now - _REACH_S) // self.every * self.every
        requests = 0
        for at in range(begin, now - self.every + 1, self.every):
            bodies = list(self._requests(at))
            for body in bodies:
                self._post(body)
            requests += len(bodies)
            if bodies:
                replace_private(self._file, json.dumps({"sent": at + self.every}).encode())
        return requests

    def _sent(self) -> int:
        """Give up to which second everything was sent."""
        try:
            return int(json.loads(self._file.read_bytes())["sent"])
        except FileNotFoundError:
            return self._store.now() - _BEHIND_S - self.every
        except (ValueError, KeyError, TypeError) as error:
            _log.error("%s: %s", self._file, error)
            return 0

    def _requests(self, at: int) -> Iterator[bytes]:
        values = list(self._values(at))
        for begin in range(0, len(values), _SERIES_AT_ONCE):
            yield request(values[begin : begin + _SERIES_AT_ONCE], at + self.every)

    def _values(self, at: int) -> Iterator[tuple[Mapping[str, str], float]]:
        means = self._store.means(at, at + self.every, lambda _name: True)
        for (branch, name), value in means.items():
            found = labels_of(branch, name)
            if found is not None:
                yield {"__name__": found[0], **found[1]}, value

    def _post(self, body: bytes) -> None:
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "snappy",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        if self._target.bearer_file is not None:
            headers["Authorization"] = f"Bearer {self._target.bearer_file.read_text().strip()}"
        asked = urllib.request.Request(self._target.url, body, headers)  # noqa: S310 (http or https)
        trust = ssl.create_default_context(cafile=self._target.ca and str(self._target.ca))
        try:
            with _opener(trust).open(asked, timeout=_TIMEOUT_S) as answer:
                answer.read(_LONGEST_ANSWER)
        except urllib.error.HTTPError as error:
            if error.code not in _REFUSED or error.code == _TOO_MANY:
                raise
            # It will never take this: it has these values already, or they are too old.
            _log.warning("remote write: %s: %s", error, error.read(500).decode(errors="replace"))
        except HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error
