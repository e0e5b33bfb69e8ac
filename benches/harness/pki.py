"""Certificates for peers that need them: one authority, one certificate per branch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """A certificate authority that is valid for a day. Files go to `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = generate_private_key(SECP256R1())
        self._name = _name("Hawser bench")
        basic = x509.BasicConstraints(ca=True, path_length=0)
        builder = _builder(self._name, self._name, self._key).add_extension(basic, critical=True)
        self.certificate = _write(directory / "ca.pem", builder.sign(self._key, hashes.SHA256()))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Issue a client and server certificate for DNS name `name`, with its private key."""
        key = generate_private_key(SECP256R1())
        usage = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        builder = (
            _builder(_name(name), self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(usage, critical=False)
        )
        signed = builder.sign(self._key, hashes.SHA256())
        return _write(self._directory / f"{name}.pem", signed), self._write_key(name, key)

    def _write_key(self, name: str, key: EllipticCurvePrivateKey) -> Path:
        file = self._directory / f"{name}.key"
        file.touch(mode=0o600)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return file


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )


def _write(file: Path, certificate: x509.Certificate) -> Path:
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return file
