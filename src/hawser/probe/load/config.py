"""From a measurement to configurations of `hawserd load` (schemas/load-config.schema.json)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from hawser.spec.measurement import Traffic
from hawser.spec.traffic import Addresses, Flows, Sizes

Address = IPv4Address | IPv6Address
Config = dict[str, Any]

_STREAM = "load"


@dataclass(frozen=True)
class Amount:
    """How much is sent, and how fast: frames a second, or as fast as possible."""

    frames: int
    rate: float | None


def stream(
    traffic: Traffic, source: Address, target: Address, next_hop: str, amount: Amount
) -> Config:
    """The stream of a measurement."""
    flows = traffic.flows
    return {
        "name": _STREAM,
        "ethernet": {"destination": next_hop},
        "source": _addresses(flows.source, source),
        "target": _addresses(flows.target, target),
        "source_port": _ports(flows, flows.source_port.first, flows.source_port.count),
        "target_port": _ports(flows, flows.target_port.first, flows.target_port.count),
        "dscp": traffic.dscp,
        "flows": flows.count,
        "sizes": _sizes(traffic.sizes),
        "counted": traffic.counted,
        "rate": "max" if amount.rate is None else {"frames_per_s": amount.rate},
        "amount": {"frames": amount.frames},
    }


def sender(traffic: Traffic, run: int, interface: str, backend: str, sent: Config) -> Config:
    """A daemon that only sends."""
    return {
        "version": 1,
        "run": run,
        "drain_ms": 0,
        "send": {
            "port": {"interface": interface},
            "backend": backend,
            "catch_up_us": max(1, round(traffic.catch_up * 1e6)),
            "traffic": {"streams": [sent]},
        },
    }


def receiver(traffic: Traffic, run: int, interface: str, backend: str, control: str) -> Config:
    """A daemon that only receives, until it is told to stop."""
    flows = traffic.flows
    receive: Config = {
        "port": {"interface": interface},
        "backend": backend,
        "groups": [{"name": _STREAM, "flows": flows.count}],
    }
    if backend == "udp":
        receive["ports"] = _ports(flows, flows.target_port.first, flows.target_port.count)
    return {"version": 1, "run": run, "control": control, "receive": receive}


def both(traffic: Traffic, sent: Config, backend: str, ends: tuple[str, str]) -> Config:
    """A daemon that sends to itself, between the ports `load` of two namespaces."""
    source, target = ends
    config = sender(traffic, 0, "load", backend, sent)
    config["send"]["port"]["netns"] = source
    groups = [{"name": _STREAM, "flows": traffic.flows.count}]
    port = {"interface": "load", "netns": target}
    config["receive"] = {"port": port, "backend": backend, "groups": groups}
    config["drain_ms"] = 100
    return config


def target_addresses(traffic: Traffic, target: Address) -> list[Address]:
    """All addresses that frames go to."""
    wanted = traffic.flows.target or Addresses(first=target)
    return [wanted.first + i for i in range(min(wanted.count, traffic.flows.count))]


def mean_bits(traffic: Traffic) -> float:
    """Mean size of what the measurement counts; letters of RFC 6985 count the check sequence."""
    sizes = traffic.sizes
    if sizes.fixed is not None:
        return 8 * float(sizes.fixed)
    if sizes.mix is not None:
        weights = sum(share.weight for share in sizes.mix)
        return 8 * sum(share.size * share.weight for share in sizes.mix) / weights
    frames = [_LETTERS[letter] for letter in sizes.imix or ""]
    return 8 * (sum(frames) / len(frames) - _FCS + _from_frame(traffic))


_FCS = 4
_LETTERS = dict(
    zip("abcdefghijz", (64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000, 16_000, 1518), strict=True)
)
"""RFC 6985 section 3."""


def _from_frame(traffic: Traffic) -> int:
    """What is added to a frame's length for what is counted."""
    return {"frame": 0, "fcs": _FCS, "ip": -14}[traffic.counted]


def _addresses(chosen: Addresses | None, usual: Address) -> Config:
    chosen = chosen or Addresses(first=usual)
    return {"first": str(chosen.first), "count": chosen.count}


def _ports(flows: Flows, first: int, count: int) -> Config:
    return {"first": first, "count": min(count, flows.count)}


def _sizes(sizes: Sizes) -> Config:
    if sizes.fixed is not None:
        return {"fixed": round(sizes.fixed)}
    if sizes.imix is not None:
        return {"imix": {"genome": sizes.imix}}
    mix = sizes.mix or ()
    return {"weighted": [{"size": round(s.size), "weight": s.weight} for s in mix]}
