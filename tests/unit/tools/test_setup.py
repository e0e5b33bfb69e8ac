"""tools/setup looks once, and again when something has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LATER = time.time() + 3600


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which all is built and installed; `cargo` and `dpkg-query` are logged."""
    for name in ("tools", "crates/one", ".venv/bin", "target/release", "bin"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("setup", "progress.sh"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    for name in ("Cargo.toml", "Cargo.lock", "crates/one/lib.rs", "apt-packages.txt"):
        (tmp_path / name).touch()
    for name in ("requirements.lock", ".venv/installed-requirements.lock"):
        (tmp_path / name).write_text("typer==1\n")
    pip = f'test "$2" != pip || echo "pip ${{!#}}" >> {tmp_path}/log'
    program(tmp_path / ".venv/bin/python", pip)
    program(tmp_path / "target/release/hawserd", "")
    program(tmp_path / "bin/cargo", f"echo cargo $1 >> {tmp_path}/log")
    (tmp_path / "apt-packages.txt").write_text("iperf3\n")
    program(tmp_path / "bin/dpkg-query", f"echo dpkg-query >> {tmp_path}/log; echo 'ii  iperf3'")
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def calls(checkout: Path, *arguments: str) -> list[str]:
    """Set up, and give what was called for it."""
    log = checkout / "log"
    log.write_text("")
    environment = {"PATH": f"{checkout}/bin:{os.environ['PATH']}"}
    command = [str(checkout / "tools/setup"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines()


def test_nothing_is_looked_for_twice(checkout: Path) -> None:
    assert calls(checkout) == ["dpkg-query"]
    assert calls(checkout) == []


@pytest.mark.parametrize("name", ["crates/one/lib.rs", "Cargo.lock"])
def test_a_change_of_a_source_builds_again(checkout: Path, name: str) -> None:
    calls(checkout)
    os.utime(checkout / name, (LATER, LATER))
    assert calls(checkout) == ["dpkg-query", "cargo tree", "cargo build"]


@pytest.mark.parametrize("name", ["apt-packages.txt", "requirements.lock", "tools/setup"])
def test_a_change_of_a_list_is_looked_at(checkout: Path, name: str) -> None:
    calls(checkout)
    os.utime(checkout / name, (LATER, LATER))
    assert calls(checkout) == ["dpkg-query"]


def test_a_binary_that_has_gone_is_built_again(checkout: Path) -> None:
    calls(checkout)
    (checkout / "target/release/hawserd").unlink()
    assert calls(checkout) == ["dpkg-query", "cargo tree", "cargo build"]


def test_an_extra_is_installed_and_kept_up_to_date(checkout: Path) -> None:
    lock = checkout / "requirements-query.lock"
    lock.write_text("duckdb==1\n")
    assert calls(checkout) == ["dpkg-query"], "nobody has asked for it"
    assert calls(checkout, "--extra", "query") == ["pip requirements-query.lock"]
    assert calls(checkout) == []
    lock.write_text("duckdb==2\n")
    assert calls(checkout) == ["dpkg-query", "pip requirements-query.lock"]
    assert calls(checkout) == []
