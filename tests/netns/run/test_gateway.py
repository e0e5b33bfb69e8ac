"""Runs and labs with real gateways: verbs of the command line, supervision, and their end.

   h1         gw1                                    gw2         h2
  +-----+    +------------+      +----------+      +------------+    +-----+
  | lan |----| lan      a |------|          |------| a      lan |----| lan |
  +-----+    |          b |------| internet |------| b          |    +-----+
  10.1.0.0/24+------------+      +----------+      +------------+10.2.0.0/24

gw2's ports carry 100 Mbit/s each.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.local import LocalDriver
from hawser.store import Bundle
from hawser.store.bundle import Trial
from lab.run import cli
from lab.run.cli import REPOSITORY, command, environment, hawser, start, trials
from lab.waiting import until

pytestmark = pytest.mark.root

QUICKSTART = REPOSITORY / "workflows" / "quickstart.yaml"
LAB = """
hawser: 1
name: lab
title: Two branches over two accesses of 100 Mbit/s
topology:
  nodes: [h1, gw1, gw2, h2]
  links:
    lan1: {ends: [h1.lan, gw1.lan]}
    lan2: {ends: [gw2.lan, h2.lan]}
  internet:
    ports: {gw1.a: {}, gw1.b: {}, gw2.a: {rate: 100 Mbit/s}, gw2.b: {rate: 100 Mbit/s}}
overlay:
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan, prefix: 10.2.0.0/24}
measurements:
  rtt: {probe: ping, from: h1, to: h2, count: 5, interval: 20 ms}
  tcp: {probe: iperf3, from: h1, to: h2, duration: 3 s, warmup: 0 s}
repeat: 1
"""

SERVER = """
import hashlib, socket, sys
with socket.create_server(("10.2.0.2", 7000)) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    digest, count = hashlib.sha256(), 0
    while data := connection.recv(1 << 20):
        digest.update(data)
        count += len(data)
    print(count, digest.hexdigest())
"""
CLIENT = """
import hashlib, random, socket
source, digest = random.Random(7), hashlib.sha256()
with socket.create_connection(("10.2.0.2", 7000)) as connection:
    for block in range(100):
        data = source.randbytes(1_000_000)
        digest.update(data)
        connection.sendall(data)
        print(block, flush=True)
print(digest.hexdigest())
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(LAB)
    return path


@pytest.fixture
def name() -> str:
    return f"t{os.getpid()}"


@pytest.fixture
def supervised(file: Path, name: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A lab whose daemons a `hawser deploy --supervise` restarts."""
    deploy = start("deploy", file, "--name", name, "--supervise", "--json", cwd=tmp_path)
    try:
        until(lambda: deploy.poll() is not None or _ready(name, tmp_path))
        assert deploy.poll() is None, deploy.communicate()
        yield deploy
    finally:
        deploy.kill()
        deploy.communicate()
        hawser("destroy", name, cwd=tmp_path)


def _ready(name: str, folder: Path) -> bool:
    shown = hawser("inspect", name, "--json", cwd=folder)
    daemons = json.loads(shown.stdout)["daemons"] if shown.returncode == 0 else []
    return len(daemons) == 2 and all(_connected(daemon) for daemon in daemons)


def _connected(daemon: dict[str, Any]) -> bool:
    return bool(daemon["status"]) and all(peer["up"] for peer in daemon["status"]["peers"])


def _daemons(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    document = json.loads(hawser("inspect", name, "--json", cwd=folder).stdout)
    return {daemon["name"]: daemon for daemon in document["daemons"]}


def on(node: str, script: str, folder: Path) -> subprocess.Popen[str]:
    """Start a Python script on a node of a lab."""
    return subprocess.Popen(
        command("exec", node, "--", "python3", "-c", script),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_quickstart_gives_every_variant_and_leaves_nothing(tmp_path: Path) -> None:
    done = hawser(
        "run", QUICKSTART, "--repeat", 1, "--duration", 1, "--set", "assert=[]", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    document = json.loads(done.stdout)
    goodput = {
        row["variant"]["transport"]: row["median"]
        for row in document["rows"]
        if row["metric"] == "goodput"
    }
    assert goodput.keys() == {"ipomp", "ipip-best", "ipip-direct"}
    (bundle,) = cli.bundles(tmp_path)
    # a void trial, for instance on a busy machine, is repeated
    valid = [trial for trial in Bundle.open(bundle).trials if trial.record.valid]
    carrying = {trial.record.variant["transport"]: paths_with_traffic(trial) for trial in valid}
    assert carrying.keys() == goodput.keys()
    assert carrying["ipip-direct"] == {"p1"}
    assert carrying["ipip-best"] == {"p4"}
    assert len(carrying["ipomp"]) > 1, "paths are used together"
    # The path has 4 Mbit/s, or 16; in a second, what its queue held comes on top.
    assert 0 < goodput["ipip-direct"] < 5
    assert 0 < goodput["ipip-best"] < 16
    trial = valid[0]
    counted = {(s.subject, s.metric) for s in trial.samples()}
    assert {
        ("daemon:gw1", "cpu"),
        ("daemon:gw1:tun", "rx_bytes"),
        ("path:p1:forward", "tx_bytes"),
    } <= counted
    logs = {path.name for path in bundle.glob("trials/0001-*/logs/*")}
    assert logs == {"gw1.log", "gw2.log"}
    assert not list(bundle.rglob("*.key")), "keys stay in the lab"
    assert not cli.remains(cli.lab_of(bundle))


def paths_with_traffic(trial: Trial) -> set[str]:
    """Paths that carried a twentieth of the bytes or more from branch 1 to 2."""
    sent = {
        sample.subject.split(":")[1]: sample.value
        for sample in trial.samples()
        if sample.metric == "tx_bytes"
        and sample.subject.startswith("path:")
        and sample.subject.endswith(":forward")
    }
    return {path for path, size in sent.items() if size > sum(sent.values()) / 20}


def test_a_gateway_that_dies_makes_the_trial_void(file: Path, tmp_path: Path) -> None:
    run = start("run", file, cwd=tmp_path)
    until(lambda: cli.bundles(tmp_path))
    (bundle,) = cli.bundles(tmp_path)
    lab = cli.lab_of(bundle)
    until(lambda: cli.clients(lab))
    os.kill(LocalDriver().attach(lab).daemons["gw1"].pid, signal.SIGKILL)
    _, err = run.communicate(timeout=240)
    assert run.returncode == 0, err
    void, again = trials(bundle)
    assert not void["valid"]
    assert void["reason"].startswith("daemon gw1 died and was restarted")
    assert again["valid"]


def test_a_transfer_survives_the_death_of_a_gateway(
    supervised: subprocess.Popen[str], name: str, tmp_path: Path
) -> None:
    with on(f"{name}/h2", SERVER, tmp_path) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        with on(f"{name}/h1", CLIENT, tmp_path) as client:
            assert client.stdout is not None
            while client.stdout.readline() != "30\n":
                assert client.poll() is None
            before = LocalDriver().attach(name).daemons["gw1"].pid
            os.kill(before, signal.SIGKILL)
            assert client.poll() is None, "it was all sent before the gateway died"
            sent, _ = client.communicate(timeout=240)
        received, _ = server.communicate(timeout=240)
    digest = sent.split()[-1]
    assert received.split() == ["100000000", digest]
    assert len(digest) == hashlib.sha256().digest_size * 2
    after = _daemons(name, tmp_path)["gw1"]
    assert after["restarts"] == 1
    assert after["pid"] != before


def test_ctrl_c_ends_a_supervised_lab(
    supervised: subprocess.Popen[str], name: str, tmp_path: Path
) -> None:
    supervised.send_signal(signal.SIGINT)
    out, err = supervised.communicate(timeout=240)
    assert supervised.returncode == 0, err
    assert json.loads(out)["name"] == name
    assert not cli.remains(name)


def test_a_lab_that_is_destroyed_ends_its_supervisor(
    supervised: subprocess.Popen[str], name: str, tmp_path: Path
) -> None:
    assert hawser("destroy", name, cwd=tmp_path).returncode == 0
    supervised.communicate(timeout=240)
    assert supervised.returncode == 0
    assert not cli.remains(name)


def test_a_lab_is_deployed_used_and_destroyed(file: Path, name: str, tmp_path: Path) -> None:
    try:
        deployed = hawser("deploy", file, "--name", name, cwd=tmp_path)
        assert deployed.returncode == 0, deployed.stderr
        assert "daemons are not restarted" in deployed.stderr
        listed = hawser("inspect", cwd=tmp_path)
        assert f"{name} " in listed.stdout
        assert "unsupervised" in hawser("inspect", name, cwd=tmp_path).stdout
        _use(name, tmp_path)
        twice = hawser("deploy", file, "--name", name, cwd=tmp_path)
        assert twice.returncode == 1
        assert f"lab {name} exists" in twice.stderr
    finally:
        removed = hawser("destroy", name, "--json", cwd=tmp_path)
    assert json.loads(removed.stdout) == {"destroyed": [name]}
    assert not cli.remains(name)
    assert hawser("destroy", name, cwd=tmp_path).returncode == 2


def _use(name: str, folder: Path) -> None:
    there = hawser("exec", f"{name}/h1", "--", "ping", "-c", "1", "10.2.0.2", cwd=folder)
    assert there.returncode == 0, there.stdout
    assert hawser("exec", f"{name}/h1", "--", "sh", "-c", "exit 7", cwd=folder).returncode == 7
    assert (
        hawser("exec", f"{name}/h1", "ip", "-br", "address", cwd=folder).stdout.count("10.1.0.2/24")
        == 1
    )
    echoed = subprocess.run(
        command("exec", f"{name}/gw1", "--", "cat"),
        cwd=folder,
        env=environment(),
        input="over there\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert echoed.stdout == "over there\n"
    wrong = hawser("exec", f"{name}/h9", "--", "true", cwd=folder)
    assert wrong.returncode == 2
    assert "h1, gw1, gw2, h2" in wrong.stderr
