"""The application: all routes behind one guard."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import Depends, FastAPI

import hawser
from hawser.controller.api import (
    access,
    alarms,
    answer,
    gateways,
    names,
    network,
    oidc,
    paths,
    receivers,
    rollout,
    statistics,
    whatif,
)
from hawser.controller.api.depends import bearer
from hawser.controller.api.guard import Guard
from hawser.controller.context import Context

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create(context: Context, lifespan: Lifespan | None = None) -> FastAPI:
    """Make the application of a controller."""
    app = FastAPI(
        title="Hawser controller",
        version=hawser.__version__,
        lifespan=lifespan,
        openapi_url=None,  # the document, too, is only for those who are logged in
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    answer.install(app)
    common = answer.documented(400, 413, 422, 429, 503)
    for router in (access.open_router, oidc.open_router, gateways.open_router):
        app.include_router(router, prefix="/v1", responses=common)
    closed = common | answer.documented(401, 403)
    routers = (
        access,
        oidc,
        network,
        names,
        paths,
        rollout,
        gateways,
        statistics,
        alarms,
        receivers,
        whatif,
    )
    for router in (each.router for each in routers):
        app.include_router(router, prefix="/v1", responses=closed, dependencies=[Depends(bearer)])

    @app.get("/v1/openapi.json", responses=closed, dependencies=[Depends(bearer)])
    def openapi() -> dict[str, Any]:
        """Give this API's OpenAPI document."""
        return app.openapi()

    app.add_middleware(Guard, context=context)
    return app
