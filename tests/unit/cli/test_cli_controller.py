"""`hawser controller` and `hawser gateway`: mistakes, files and what is printed."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.ports import free_ports
from hawser.cli import remote
from hawser.cli.main import main
from hawser.pki.authority import Authority

AUTHORITY = Authority.create("acme", datetime.now(UTC), timedelta(days=1)).pem
NETWORK = """
name: acme
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a], lan: lan0, prefix: 10.1.0.0/24}
ports:
  gw1.a: {address: 192.0.2.2, next_hop: 192.0.2.1}
"""


def hawser(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "network.yaml").write_text(NETWORK)
    (tmp_path / "password").write_text("correct horse battery\n")
    return tmp_path


@pytest.mark.parametrize(
    "group", ["controller", "gateway", "controller audit", "controller alarms"]
)
def test_every_command_has_examples(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser(*group.split(), "--help") == 0
    listed = capsys.readouterr().out.partition("Commands")[2]
    shown = re.findall(r"^\W+([a-z]+) {2,}[A-Z]", listed, re.MULTILINE)
    commands = [name for name in shown if name not in ("audit", "statistics", "alarms")]
    assert len(commands) >= 2
    for name in commands:
        assert hawser(*group.split(), name, "--help") == 0
        assert f"hawser {group} {name}" in capsys.readouterr().out


def test_init_prints_a_one_time_password(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser("controller", "init", files / "acme", "--network", files / "network.yaml") == 0
    printed = capsys.readouterr()
    assert len(printed.out.strip()) == 20
    assert "One-time password of admin" in printed.err
    assert hawser("controller", "init", files / "acme") == 2
    assert "there is a controller already" in capsys.readouterr().err


def test_a_wrong_network_makes_no_controller(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = files / "wrong.yaml"
    wrong.write_text(NETWORK.replace("192.0.2.1}", "192.0.2.2}"))
    assert hawser("controller", "init", files / "acme", "--network", wrong) == 2
    assert "wrong.yaml:8:" in capsys.readouterr().err
    assert not (files / "acme").exists()


def test_backup_and_restore(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    password = ("--password-file", files / "password")
    assert hawser("controller", "init", files / "acme", *password) == 0
    assert capsys.readouterr().out == ""
    assert hawser("controller", "backup", files / "acme", files / "saved") == 0
    first = json.loads(gzip.decompress((files / "saved").read_bytes()).splitlines()[0])
    assert first["hawser_backup"] == 1
    assert hawser("controller", "restore", files / "saved", files / "again") == 0
    assert (files / "again" / "sealing.key").read_bytes() == (
        files / "acme" / "sealing.key"
    ).read_bytes()
    assert hawser("controller", "restore", files / "network.yaml", files / "other") == 2
    assert "this is no backup of a controller" in capsys.readouterr().err
    assert hawser("controller", "backup", files / "nothing", files / "saved") == 2
    assert hawser("controller", "start", files / "nothing") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("init", "acme", "--network", "missing"), "missing: No such file"),
        (("init", "acme", "--password-file", "missing"), "missing: No such file"),
        (("init", "acme", "--password-file", "binary"), "binary: expected text in UTF-8"),
        (("init", "acme", "--password-file", "short"), "password: found 5 characters"),
        (("init", "acme", "--api-port", "65536"), "--api-port"),
        (("init", "acme", "--network-name", "Acme"), "--network-name: "),
        (("init", "acme", "--name", "\u00e9t\u00e9"), "--name: "),
        (("init", "acme", "--admin", "Ann"), "admin: found 'Ann', expected small letters"),
        (("init", "short/acme"), "short/acme: Not a directory"),
        (("init", "acme", "--database", "postgresql://127.0.0.1:1/x"), "does not answer"),
        (("apply", "missing"), "missing: No such file"),
        (("login", "ann", "--password-file", "missing"), "missing: No such file"),
        (("gateways", "--ca", "missing"), "missing: No such file"),
        (("audit", "verify", "missing"), "missing: No such file"),
        (("audit", "verify", "deep"), "deep:1: expected a line of JSON"),
        (("demo", "--api-port", "70000"), "--api-port"),
    ],
)
def test_mistakes_have_a_place(
    arguments: tuple[str, ...],
    message: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (files / "binary").write_bytes(b"\xff")
    (files / "short").write_text("short")
    (files / "deep").write_text("[" * 100_000)
    monkeypatch.chdir(files)
    monkeypatch.setenv("HAWSER_KEY", "hwk_x")
    monkeypatch.setenv("HAWSER_CA", str(files / "ca.pem"))
    (files / "ca.pem").write_bytes(AUTHORITY)
    assert hawser("controller", *arguments) == 2
    assert message in capsys.readouterr().err
    assert hawser("controller", "init", "acme") == 0, "nothing was left half done"


def test_a_port_that_is_taken(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert hawser("controller", "init", files / "acme", "--gateways-port", port) == 0
        assert hawser("controller", "start", files / "acme") == 2
    assert f"127.0.0.1:{port}: Address already in use\n" in capsys.readouterr().err


def test_a_damaged_backup_leaves_nothing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser("controller", "init", files / "acme") == 0
    assert hawser("controller", "backup", files / "acme", files / "saved") == 0
    whole = gzip.decompress((files / "saved").read_bytes())
    for row in ({"table": "x", "row": {}}, {"table": "audit", "row": {"number": "x"}}, {}):
        damaged = gzip.compress(whole + json.dumps(row).encode())
        (files / "damaged").write_bytes(damaged)
        assert hawser("controller", "restore", files / "damaged", files / "again") == 2
        assert "damaged: this is no backup of a controller: " in capsys.readouterr().err
    assert hawser("controller", "restore", files / "saved", files / "again") == 0
    assert hawser("controller", "backup", files / "acme", files / "missing" / "saved") == 2


def test_who_asks_needs_a_key_and_an_authority(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HAWSER_KEY", raising=False)
    monkeypatch.delenv("HAWSER_CA", raising=False)
    assert hawser("controller", "gateways") == 2
    assert "HAWSER_KEY" in capsys.readouterr().err
    monkeypatch.setenv("HAWSER_KEY", "hwk_x")
    assert hawser("controller", "gateways") == 2
    assert "--ca FILE" in capsys.readouterr().err
    assert hawser("controller", "gateways", "--ca", files / "password") == 2
    assert "found no certificate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("join", "https://192.0.2.1", "x"), "expected a token as the controller shows it"),
        (("run",), "this gateway has not joined a network"),
        (("join", "http://x", f"{'0' * 12}.{'x' * 43}.{'y' * 43}"), "expected an address such as"),
    ],
)
def test_mistakes_of_gateways(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HAWSER_GATEWAY", str(tmp_path / "gateway"))
    assert hawser("gateway", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_controller_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = f"{'0' * 12}.{'x' * 43}.{'y' * 43}"
    directory = ("--directory", tmp_path / "gateway")
    assert hawser("gateway", "join", "https://127.0.0.1:9", token, *directory) == 1
    assert "127.0.0.1:9: " in capsys.readouterr().err


def test_wait_for_a_controller_that_starts(
    files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, gateways = free_ports(2)
    password = ("--password-file", files / "password")
    ports = ("--api-port", api, "--gateways-port", gateways)
    assert hawser("controller", "init", files / "acme", *password, *ports) == 0
    where = ("--controller", f"https://127.0.0.1:{api}", "--ca", files / "acme" / "ca.pem")
    login = ("controller", "login", "admin", *password, *where, "--wait")
    monkeypatch.setattr(remote, "_START_S", 0.1)
    assert hawser(*login) == 2
    assert "ca.pem: No such file" in capfd.readouterr().err
    monkeypatch.setattr(remote, "_START_S", 120.0)
    start = [sys.executable, "-m", "hawser.cli", "controller", "start", str(files / "acme")]
    with subprocess.Popen(start) as controller:
        try:
            assert hawser(*login) == 0
            assert capfd.readouterr().out.strip()
        finally:
            controller.terminate()
    monkeypatch.setattr(remote, "_START_S", 0.1)
    assert hawser(*login) == 1
    assert "Connection refused" in capfd.readouterr().err
