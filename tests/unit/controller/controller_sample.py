"""A controller in this process, with a network of three branches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from hawser.controller.api.app import create
from hawser.controller.context import Context
from hawser.controller.directory import Directory, Settings, init, open_context
from hawser.pki.key import new_key
from hawser.pki.request import new_request
from hawser.spec.network import Network
from lab.controller.branches import branches

PASSWORD = "correct horse battery"  # noqa: S105 (of a test)


def network() -> Network:
    """Branches b1, b2 and b3 with two WAN ports each."""
    ports = {
        f"gw{n}.{port}": {"address": f"192.0.2.{at + 2}", "next_hop": f"192.0.2.{at + 1}"}
        for n in (1, 2, 3)
        for at, port in ((16 * n, "a"), (16 * n + 4, "b"))
    }
    overlay = {"transport": "quic", "branches": branches((1, 2, 3), "a", "b")}
    return Network.model_validate({"name": "acme", "overlay": overlay, "ports": ports})


@dataclass
class Clock:
    """A clock that a test turns."""

    now: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **by: float) -> None:
        self.now += timedelta(**by)


class Api:
    """The API of a controller, called without a network."""

    def __init__(self, context: Context) -> None:
        self.app = create(context)
        self.headers: dict[str, str] = {}

    def call(self, method: str, path: str, body: object = None, **options: Any) -> httpx.Response:  # noqa: ANN401 (httpx's)
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="https://test") as client:
                headers = self.headers | options.pop("headers", {})
                return await client.request(method, path, json=body, headers=headers, **options)

        return asyncio.run(once())

    def get(self, path: str) -> Any:  # noqa: ANN401 (JSON)
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def do(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 (JSON)
        answer = self.call(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def log_in(self, name: str = "admin", password: str = PASSWORD) -> Api:
        made = self.do("POST", "/v1/login", {"user": name, "password": password})
        self.headers = {"Authorization": f"Bearer {made['token']}"}
        return self

    def as_new(self, role: str) -> Api:
        """The API as a new user has it, whose password was changed."""
        name = f"some-{role}"
        made = self.do("POST", "/v1/users", {"name": name, "role": role})
        other = Api(self.app.state.context).log_in(name, made["password"])
        other.do("PUT", "/v1/me/password", {"password": PASSWORD})
        return other.log_in(name)


@dataclass
class Machine:
    """A machine that joins."""

    key: Any = field(default_factory=new_key)

    def join(self, api: Api, token: str) -> httpx.Response:
        name, secret, _pin = token.split(".")
        request = new_request(self.key, "whoever").decode()
        return api.call("POST", "/v1/join", {"token": name, "secret": secret, "request": request})


def controller(path: Path, clock: Clock, database: str = "sqlite:///controller.db") -> Context:
    """A new controller, with an admin."""
    init(path, Settings(database=database), network(), "admin", PASSWORD)
    return open_context(Directory(path), clock, lambda: None)
