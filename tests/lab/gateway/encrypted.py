"""Two gateways over one path, encrypted, and their certificates.

b1 198.18.0.1 ==== TLS 1.3 or QUIC ==== 198.18.0.2 b2     (`Lab.direct` of lab/gateway/pair.py)
"""

from __future__ import annotations

from typing import Any

from lab.gateway.pair import Gateway, Lab, pki
from lab.namespace import run
from lab.waiting import until


def encrypted_pair(
    lab: Lab, kind: str = "mptcp"
) -> tuple[Gateway, Gateway, dict[str, dict[str, str]]]:
    """Both gateways, started, in a lab of one path (`Lab.direct`), and their files."""
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway in (one, two):
        gateway.config["transport"] = {"kind": kind, "tls": files[gateway.config["branch"]]}
        gateway.start()
    until(lambda: one.up() and two.up(), "both are up, encrypted")
    return one, two, files


def fingerprint(certificate: str) -> str:
    """As openssl prints it, with colons."""
    text = run("openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", certificate)
    return text.strip().partition("=")[2]


def put(gateway: Gateway, **tls: Any) -> tuple[int, str]:  # noqa: ANN401
    """Put a configuration in force with these fields of `transport.tls`."""
    transport = gateway.config["transport"]
    changed = gateway.config | {"transport": transport | {"tls": transport["tls"] | tls}}
    return gateway.ask("PUT", "/v1/config", changed)
