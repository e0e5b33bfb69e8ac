"""Attacks without a lab: schedules by the seed, command lines within bounds, hosts apart."""

from __future__ import annotations

import threading
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.driver.capabilities import missing_tools
from hawser.probe.attacks import beside, clients
from hawser.probe.attacks.attackers import Attack, tools_of
from hawser.probe.attacks.host import Host, Stopped
from hawser.probe.attacks.recorder import Pair, Recorder
from hawser.probe.attacks.schedule import Free, episodes, seeded
from hawser.spec.attack import Application, AttackKind, Attacks, least_duration
from hawser.store.labels import Flow, Labels, read

TARGET = "10.255.0.2"


def attacks(**given: object) -> Attacks:
    return Attacks.model_validate({"from": ["c1", "c2", "c3"], "to": ["s1", "s2"], **given})


@st.composite
def described(draw: st.DrawFn) -> Attacks:
    kinds = draw(st.lists(st.sampled_from([*AttackKind]), max_size=12))
    hosts = [f"c{number}" for number in range(draw(st.integers(1, 5)))]
    given = {"from": hosts, "kinds": kinds, "episodes": draw(st.integers(1, 3))}
    made = attacks(**given, seed=draw(st.integers(0, 1000)))
    seconds = max(10.0, least_duration(made)) + draw(st.integers(0, 100))
    return attacks(**given, seed=made.seed, duration=f"{seconds} s")


@given(described())
def test_every_attack_is_made_once_and_no_host_is_in_two_places(given: Attacks) -> None:
    found = episodes(given)
    assert sorted(one.kind for one in found) == sorted([*given.kinds] * given.episodes)
    assert {one.target for one in found} <= set(given.target)
    for host in given.source:
        quiet = [one.quiet for one in found if one.source == host]
        assert all(first >= -1e-6 and last <= given.duration + 1e-6 for first, last in quiet)
        assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(quiet))


def test_attackers_attack_and_others_do_not() -> None:
    given = attacks(attackers=["c2"], duration="120 s")
    assert {one.source for one in episodes(given)} == {"c2"}
    assert given.clients == ("c1", "c3")
    assert attacks().clients == attacks().attacking == ("c1", "c2", "c3")


def test_the_seed_decides_and_nothing_else() -> None:
    assert episodes(attacks(seed=1)) == episodes(attacks(seed=1))
    one, two = episodes(attacks(seed=1)), episodes(attacks(seed=2))
    assert [e.kind for e in one] != [e.kind for e in two]
    assert [(e.kind, e.source) for e in one] != [(e.kind, e.source) for e in two]


@given(described(), st.floats(0, 200), st.floats(0.1, 10))
def test_benign_sessions_keep_clear_of_attacks(given: Attacks, now: float, seconds: float) -> None:
    found = episodes(given)
    begin = Free(found, "c0", float(given.duration)).begin(now, seconds)
    if begin is None:
        return
    assert now <= begin
    assert begin + seconds <= given.duration
    for one in found:
        if one.source == "c0":
            assert begin + seconds <= one.quiet[0] or begin >= one.quiet[1]


@pytest.mark.parametrize("kind", AttackKind)
@given(st.integers(0, 50), st.integers(10, 10_000))
def test_commands_name_the_target_alone_and_keep_the_rate(
    kind: AttackKind, seed: int, rate: int
) -> None:
    chosen = tools_of(kind, Attack(TARGET, 4.0, rate, seeded(seed)))
    again = tools_of(kind, Attack(TARGET, 4.0, rate, seeded(seed)))
    assert chosen == again
    text = " ".join((*chosen.command, *(file.decode("latin-1") for file in chosen.files.values())))
    assert TARGET in text
    urls = [word for word in text.replace('"', " ").split() if word.startswith("http")]
    assert all(url.startswith(f"http://{TARGET}/") for url in urls)
    if chosen.command[0] == "hping3":
        count = int(chosen.command[chosen.command.index("-c") + 1])
        gap = int(chosen.command[chosen.command.index("-i") + 1].removeprefix("u"))
        assert count <= 4 * rate + 1
        assert 1e6 / gap <= rate * 1.01
    if chosen.command[0] == "nmap":
        assert int(chosen.command[chosen.command.index("--max-rate") + 1]) == rate


@pytest.mark.parametrize("application", Application)
@given(st.integers(0, 200))
def test_sessions_of_an_application_differ_by_the_seed(application: Application, seed: int) -> None:
    folder = Path("/lab/c1")
    one = clients.session(application, TARGET, folder, seeded(seed))
    assert one == clients.session(application, TARGET, folder, seeded(seed))
    assert one.command[0] in clients.PROGRAMS[application]
    assert any(TARGET in word for word in one.command)
    assert one.think >= 0


def test_a_host_attacks_or_is_benign() -> None:
    stop, inside, order = threading.Event(), threading.Event(), []
    host = Host(stop)

    def attack() -> None:
        inside.wait(10)
        with host.alone():
            order.append("attack")

    thread = threading.Thread(target=attack)
    thread.start()
    with host.benign():
        inside.set()
        thread.join(0.1)
        order.append("session")
    thread.join(10)
    assert order == ["session", "attack"]


def test_waiting_ends_when_all_is_over() -> None:
    stop = threading.Event()
    host = Host(stop)
    with host.alone():
        threading.Timer(0.05, stop.set).start()
        with pytest.raises(Stopped), host.benign():
            pytest.fail("an attack is made")


def test_rows_of_attacks_decide(tmp_path: Path) -> None:
    recorder, pair = Recorder(), Pair("10.0.0.1", "10.0.0.2")
    with recorder.session(pair, "web", 80), recorder.attack(pair, "syn-scan", "nmap"):
        pass
    recorder.write(tmp_path)
    attack, benign = read(tmp_path / "labels.csv")
    assert (attack.label, attack.detail, benign.label, benign.detail) == (
        "syn-scan", "nmap", "benign", "web",
    )  # fmt: skip
    here, there = ip_address(pair.source), ip_address(pair.target)
    flow = Flow(6, here, 4000, there, 80, attack.first_us, attack.last_us)
    assert Labels([attack, benign]).of(flow) == "syn-scan"
    counts = {each.metric: each.value for each in recorder.samples()}
    assert counts == {"attack_episodes": 1, "benign_sessions": 1, "benign_failed": 0}


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = list(missing_tools(beside.tools(attacks())))
    assert "program nmap: install the Debian package nmap" in said
    assert "program sshd: install the Debian package openssh-server" in said
    listed = Path("apt-packages-attacks.txt").read_text().split()
    basic = Path("apt-packages.txt").read_text().split()
    assert {line.rpartition(" ")[2] for line in said} <= {*listed, *basic}


def test_nothing_is_needed_without_attacks() -> None:
    assert beside.tools(None) == ()
    assert set(beside.tools(attacks(kinds=["udp-flood"], benign=[]))) == {"hping3"}
