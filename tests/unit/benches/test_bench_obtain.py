from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509

from harness import obtain
from harness.obtain import UnavailableError, from_cargo, from_go, from_system
from harness.pki import Authority


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(obtain, "PEERS", tmp_path / "peers")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin:/usr/bin")
    return tmp_path


def test_what_is_not_installed_says_how_to_get_it(peers: Path) -> None:
    with pytest.raises(UnavailableError, match=r"apt-get install no-such-package"):
        from_system("no-such-command", "no-such-package")


def test_a_program_of_the_system_and_its_version(peers: Path) -> None:
    file = program(peers / "path", "thing", "echo Thing 2.6.14 of 2030")
    assert from_system("thing", "thing") == obtain.Program(str(file), "2.6.14")


def test_a_failed_build_gives_its_last_line(peers: Path) -> None:
    program(peers / "path", "go", "echo downloading >&2; echo no such module >&2; exit 1")
    with pytest.raises(UnavailableError, match="go install failed: no such module"):
        from_go("example.org/thing")


def test_without_the_network_an_earlier_build_serves(peers: Path) -> None:
    program(peers / "path", "cargo", "exit 101")
    file = program(peers / "peers" / "bin", "thing-cli", "echo thing-cli 0.7.1")
    assert from_cargo("thing-cli") == obtain.Program(str(file), "0.7.1")


def test_certificates_are_signed_by_their_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("b1")

    issued = x509.load_pem_x509_certificate(certificate.read_bytes())
    issued.verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    )
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["b1"]
    assert issued.not_valid_after_utc < datetime.datetime.now(datetime.UTC) + datetime.timedelta(2)
    assert key.stat().st_mode & 0o077 == 0
