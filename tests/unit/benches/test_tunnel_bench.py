from __future__ import annotations

import pytest

import tunnel
from harness.samples import Samples

PEERS = ("hawser mptcp", "hawser mptcp tls")
HELD = ("hawser quic, half a core", "hawser quic lane, half a core")


def good() -> dict[tuple[str, str], float]:
    """Everything at its limit: ratios within the run."""
    values = {("wireguard-go", "goodput_1"): 2.0, ("bare veth", "rtt"): 20.0}
    values |= {("wireguard-go", "rtt"): 420.0, ("wireguard-go", "memory_load"): 400.0}
    for peer, goodput in zip(PEERS, (6.0, 3.0), strict=True):
        values[peer, "goodput_1"] = goodput
        values[peer, "rtt"] = 320.0
        values[peer, "memory_load"] = 200.0
        values[peer, "memory_branches_idle"] = 64.0
        values[peer, "memory_branches_load"] = 256.0
    quic = {"goodput_1": 3.0, "goodput_paths": 0.9, "memory_load": 200.0}
    lane = {("hawser quic lane", metric): value for metric, value in quic.items()}
    quic |= {"memory_branches_idle": 64.0, "memory_branches_load": 256.0}
    cost = {"daemon_cpu": 0.25, "paths_cpu": 0.375}
    half = {"goodput_1": 1.5, "goodput_paths": 0.8} | cost
    held = {(peer, metric): value for peer in HELD for metric, value in half.items()}
    quic |= cost
    return values | lane | held | {("hawser quic", metric): value for metric, value in quic.items()}


def sampled(values: dict[tuple[str, str], float]) -> Samples:
    samples = Samples(5)
    for (peer, metric), value in values.items():
        for round_ in range(5):
            samples.add(peer, round_, {metric: value})
    tunnel._derive(samples)
    return samples


def test_all_hold_at_their_limits() -> None:
    checks = tunnel._checks(sampled(good()))
    assert all(check.ok for check in checks)
    assert len(checks) == 18


@pytest.mark.parametrize(
    ("peer", "metric", "value", "check"),
    [
        ("hawser mptcp", "goodput_1", 5.99, "hawser mptcp / wireguard-go"),
        ("hawser mptcp tls", "goodput_1", 2.99, "hawser mptcp tls / wireguard-go"),
        ("hawser mptcp", "rtt", 320.1, "added RTT"),
        ("hawser mptcp tls", "memory_branches_idle", 63.9, "4 branches"),
        ("hawser mptcp", "memory_branches_load", 256.1, "4 branches"),
        ("hawser mptcp tls", "memory_load", 200.1, "4 streams"),
        ("hawser quic", "goodput_1", 2.99, "hawser quic / wireguard-go"),
        ("hawser quic", "goodput_paths", 0.899, "4 paths"),
        ("hawser quic", "memory_load", 200.1, "4 streams"),
        ("hawser quic", "memory_branches_load", 256.1, "4 branches"),
        ("hawser quic lane", "goodput_paths", 0.899, "4 paths"),
        ("hawser quic lane", "memory_load", 200.1, "4 streams"),
        ("hawser quic", "paths_cpu", 0.376, "CPU of 4 paths"),
        (HELD[0], "paths_cpu", 0.376, "CPU of 4 paths"),
        (HELD[0], "goodput_paths", 0.799, "2/3 of 1 stream"),
        (HELD[1], "goodput_paths", 0.799, "2/3 of 1 stream"),
    ],
)
def test_each_fails_beyond_its_limit(peer: str, metric: str, value: float, check: str) -> None:
    failed = [c for c in tunnel._checks(sampled({**good(), (peer, metric): value})) if not c.ok]
    assert len(failed) == 1
    assert failed[0].name.startswith(peer)
    assert check in failed[0].name


def test_memory_is_judged_by_the_largest_sample() -> None:
    samples = sampled({key: v for key, v in good().items() if key[1] != "memory_load"})
    for peer in (*PEERS, "hawser quic", "hawser quic lane"):
        for round_ in range(5):
            samples.add(peer, round_, {"memory_load": 300.0 if round_ == 4 else 100.0})
    assert sum(not check.ok for check in tunnel._checks(samples)) == 4


def test_without_the_peer_no_claim_holds() -> None:
    without = {key: value for key, value in good().items() if key[0] != "wireguard-go"}
    failed = [check for check in tunnel._checks(sampled(without)) if not check.ok]
    assert [check.value for check in failed] == [None] * 9


def test_a_slow_machine_is_judged_by_what_it_can_carry() -> None:
    """One stream carries less than the paths' rates together: that is the limit then."""
    slow = {("hawser quic", "goodput_1"): 0.8, ("hawser quic", "goodput_paths"): 0.73}
    slow[("wireguard-go", "goodput_1")] = 0.5
    slow |= {(peer, "goodput_1"): 0.9 for peer in HELD}
    slow |= {(peer, "goodput_paths"): 0.49 for peer in HELD}
    assert all(check.ok for check in tunnel._checks(sampled({**good(), **slow})))


def test_added_time_is_over_bare_in_the_same_round() -> None:
    samples = Samples(2)
    for round_, (bare, rtt) in enumerate([(20.0, 100.0), (40.0, 100.0)]):
        samples.add("bare veth", round_, {"rtt": bare})
        samples.add("openvpn", round_, {"rtt": rtt})
    tunnel._derive(samples)
    assert samples.of("openvpn", "added_rtt") == {0: 80.0, 1: 60.0}
