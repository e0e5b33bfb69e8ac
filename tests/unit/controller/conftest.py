"""Fixtures: a controller in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from controller_sample import Api, Clock, controller

from hawser.controller.access import password
from hawser.controller.context import Context
from lab.controller.postgres import INITDB, Postgres


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """As safe passwords take 50 ms of a core each, tests take less safe ones."""
    monkeypatch.setattr(password, "_hasher", PasswordHasher(1, 8, 1))


@pytest.fixture
def context(tmp_path: Path, clock: Clock, _quick_passwords: None) -> Iterator[Context]:
    made = controller(tmp_path / "acme", clock)
    yield made
    made.close()


@pytest.fixture
def api(context: Context) -> Api:
    return Api(context).log_in()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if INITDB is None:
        pytest.skip("PostgreSQL is not installed (Debian package postgresql)")
    # Not below the folders of pytest, which only their owner may enter.
    with tempfile.TemporaryDirectory(prefix="hawser-postgres-") as folder:
        server = Postgres(Path(folder))
        yield server
        server.stop()
