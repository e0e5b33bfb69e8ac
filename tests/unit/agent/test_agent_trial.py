"""Judging new configurations, on a clock of the test's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hawser.agent.trial import PATIENCE_S, SETTLE_S, Trial, Verdict
from hawser.control.model import GatewayStatus, PeerStatus


def status(*, ready: bool = True, **up: bool) -> GatewayStatus:
    peers = tuple(PeerStatus(branch=name, up=each) for name, each in up.items())
    return GatewayStatus(
        role="gateway", branch="b1", version="1", uptime_s=1, ready=ready, peers=peers
    )


def test_the_first_configuration_needs_a_ready_daemon_and_the_controller() -> None:
    trial = Trial.begin(0, None, ["b2"], ["b2"])
    assert trial.judge(0, None) is Verdict.WAIT
    assert trial.judge(1, status(ready=False)) is Verdict.WAIT
    assert trial.judge(2, status(b2=False)) is Verdict.ASK
    trial.confirmed = True
    assert trial.judge(2.1, status(b2=False)) is Verdict.KEEP


def test_who_was_reached_has_to_be_reached_for_a_while() -> None:
    trial = Trial.begin(0, status(b2=True, b3=False), ["b2", "b3"], ["b2", "b3"])
    trial.confirmed = True
    assert trial.judge(0, status(b2=True)) is Verdict.WAIT
    assert trial.judge(SETTLE_S - 0.1, status(b2=True)) is Verdict.WAIT
    assert trial.judge(SETTLE_S, status(b2=True)) is Verdict.KEEP


def test_a_branch_that_is_cut_off_returns() -> None:
    trial = Trial.begin(0, status(b2=True, b3=True), ["b2", "b3"], ["b2", "b3"])
    trial.confirmed = True
    assert trial.judge(1, status(b2=True)) is Verdict.WAIT
    for second in range(2, int(PATIENCE_S)):
        assert trial.judge(second, status(b2=False, b3=False)) is Verdict.WAIT
    assert trial.judge(PATIENCE_S, status(b2=False)) is Verdict.RETURN
    assert trial.reason == "b2, b3: reached before, and not any more"


def test_what_paths_wait_for_is_told_once() -> None:
    path = {"member": 0, "reason": "no IPv4 address on wan0"}
    groups = [{"id": number, "up": False, "waiting": [path]} for number in range(2)]
    peer = {"branch": "b2", "up": False, "groups": groups}
    found = status().model_dump() | {"peers": [peer]}
    cut_off = GatewayStatus.model_validate(found)
    trial = Trial.begin(0, status(b2=True), ["b2"], ["b2"])
    assert trial.judge(PATIENCE_S, cut_off) is Verdict.RETURN
    lacking = "no IPv4 address on wan0"
    assert trial.reason == f"b2: reached before, and not any more ({lacking})"
    assert cut_off.lacks == f"not connected to b2 (group 0), b2 (group 1): {lacking}"


def test_without_the_controller_it_returns() -> None:
    trial = Trial.begin(0, None, [], [])
    assert trial.judge(PATIENCE_S - 1, status()) is Verdict.ASK
    assert trial.judge(PATIENCE_S, status()) is Verdict.RETURN
    assert trial.reason == "the controller did not confirm it"


def test_peers_that_should_not_be_reached_any_more_do_not_count() -> None:
    before = status(b2=True, b3=True, b4=True)
    trial = Trial.begin(0, before, ["b2", "b3"], ["b3"])  # b4 was removed, b2 revoked
    assert trial.before == {"b3"}
    assert Trial.begin(0, before, ["b2"], []).judge(0, status(b2=False)) is Verdict.ASK


_STATUS = st.none() | st.builds(
    lambda ready, two, three: status(ready=ready, b2=two, b3=three),
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


@given(_STATUS, st.lists(st.tuples(st.floats(0.01, 3), _STATUS, st.booleans()), max_size=40))
def test_what_is_kept_was_confirmed_and_healthy(
    before: GatewayStatus | None, steps: list[tuple[float, GatewayStatus | None, bool]]
) -> None:
    trial, now, verdict = Trial.begin(0, before, ["b2", "b3"], ["b2", "b3"]), 0.0, Verdict.WAIT
    for step, found, confirmed in steps:
        now += step
        trial.confirmed |= confirmed
        verdict = trial.judge(now, found)
        if verdict is Verdict.KEEP:
            assert trial.confirmed
            assert found is not None
            assert found.ready
            up = {peer.branch for peer in found.peers if peer.up}
            assert not trial.before or trial.before & up
        assert verdict in (Verdict.KEEP, Verdict.RETURN) or now < PATIENCE_S
        if verdict in (Verdict.KEEP, Verdict.RETURN):
            break
