"""`hawser controller` and `hawser gateway`: mistakes, files and what is printed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hawser.cli.main import main

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
