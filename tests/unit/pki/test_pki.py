"""The authority, requests, sealed secrets and private files."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from hawser.pki.authority import Authority, fingerprint, pem
from hawser.pki.file import create_private, replace_private
from hawser.pki.key import key_pem, new_key, read_key
from hawser.pki.request import LONGEST, key_id, new_request, read_request
from hawser.pki.seal import new_sealing_key, seal, unseal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_openssl_verifies_what_the_authority_signs(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = Authority.create("acme", now, 10 * DAY)
    key = read_request(new_request(new_key(), "whoever"))
    names = ["controller.hawser.internal", IPv4Address("192.0.2.1")]
    signed = authority.sign(key, names, now, DAY)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "b1.pem").write_bytes(pem(signed))
    command = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", "-verify_hostname"]
    done = subprocess.run(
        [*command, names[0], "b1.pem"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done
    shown = ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", "b1.pem"]
    text = subprocess.run(shown, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert text.strip().partition("=")[2].replace(":", "").lower() == fingerprint(signed)


def test_an_authority_is_read_back() -> None:
    authority = Authority.create("acme", NOW, DAY)
    again = Authority.load(authority.pem, authority.key_pem)
    assert again.certificate == authority.certificate
    assert again.key_pem == authority.key_pem
    with pytest.raises(ValueError, match="EC key"):
        read_key(_rsa_pem())


def _rsa_pem() -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def test_a_request_shows_its_key() -> None:
    key = new_key()
    assert key_id(read_request(new_request(key, "b1"))) == key_id(key.public_key())
    assert read_key(key_pem(key)).private_numbers() == key.private_numbers()


def _request(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_other_keys_are_refused() -> None:
    for key in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)):
        with pytest.raises(ValueError, match=r"expected one of EC P-256"):
            read_request(_request(key))
    with pytest.raises(ValueError, match="at most"):
        read_request(b"x" * (LONGEST + 1))


def test_a_request_signed_by_another_key_is_refused() -> None:
    der = bytearray(
        x509.load_pem_x509_csr(new_request(new_key(), "b1")).public_bytes(
            serialization.Encoding.DER
        )
    )
    der[-1] ^= 1  # the last byte of the signature
    changed = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(ValueError, match="not signed by its own key"):
        read_request(changed)


@given(st.binary(max_size=600))
def test_what_is_no_request_is_refused(text: bytes) -> None:
    for each in (text, b"-----BEGIN CERTIFICATE REQUEST-----\n" + text):
        with pytest.raises(ValueError, match="found no certificate signing request"):
            read_request(each)


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(1, 255))
def test_a_changed_secret_does_not_open(secret: bytes, place: int, flip: int) -> None:
    key = new_sealing_key()
    sealed = bytearray(seal(key, "authority", secret))
    assert unseal(key, "authority", bytes(sealed)) == secret
    sealed[place % len(sealed)] ^= flip
    with pytest.raises(ValueError, match="does not open"):
        unseal(key, "authority", bytes(sealed))


def test_a_secret_opens_under_its_name_and_key_alone() -> None:
    key = new_sealing_key()
    sealed = seal(key, "one", b"secret")
    for other, name in ((key, "two"), (new_sealing_key(), "one")):
        with pytest.raises(ValueError, match="does not open"):
            unseal(other, name, sealed)
    with pytest.raises(ValueError, match="does not open"):
        unseal(key, "one", b"")


def test_private_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_private(path, b"one")
    with pytest.raises(FileExistsError):
        create_private(path, b"two")
    replace_private(path, b"three")
    assert path.read_bytes() == b"three"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]
