"""What is done again and again beside the service: hours written down, values sent elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from hawser.controller.jobs.remote_write import RemoteWrite, Target
from hawser.store.errors import StoreError
from hawser.store.statistics.store import StatisticsStore

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 60.0
"""How often it is looked whether an hour has to be written down."""


@contextlib.asynccontextmanager
async def upkeep(store: StatisticsStore, target: Target | None, file: Path) -> AsyncIterator[None]:
    """Work until left.

    Args:
        store: the statistics.
        target: where they are sent, if anywhere.
        file: remembers what was sent.
    """
    tasks = [asyncio.create_task(_roll(store))]
    if target is not None:
        tasks.append(asyncio.create_task(_send(RemoteWrite(target, store, file))))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _roll(store: StatisticsStore) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            if store.due():
                await asyncio.to_thread(store.roll)
        except (StoreError, OSError):
            _log.exception("statistics of an hour cannot be written down")


async def _send(sender: RemoteWrite) -> None:
    while True:
        await asyncio.sleep(sender.every)
        try:
            await asyncio.to_thread(sender.send)
        except (OSError, ValueError) as error:  # or the token's file is no text
            _log.warning("remote write: %s", error)
