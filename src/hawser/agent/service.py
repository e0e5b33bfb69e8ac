"""`hawser gateway run`: the agent at work."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from hawser.agent.applier import Applier
from hawser.agent.bridge import GatewayBridge
from hawser.agent.daemon import GatewayDaemon
from hawser.agent.errors import AgentError
from hawser.agent.link import Link
from hawser.agent.state import StateDirectory
from hawser.agent.steering import Chains
from hawser.driver import capabilities
from hawser.driver.parts import openvswitch
from hawser.driver.roles import hawserd

_CAPABILITIES = ("tun", "mptcp", "tproxy", "xdp")
"""Of the kernel, what gateways may need."""


def run(path: Path) -> None:
    """Work until told to stop; the daemon goes on.

    Raises:
        AgentError: this gateway has not joined a network, or another agent works for it.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    state = StateDirectory(path.absolute())
    joined = state.joined()
    with _alone(state):
        daemon = GatewayDaemon(state, hawserd())
        bridge = GatewayBridge(state.path / "ofs")
        applier = Applier(state, daemon, Chains(), bridge, time.monotonic)
        applier.restore()  # whoever the controller is, and whether it answers
        link = Link(state, joined, daemon, applier, bridge, tuple(_capabilities()))
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(_until_stopped(link))


def _capabilities() -> Iterator[str]:
    yield from (name for name in _CAPABILITIES if capabilities.has(name))
    if not openvswitch.absent():
        yield "ovs-vswitchd"


async def _until_stopped(link: Link) -> None:
    task = asyncio.ensure_future(link.run())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await task


@contextlib.contextmanager
def _alone(state: StateDirectory) -> Iterator[None]:
    handle = os.open(state.path / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise AgentError(f"{state.path}: an agent works here already") from error
    finally:
        os.close(handle)
