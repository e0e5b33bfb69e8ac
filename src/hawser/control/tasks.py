"""Several works of one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


async def until_first(*works: Coroutine[None, None, None]) -> None:
    """Work until the first of several ends, and end the others.

    Raises:
        Exception: what the first one has raised.
    """
    tasks = [asyncio.create_task(each) for each in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
