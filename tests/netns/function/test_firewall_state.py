"""What a firewall lets pass beside what its rules name: real traffic under default deny.

client 10.0.0.1 ---- sff ---- 10.0.0.2 server
                      |
                     f1: firewall         (drawn in lab/function/chain.py)
"""

from __future__ import annotations

import socket

import pytest

from hawser.node.netns import namespace
from lab.function.chain import Chain, Node
from lab.traffic.chains import kernel_counts, ping_all
from lab.traffic.counted import DISCARD, deliver_between
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

_OUTWARDS = {"source": "10.0.0.1/32", "action": "allow"}
_SIZE = 4000
"""Of a ping: three fragments."""


def _closed(chain: Chain, **remember: object) -> Node:
    """A firewall that lets the client begin, and denies everything else."""
    firewall = chain.firewall(1, otherwise="deny", remember=remember)
    chain.start()
    assert firewall.call("POST", "/v1/rules", _OUTWARDS)[0] == 201
    return firewall


def test_tcp_and_fragments_pass_both_ways() -> None:
    with Chain(1, start=False) as chain:
        firewall = _closed(chain)
        client, server = chain.namespace("client"), chain.namespace("server")
        deliver_between(client, server, "10.0.0.2", 4_000_000)
        ping = ["ping", "-q", "-c", "5", "-i", "0.05", "-s", str(_SIZE), "-W", str(int(PATIENCE))]
        assert "5 received" in chain.at("client", *ping, "10.0.0.2")
        assert kernel_counts(server, "Ip")["ReasmOKs"] == 5
        assert sum(firewall.counters()["drops"].values()) == 0


def test_icmp_errors_reach_the_sender_they_are_about() -> None:
    with Chain(1, start=False) as chain:
        _closed(chain)
        link = namespace.inside(
            chain.namespace("client"), lambda: socket.socket(type=socket.SOCK_DGRAM)
        )
        with link:
            link.settimeout(PATIENCE)
            link.connect(("10.0.0.2", DISCARD))
            link.send(b"to a closed port")
            with pytest.raises(ConnectionRefusedError):
                link.recv(1)


@pytest.mark.parametrize("picks_up", [False, True])
def test_a_restart_ends_connections_unless_they_may_be_picked_up(picks_up: bool) -> None:
    with Chain(1, start=False) as chain:
        firewall = _closed(chain, pick_up=picks_up)
        with _connected(chain) as (here, there):
            firewall.stop(9)
            firewall.start()
            here.send(b"x")
            if picks_up:
                assert there.recv(1) == b"x"
                there.send(b"y")
                assert here.recv(1) == b"y"
            else:
                until(lambda: firewall.counters()["drops"]["tcp_state"] > 0)
        assert ping_all(chain.namespace("client"), "10.0.0.2", 2) == 2


class _connected:  # noqa: N801 (a context)
    """A TCP connection from client to server."""

    def __init__(self, chain: Chain) -> None:
        listener = namespace.inside(
            chain.namespace("server"), lambda: socket.create_server(("10.0.0.2", 0))
        )
        with listener:
            self._here = namespace.inside(
                chain.namespace("client"),
                lambda: socket.create_connection(listener.getsockname(), PATIENCE),
            )
            self._there, _ = listener.accept()
        self._there.settimeout(PATIENCE)

    def __enter__(self) -> tuple[socket.socket, socket.socket]:
        return self._here, self._there

    def __exit__(self, *_: object) -> None:
        self._here.close()
        self._there.close()
