"""OpenVPN 2.6, point to point, with defaults: TLS, AES-256-GCM, UDP, no kernel offload (DCO)."""

from __future__ import annotations

from harness.lab import Daemon, Namespace
from harness.pki import Authority
from peers.tunnel import Start, Tunnel, wait_until_up

_CLIENT, _SERVER = ("198.18.0.1", "10.9.0.1"), ("198.18.0.2", "10.9.0.2")


def openvpn(program: str) -> Start:
    """A tunnel between two OpenVPN processes."""

    def start(client: Namespace, server: Namespace) -> Tunnel:
        authority = Authority(client.directory)
        b = _start(program, server, authority, "server", _SERVER, _CLIENT)
        a = _start(program, client, authority, "client", _CLIENT, _SERVER)
        wait_until_up(client, _SERVER[1], a, b)
        return Tunnel(_SERVER[1], (a, b))

    return start


def _start(
    program: str,
    namespace: Namespace,
    authority: Authority,
    role: str,
    own: tuple[str, str],
    other: tuple[str, str],
) -> Daemon:
    certificate, key = authority.issue(role)
    tls = ["--tls-server", "--dh", "none"] if role == "server" else ["--tls-client"]
    return namespace.start(
        [
            program,
            *("--dev", "tun", "--proto", "udp", "--local", own[0], "--remote", other[0]),
            *("--ifconfig", own[1], other[1]),
            *("--ca", str(authority.certificate), "--cert", str(certificate), "--key", str(key)),
            *("--data-ciphers", "AES-256-GCM", "--cipher", "AES-256-GCM", "--disable-dco"),
            *tls,
        ]
    )
