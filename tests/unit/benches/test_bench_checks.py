"""A machine half as fast as ours breaks no bench: ratios are judged, absolute figures are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import ModuleType

import pytest

import chain
import load
import switch
import tunnel
import wan
from harness.bench import Bench
from harness.cli import Effort
from harness.samples import Samples

ROUNDS = 5
EFFORT = Effort(rounds=ROUNDS, seconds=1, echoes=1, partial=True)
Figures = Mapping[str, Mapping[str, float]]

LOAD: Figures = {
    "bare live frames": {"received": 7.92},
    "hawser load": {"received": 5.04, "lost": 0.0, "rate_error": 0.00125},
}
WAN: Figures = {
    "wake-ups of a timer": {"delay_error_p50": 22.0, "delay_error_p99": 108.0},
    "hawserd wan": {
        "delay_error_p50": 41.0,
        "delay_error_p99": 102.0,
        "rate_held": 1250.0,
        "fast_loss": 0.0,
        "tcp_rate": 99.98,
    },
}
CHAIN: Figures = {
    "bare XDP redirects": {"rate_64_1": 3.3, "rate_64_6": 1.1, "rate_64_11": 0.6}
    | {"rate_1462_1": 3.2, "rate_1462_6": 1.1, "rate_1462_11": 0.6},
    "hawser function": {"rate_64_1": 2.5, "rate_64_6": 0.8, "rate_64_11": 0.42}
    | {"rate_1462_1": 2.4, "rate_1462_6": 0.8, "rate_1462_11": 0.42}
    | {"most_64": 2.6, "most_1462": 2.5, "rtt_slope": 0.8, "rtt_r2": 0.994},
    "Open vSwitch, NSH": {"rate_64_1": 0.1, "most_64": 0.12, "most_1462": 0.12},
    "Python, fields": {"rate_64_1": 0.011},
    "hawser firewall, 10 rules": {"rate_64_1": 2.4},
    "hawser firewall, 100 000 rules": {"rate_64_1": 2.3},
}
SWITCH: Figures = {
    "kernel IP forwarding": {"packets": 1.16, "goodput": 13.15},
    "hawser bpf": {"packets": 1.11, "goodput": 12.4},
    "hawser bpf, full table": {"packets": 1.21, "goodput": 12.3, "load": 0.19, "missing": 0.0},
    "Open vSwitch, userspace": {"packets": 0.15, "goodput": 0.93},
}
TUNNEL: Figures = {
    "wireguard-go": {"goodput_1": 2.47, "added_rtt": 396, "memory_load": 374},
    "hawser mptcp": {"goodput_1": 11.5, "added_rtt": 194, "memory_load": 18}
    | {"memory_branches_idle": 17, "memory_branches_load": 19},
    "hawser mptcp tls": {"goodput_1": 8.5, "added_rtt": 208, "memory_load": 20}
    | {"memory_branches_idle": 19, "memory_branches_load": 22},
    "hawser quic": {"goodput_1": 4.2, "goodput_paths": 0.925, "memory_load": 23}
    | {"memory_branches_idle": 20, "memory_branches_load": 27}
    | {"daemon_cpu": 0.35, "paths_cpu": 0.5},
    "hawser quic lane": {"goodput_1": 3.85, "goodput_paths": 0.952, "memory_load": 123},
    "hawser quic, half a core": {"goodput_1": 2.4, "goodput_paths": 0.925}
    | {"daemon_cpu": 0.35, "paths_cpu": 0.5},
    "hawser quic lane, half a core": {"goodput_1": 2.2, "goodput_paths": 0.95},
}
BENCHES = ((load, LOAD), (wan, WAN), (chain, CHAIN), (switch, SWITCH), (tunnel, TUNNEL))
SLOWER = ("delay_error", "added_rtt", "rtt_slope", "daemon_cpu", "paths_cpu")
FASTER = (
    "received",
    "packets",
    "goodput_1",
    "goodput",
    "rate_64",
    "rate_1462",
    "most",
    "rate_held",
)


def scaled(metric: str, value: float, speed: float) -> float:
    """What a machine of another speed would have measured."""
    if metric == "load" or metric.startswith(SLOWER):
        return value / speed
    exact = metric in ("goodput_paths", "rate_error")
    return value * speed if metric.startswith(FASTER) and not exact else value


def judged(module: ModuleType, figures: Figures, speed: float) -> tuple[Bench, Samples]:
    noise, samples = random.Random(1), Samples(ROUNDS)  # noqa: S311 (noise, not a secret)
    for peer, values in figures.items():
        for round_ in range(ROUNDS):
            found = {m: scaled(m, v, speed) * noise.uniform(0.99, 1.01) for m, v in values.items()}
            samples.add(peer, round_, found)
    make: Callable[..., Bench] = module._bench
    return make(EFFORT, ()), samples


@pytest.mark.parametrize(
    ("module", "figures"), BENCHES, ids=lambda each: getattr(each, "__name__", "")
)
@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_the_speed_of_the_machine_is_not_judged(
    module: ModuleType, figures: Figures, speed: float
) -> None:
    bench, samples = judged(module, figures, speed)
    assert [check for check in bench.checks(samples) if not check.ok] == []
    assert all(figure.value is not None for figure in bench.figures(samples))


@pytest.mark.parametrize(
    ("peer", "changed", "check"),
    [
        ("hawser quic", {"paths_cpu": 0.6}, "CPU of 4 paths / 1 stream"),
        ("hawser quic, half a core", {"paths_cpu": 0.6}, "CPU of 4 paths / 1 stream"),
        ("hawser quic, half a core", {"goodput_paths": 0.7}, "2/3 of 1 stream"),
        (
            "hawser quic lane, half a core",
            {"goodput_1": 1.2, "goodput_paths": 0.6},
            "2/3 of 1 stream",
        ),
    ],
)
def test_paths_that_cost_too_much_are_noticed(
    peer: str, changed: Mapping[str, float], check: str
) -> None:
    bench, samples = judged(tunnel, {**TUNNEL, peer: {**TUNNEL[peer], **changed}}, 1.0)
    (failed,) = (each.name for each in bench.checks(samples) if not each.ok)
    assert failed.startswith(f"{peer}, ")
    assert check in failed


@pytest.mark.parametrize(
    ("module", "figures"), BENCHES, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_hawser_half_as_fast_as_before_is_noticed(module: ModuleType, figures: Figures) -> None:
    slower = {
        peer: {m: scaled(m, v, 0.3) for m, v in values.items()} if "hawser" in peer else values
        for peer, values in figures.items()
    }
    bench, samples = judged(module, slower, 1.0)
    assert any(not check.ok for check in bench.checks(samples))
