"""Waiting in tests: it ends as soon as something is so, and has patience for slow machines."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds after which something is not going to happen any more, on however slow a machine."""


def until(condition: Callable[[], object], what: str = "", seconds: float = PATIENCE) -> None:
    """Wait for something to be so.

    Raises:
        AssertionError: it did not come to be so in `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
