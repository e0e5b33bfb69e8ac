"""The tunnels that benches compare: each carries traffic, through its daemons and not beside them.

   a                                                b
  +----------------------+                         +----------------------+
  | tunnel interface     |==== the peer's tunnel ==| tunnel interface     |
  | wan0   198.18.0.1/24 |-------------------------| wan0   198.18.0.2/24 |
  +----------------------+                         +----------------------+

With a hub each branch (b2 to b5) has such a link to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bench import SampleError
from harness.lab import Lab
from harness.machine import ROOT
from harness.obtain import PEERS, UnavailableError, from_system
from harness.traffic import reachable, tcp
from harness.usage import memory_mib
from peers.hawser import gateways, hub
from peers.openvpn import openvpn
from peers.tunnel import Start, Tunnel, bare
from peers.wireguard import wireguard

pytestmark = pytest.mark.root


def built(name: str) -> str:
    """A peer that `make bench-tunnel` has built."""
    binary = PEERS / "bin" / name
    if not binary.exists():
        pytest.skip(f"{name} is not built: make bench-tunnel builds it")
    return str(binary)


def start_openvpn() -> Start:
    try:
        return openvpn(from_system("openvpn", "openvpn").path)
    except UnavailableError as reason:
        pytest.skip(str(reason))


def start_wireguard_go() -> Start:
    return wireguard([built("wireguard"), "--foreground"])


def start_boringtun() -> Start:
    return wireguard([built("boringtun-cli"), "--foreground", "--disable-drop-privileges"])


def gateway() -> str:
    binary = ROOT / "target" / "release" / "hawserd"
    if not binary.exists():
        pytest.skip("hawserd is not built: cargo build --release")
    return str(binary)


def start_plain() -> Start:
    return gateways(gateway(), "mptcp")


def start_encrypted() -> Start:
    return gateways(gateway(), "mptcp+tls")


def start_quic() -> Start:
    return gateways(gateway(), "quic")


def start_ipip() -> Start:
    return gateways(gateway(), "ipip")


@pytest.mark.parametrize(
    "peer",
    [
        start_openvpn,
        start_wireguard_go,
        start_boringtun,
        start_plain,
        start_encrypted,
        start_quic,
        start_ipip,
    ],
)
def test_a_tunnel_carries_traffic_and_ends_with_its_daemons(peer: Callable[[], Start]) -> None:
    start = peer()
    with Lab() as lab:
        a, b = lab.pair()
        tunnel = start(a, b)
        moved = tcp(a, b, tunnel.server, streams=1, seconds=1, daemons=tunnel.daemons)
        assert moved.goodput > 0.01
        assert moved.daemon_cpu > 0
        assert moved.memory > 1
        tunnel.daemons[0].stop()
        assert not reachable(a, tunnel.server)
    assert not list(Path("/var/run/wireguard").glob(f"wg{os.getpid()}n*"))


def test_a_hub_reaches_all_its_branches() -> None:
    with Lab() as lab:
        center = hub(lab, gateway(), "mptcp+tls", branches=4)
        assert len(center.branches) == 4
        assert all(reachable(center.namespace, address) for _, address in center.branches)
        assert 1 < memory_mib(center.gateway.pid) < 1024


def test_the_bare_link_needs_no_daemon() -> None:
    with Lab() as lab:
        a, b = lab.pair()
        assert bare(a, b) == Tunnel("198.18.0.2")
        assert reachable(a, "198.18.0.2")


def test_a_daemon_that_ends_is_a_failed_sample_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho no such cipher\nexit 1\n")
    program.chmod(0o755)
    with Lab() as lab:
        a, b = lab.pair()
        with pytest.raises(SampleError, match="no such cipher"):
            openvpn(str(program))(a, b)
