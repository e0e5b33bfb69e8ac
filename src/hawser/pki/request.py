"""Certificate signing requests (RFC 2986): who asks shows that it holds the key."""

from __future__ import annotations

from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LONGEST = 4096
"""Bytes of a request; one with a P-256 key has 500."""


def new_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Ask for a certificate of a key, as PEM. The authority decides on the names in it."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def read_request(text: bytes) -> ec.EllipticCurvePublicKey:
    """Give the key that a request is for.

    Raises:
        ValueError: it is no request, its key is not P-256, or its signature is not by that key.
    """
    if len(text) > LONGEST:
        raise ValueError(f"found {len(text)} bytes, expected at most {LONGEST}")
    try:
        request = x509.load_pem_x509_csr(text)
        public, signed = request.public_key(), request.is_signature_valid
    except Exception as error:  # cryptography has several kinds for malformed input
        raise ValueError("found no certificate signing request in PEM form") from error
    if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name != "secp256r1":
        raise ValueError("found another key, expected one of EC P-256")
    if not signed:
        raise ValueError("the request is not signed by its own key")
    return public


def key_id(public: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key: the same for all requests and certificates of one key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()
