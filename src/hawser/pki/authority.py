"""A certificate authority: EC P-256 keys (RFC 5480), certificates for servers and clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hawser.pki.key import key_pem, new_key, read_key

_SKEW = timedelta(hours=1)
"""Clocks of other machines may be behind."""

Name = str | IPv4Address | IPv6Address
"""What a certificate is for: a DNS name or an address."""


@dataclass(frozen=True)
class Authority:
    """A root certificate and the key that signs for it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str, now: datetime, lifetime: timedelta) -> Self:
        """Make a new authority with a self-signed certificate."""
        key = new_key()
        subject = _subject(name)
        builder = _builder(subject, subject, key.public_key(), now, lifetime)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign=False, certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Self:
        """Read an authority from PEM.

        Raises:
            ValueError: it is none.
        """
        return cls(x509.load_pem_x509_certificate(certificate), read_key(key))

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """Its key, not encrypted."""
        return key_pem(self.key)

    def sign(
        self,
        public: ec.EllipticCurvePublicKey,
        names: Sequence[Name],
        now: datetime,
        lifetime: timedelta,
    ) -> x509.Certificate:
        """Certify a key for names, the first of which becomes the subject.

        Whoever asks has shown to hold the key (`request.read_request`).
        """
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        subject = self.certificate.subject
        builder = _builder(_subject(str(names[0])), subject, public, now, lifetime)
        return (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=True, certificates=False), critical=True)
            .add_extension(x509.SubjectAlternativeName(list(map(_general, names))), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )


def pem(certificate: x509.Certificate) -> bytes:
    """Write a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate: 64 hexadecimal digits, as gateways take revoked ones."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def _general(name: Name) -> x509.GeneralName:
    return x509.DNSName(name) if isinstance(name, str) else x509.IPAddress(name)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, sign: bool, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
