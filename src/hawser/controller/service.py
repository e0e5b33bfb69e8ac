"""`hawser controller start`: the API and the gateways' port in one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
from collections.abc import AsyncIterator
from ipaddress import ip_address

import uvicorn
import uvloop
from fastapi import FastAPI

from hawser.control.https import authority_of
from hawser.controller.alarms.paths import Limits
from hawser.controller.api.app import create
from hawser.controller.api.connection import MOST, Connection
from hawser.controller.api.proxy import ProxiedServer
from hawser.controller.context import Context
from hawser.controller.directory import Directory, Settings, open_context, utc_now
from hawser.controller.errors import DirectoryError
from hawser.controller.jobs.alarms import Sender, Sources, Watchman, alarming
from hawser.controller.jobs.names import NameResolution, Resolver, resolving
from hawser.controller.jobs.openflow import driving
from hawser.controller.jobs.paths import PathConfiguration, choosing
from hawser.controller.jobs.upkeep import upkeep
from hawser.controller.link.server import Server
from hawser.controller.listen import bound
from hawser.optimise.switching import Rules

_log = logging.getLogger(__name__)

_COLLECT = (50_000, 20, 50)
"""Thresholds of the garbage collector. With 960 gateways a full collection stops everything for
some 0.2 s; a list of all gateways alone makes 20 000 objects, which by default caused several."""


def start(directory: Directory) -> None:
    """Serve until told to stop.

    Raises:
        DirectoryError: it is no controller's directory, or a port is taken.
    """
    settings = directory.settings
    for port in (settings.api_port, settings.gateways_port):
        _check_port(settings.host, port)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("websockets").setLevel(logging.WARNING)  # a line for each connection
    logging.getLogger("httpx").setLevel(logging.WARNING)  # URLs of webhooks may hold tokens
    _raise_files()
    gc.freeze()
    gc.set_threshold(*_COLLECT)
    try:
        uvloop.run(_serve(directory))
    finally:
        gc.unfreeze()  # else nanobind calls what is frozen a leak when the process ends


def _raise_files() -> None:
    """Allow as many open files as possible: each connection is one, and often 1024 is the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _check_port(host: str, port: int) -> None:
    try:
        for each in bound(host, port):
            each.close()
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise DirectoryError(f"{host}:{port}: {reason}") from error


def _path_configuration(context: Context, settings: Settings) -> PathConfiguration:
    rules = settings.paths
    return PathConfiguration(
        context.instance,
        context.database,
        context.watch,
        context.latest,
        context.clock,
        context.planned,
        context.trains,
        Rules(float(rules.gain), float(rules.hold), rules.per_hour),
    )


def _watchman(context: Context, directory: Directory, settings: Settings) -> Watchman:
    sources = Sources(
        context.database,
        context.watch,
        context.latest,
        context.statistics,
        context.clock,
        directory.certificate_ends(),
    )
    rules = settings.alarms
    return Watchman(sources, Limits(float(rules.loss), rules.rtt_factor, 1e3 * rules.rtt_more))


async def _serve(directory: Directory) -> None:
    loop, servers = asyncio.get_running_loop(), list[Server]()

    def changed() -> None:
        """Tell the gateways' server, from whichever thread."""
        for server in servers:
            loop.call_soon_threadsafe(server.changed)

    context = await asyncio.to_thread(open_context, directory, utc_now, changed)
    servers.append(Server(context))
    settings = directory.settings

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        file = directory.statistics / "remote-write.json"
        jobs = upkeep(context.statistics, settings.remote_write, file)
        paths = choosing(_path_configuration(context, settings), changed)
        resolver = Resolver(map(str, settings.dns_servers))
        work = NameResolution(context.database, context.clock, resolver)
        names = resolving(work, changed)
        sender = Sender(context.database, context.vault, context.clock, settings.alarms.networks)
        alarms = alarming(_watchman(context, directory, settings), sender)
        switches = driving(context.switches)
        async with servers[0].serving(directory), jobs, paths, names, alarms, switches:
            yield
        context.close()

    config = uvicorn.Config(
        create(context, lifespan),
        host=settings.host,
        port=settings.api_port,
        ssl_certfile=directory.certificate,
        ssl_keyfile=directory.key,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        http=Connection,
        limit_concurrency=MOST,
        ws="none",
    )
    proxies = tuple(map(ip_address, map(str, settings.proxies)))
    server = ProxiedServer(config, proxies) if proxies else uvicorn.Server(config)
    _log.info("API at https://%s", authority_of(settings.host, settings.api_port))
    await server.serve(sockets=bound(settings.host, settings.api_port))
