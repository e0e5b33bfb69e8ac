#!/usr/bin/env python3
"""Tunnels beside each other on an unlimited link: goodput, CPU, round-trip time, memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from harness.bench import Bench, Measure, Metric, Peer
from harness.cli import Effort, main
from harness.lab import Lab, Namespace
from harness.obtain import from_cargo, from_go, from_system, hawserd
from harness.result import Check, Figure, at_least, at_most
from harness.samples import Samples
from harness.traffic import echo, iperf_goodput, start_tcp, tcp
from harness.usage import memory_mib
from peers.hawser import Transport, gateways, hub, lane
from peers.openvpn import openvpn
from peers.tunnel import Start, Tunnel, bare
from peers.wireguard import wireguard

_BARE, _WIREGUARD = "bare veth", "wireguard-go"
_PLAIN, _TLS, _IPIP = "hawser mptcp", "hawser mptcp tls", "hawser ipip"
_QUIC, _LANE = "hawser quic", "hawser quic lane"
_HELD_QUIC, _HELD_LANE = f"{_QUIC}, half a core", f"{_LANE}, half a core"
_HALF = 0.5
"""Cores of each gateway of these."""
_BRANCHES = 4
_PATHS, _PATH_MBIT = 4, 250

_ABOUT = """\
Two network namespaces joined by an unlimited veth link, both ends on this machine. Each sample sets
the tunnel up anew. iperf3 sends one and four TCP streams between the tunnel's inner addresses for
{seconds} s after one second that does not count. CPU is for one stream: seconds of CPU that moving
a Gbit takes, of the whole machine (iperf3 and both ends included) and of the tunnel's daemons.
Round-trip time is the median of {echoes} pings on the idle link, 10 ms apart; "added" is over bare
veth in the same round. "4 paths": one stream over four links at once, each shaped to {rate} Mbit/s
of Ethernet frames both ways, with a queue of 300 kB. "half a core": a control group holds each
gateway to that, in periods of 10 ms, and nothing else. Memory is the resident set of the largest
daemon: its peak with four streams; and for a gateway with four connected branches, idle and at its
peak while sending to all four. wireguard-go and boringtun: ChaCha20-Poly1305, MTU 1420. openvpn:
UDP, AES-256-GCM, no kernel offload. hawser: IP over one MPTCP connection, MTU 1500, without and
with TLS 1.3; quic is IP in QUIC datagrams, always encrypted, and with its lane TCP of hosts behind
the gateways, terminated there and carried as streams; ipip is plain encapsulation."""

METRICS = (
    Metric("goodput_1", "Gbit/s", "1 stream"),
    Metric("goodput_4", "Gbit/s", "4 streams"),
    Metric("goodput_paths", "Gbit/s", "4 paths"),
    Metric("machine_cpu", "s/Gbit", "CPU, machine"),
    Metric("daemon_cpu", "s/Gbit", "CPU, daemons"),
    Metric("paths_cpu", "s/Gbit", "CPU, daemons, 4 paths"),
    Metric("rtt", "us", "RTT", 0),
    Metric("added_rtt", "us", "added RTT", 0),
    Metric("memory_load", "MiB", "memory, 4 streams", 0),
    Metric("memory_branches_idle", "MiB", "memory, 4 branches idle", 0),
    Metric("memory_branches_load", "MiB", "memory, 4 branches load", 0),
)


def _transfer(
    start: Start, effort: Effort, streams: int, cores: float | None = None
) -> Mapping[str, float]:
    with Lab() as lab:
        a, b = lab.pair()
        tunnel = start(a, b)
        _hold(lab, tunnel, cores)
        return _moved(a, b, tunnel, effort, streams)


def _lane_transfer(
    program: str, effort: Effort, streams: int, cores: float | None = None
) -> Mapping[str, float]:
    with Lab() as lab:
        site = lane(lab, program, lab.pair())
        _hold(lab, site.tunnel, cores)
        return _moved(site.client, site.server, site.tunnel, effort, streams)


def _hold(lab: Lab, tunnel: Tunnel, cores: float | None) -> None:
    """Hold each daemon to so many cores, if there is a limit."""
    if cores is not None:
        for daemon in tunnel.daemons:
            lab.hold(daemon, cores)


def _moved(
    client: Namespace, server: Namespace, tunnel: Tunnel, effort: Effort, streams: int
) -> Mapping[str, float]:
    moved = tcp(
        *(client, server, tunnel.server),
        streams=streams,
        seconds=effort.seconds,
        daemons=tunnel.daemons,
    )
    values = {f"goodput_{streams}": moved.goodput}
    if streams == 1:
        values["machine_cpu"] = moved.machine_cpu
    if streams == 1 and tunnel.daemons:
        values["daemon_cpu"] = moved.daemon_cpu
    if streams > 1 and tunnel.daemons:
        values["memory_load"] = moved.memory
    return values


def _idle(start: Start, effort: Effort) -> Mapping[str, float]:
    with Lab() as lab:
        a, b = lab.pair()
        return {"rtt": median(echo(a, start(a, b).server, count=effort.echoes))}


def _branches(program: str, transport: Transport, effort: Effort) -> Mapping[str, float]:
    with Lab() as lab:
        center = hub(lab, program, transport, _BRANCHES)
        time.sleep(1)  # what the set-up used is given back
        idle = memory_mib(center.gateway.pid)
        transfers = [
            start_tcp(center.namespace, branch, address, streams=1, seconds=effort.seconds)
            for branch, address in center.branches
        ]
        for transfer in transfers:
            iperf_goodput(transfer.wait(effort.seconds + 20))
        load = memory_mib(center.gateway.pid, peak=True)
    return {"memory_branches_idle": idle, "memory_branches_load": load}


def _paths(program: str, effort: Effort, cores: float | None = None) -> Mapping[str, float]:
    with Lab() as lab:
        a, b = _shaped(lab)
        tunnel = gateways(program, "quic", _PATHS)(a, b)
        _hold(lab, tunnel, cores)
        return _over_paths(_moved(a, b, tunnel, effort, 1))


def _lane_paths(program: str, effort: Effort, cores: float | None = None) -> Mapping[str, float]:
    with Lab() as lab:
        site = lane(lab, program, _shaped(lab), _PATHS)
        _hold(lab, site.tunnel, cores)
        return _over_paths(_moved(site.client, site.server, site.tunnel, effort, 1))


def _over_paths(moved: Mapping[str, float]) -> Mapping[str, float]:
    """The values of one stream, as those of four paths."""
    return {"goodput_paths": moved["goodput_1"], "paths_cpu": moved["daemon_cpu"]}


def _shaped(lab: Lab) -> tuple[Namespace, Namespace]:
    """Two namespaces and four shaped links."""
    a, b = lab.pair()
    for _ in range(1, _PATHS):
        lab.link(a, b)
    for end in (a, b):
        for path in range(_PATHS):
            _shape(end, f"wan{path}")
    return a, b


def _shape(end: Namespace, device: str) -> None:
    bucket = ["rate", f"{_PATH_MBIT}mbit", "burst", "32kb", "limit", "300kb"]
    end.run(["tc", "qdisc", "add", "dev", device, "root", "tbf", *bucket])


def cases(start: Start, effort: Effort) -> dict[str, Measure]:
    """Give the measures of every tunnel."""
    return {
        "1 stream": partial(_transfer, start, effort, 1),
        "4 streams": partial(_transfer, start, effort, 4),
        "idle": partial(_idle, start, effort),
    }


def _bare(effort: Effort) -> Peer:
    return Peer(_BARE, cases=cases(bare, effort))


def _wireguard_go(effort: Effort) -> Peer:
    program = from_go("golang.zx2c4.com/wireguard")
    start = wireguard([program.path, "--foreground"])
    return Peer(_WIREGUARD, program.version, cases(start, effort))


def _boringtun(effort: Effort) -> Peer:
    program = from_cargo("boringtun-cli")
    start = wireguard([program.path, "--foreground", "--disable-drop-privileges"])
    return Peer("boringtun", program.version, cases(start, effort))


def _openvpn(effort: Effort) -> Peer:
    program = from_system("openvpn", "openvpn")
    return Peer("openvpn", program.version, cases(openvpn(program.path), effort))


def _hawser(name: str, transport: Transport, effort: Effort) -> Peer:
    program = hawserd()
    measured = cases(gateways(program.path, transport), effort)
    if transport != "ipip":
        measured["4 branches"] = partial(_branches, program.path, transport, effort)
    if transport == "quic":
        measured["4 paths"] = partial(_paths, program.path, effort)
    return Peer(name, program.version, measured)


def _quic_lane(effort: Effort) -> Peer:
    program = hawserd()
    return Peer(_LANE, program.version, lane_cases(program.path, effort))


def lane_cases(program: str, effort: Effort) -> dict[str, Measure]:
    """Give the measures of TCP through the gateways' TCP proxy."""
    return {
        "1 stream": partial(_lane_transfer, program, effort, 1),
        "4 streams": partial(_lane_transfer, program, effort, 4),
        "4 paths": partial(_lane_paths, program, effort),
    }


def _held_quic(effort: Effort) -> Peer:
    program = hawserd()
    start = gateways(program.path, "quic")
    measured = {
        "1 stream": partial(_transfer, start, effort, 1, _HALF),
        "4 paths": partial(_paths, program.path, effort, _HALF),
    }
    return Peer(_HELD_QUIC, program.version, measured)


def _held_lane(effort: Effort) -> Peer:
    program = hawserd()
    measured = {
        "1 stream": partial(_lane_transfer, program.path, effort, 1, _HALF),
        "4 paths": partial(_lane_paths, program.path, effort, _HALF),
    }
    return Peer(_HELD_LANE, program.version, measured)


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _BARE: _bare,
    _WIREGUARD: _wireguard_go,
    "boringtun": _boringtun,
    "openvpn": _openvpn,
    _PLAIN: partial(_hawser, _PLAIN, "mptcp"),
    _TLS: partial(_hawser, _TLS, "mptcp+tls"),
    _QUIC: partial(_hawser, _QUIC, "quic"),
    _LANE: _quic_lane,
    _HELD_QUIC: _held_quic,
    _HELD_LANE: _held_lane,
    _IPIP: partial(_hawser, _IPIP, "ipip"),
}


def _derive(samples: Samples) -> None:
    """Round-trip time relative to a veth pair without a tunnel in the same round."""
    limit = samples.of(_BARE, "rtt")
    for name in _PEERS:
        if name != _BARE:
            for round_, rtt in samples.of(name, "rtt").items():
                if round_ in limit:
                    samples.add(name, round_, {"added_rtt": rtt - limit[round_]})


def _checks(samples: Samples) -> list[Check]:
    def times(metric: str, peer: str, other: str = _WIREGUARD) -> float | None:
        return samples.ratio(metric, peer, other)

    def fast(peer: str, limit: float) -> Check:
        found = times("goodput_1", peer)
        return at_least(f"{peer} / {_WIREGUARD}, 1 stream, at least", found, limit)

    def quick(peer: str) -> Check:
        found = times("added_rtt", peer)
        return at_most(f"{peer} / {_WIREGUARD}, added RTT, at most", found, 0.75)

    def small(peer: str) -> Check:
        found = _relative(samples.largest(peer, "memory_load"), _WIREGUARD, "memory_load", samples)
        return at_most(f"{peer} / {_WIREGUARD}, memory, 4 streams, at most", found, 0.5)

    encrypted = (_PLAIN, _TLS)
    return [
        fast(_PLAIN, 3.0),
        fast(_TLS, 1.5),
        fast(_QUIC, 1.5),
        *map(quick, encrypted),
        *map(small, (*encrypted, _QUIC, _LANE)),
        *(
            at_most(f"{peer}, memory, 4 branches, load / idle, at most", _growth(samples, peer), 4)
            for peer in (*encrypted, _QUIC)
        ),
        *(
            at_least(
                f"{peer}, 4 paths / the lower of their rates and 1 stream, at least",
                _use_of_paths(samples, peer),
                0.9,
            )
            for peer in (_QUIC, _LANE)
        ),
        *(
            at_most(
                f"{peer}, CPU of 4 paths / 1 stream, at most", _cost_of_paths(samples, peer), 1.5
            )
            for peer in (_QUIC, _HELD_QUIC)
        ),
        *(
            at_least(
                f"{peer}, 4 paths / the lower of their rates and 2/3 of 1 stream, at least",
                _use_of_paths(samples, peer, 2 / 3),
                0.8,
            )
            for peer in (_HELD_QUIC, _HELD_LANE)
        ),
    ]


def _growth(samples: Samples, peer: str) -> float | None:
    """Memory of a gateway under load, at most, as a multiple of when it is idle."""
    largest = samples.largest(peer, "memory_branches_load")
    return _relative(largest, peer, "memory_branches_idle", samples)


def _relative(value: float | None, peer: str, metric: str, samples: Samples) -> float | None:
    """A value as a multiple of a median of the same run."""
    median = samples.median(peer, metric)
    return value / median if value is not None and median else None


def _use_of_paths(samples: Samples, peer: str, share: float = 1) -> float | None:
    """Goodput over four paths, relative to their rates or a share of 1 stream, if that is less."""
    paths, one = (samples.median(peer, f"goodput_{which}") for which in ("paths", "1"))
    rates = _PATHS * _PATH_MBIT / 1000
    return paths / min(rates, share * one) if paths is not None and one else None


def _cost_of_paths(samples: Samples, peer: str) -> float | None:
    """CPU time a Gbit over four paths, as a multiple of that over one unlimited path."""
    paths, one = (samples.median(peer, metric) for metric in ("paths_cpu", "daemon_cpu"))
    return paths / one if paths is not None and one else None


def _figures(samples: Samples) -> list[Figure]:
    memory = [
        Figure(
            name=f"{peer}, memory in MiB, {what}, at most",
            value=samples.largest(peer, metric),
            aim=aim,
        )
        for peer, metric, what, aim in (
            *((peer, "memory_branches_idle", "4 branches idle", 64) for peer in (_PLAIN, _TLS)),
            *((peer, "memory_branches_load", "4 branches load", 256) for peer in (_PLAIN, _TLS)),
            *((peer, "memory_load", "4 streams", 256) for peer in (_PLAIN, _TLS)),
            *((peer, "memory_load", "4 streams", 128) for peer in (_QUIC, _LANE)),
            (_QUIC, "memory_branches_load", "4 branches load", 128),
        )
    ]
    added = [
        Figure(
            name=f"{peer}, added RTT in us, at most",
            value=samples.median(peer, "added_rtt"),
            aim=150,
        )
        for peer in (_PLAIN, _TLS)
    ]
    return [*added, *memory]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="tunnel",
        title="Tunnels on an unlimited link",
        about=_ABOUT.format(seconds=effort.seconds, echoes=effort.echoes, rate=_PATH_MBIT),
        metrics=METRICS,
        peers=peers,
        derive=_derive,
        checks=_checks,
        figures=_figures,
    )


TOOLS = (
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("sysctl", "procps"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
)

if __name__ == "__main__":
    sys.exit(main(str(__doc__), TOOLS, _PEERS, _bench))
