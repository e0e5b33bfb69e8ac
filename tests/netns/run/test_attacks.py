"""Attacks and benign traffic of a workflow: every tool, labels that fit the capture, and a model
that is trained by one seed and judged by another, with other hosts and servers.

 c1 ... c6 (train)               s1 (train)
     |                           |
     +------ r ------ q ---------+
     |          x  ^             |
 d1 ... d6 (test)  |             s2 (test)
                   the capture
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from hawser.driver.roles import hawserd
from hawser.probe.attacks.beside import tools
from hawser.spec.attack import Application, AttackKind, Attacks
from hawser.store.labels import BENIGN, Labels, flow, read
from lab.run import cli
from lab.run.cable import only_bundle
from lab.run.cli import hawser, trials
from lab.waiting import PATIENCE

HOSTS = [f"c{number}" for number in range(1, 7)]
OTHERS = [f"d{number}" for number in range(1, 7)]
_EVERYTHING = tools(Attacks.model_validate({"from": HOSTS, "to": ["s1"]}))

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in (*_EVERYTHING, "tcpdump")),
        reason="the packages of apt-packages-attacks.txt are not all installed",
    ),
]

LINKS = [
    *(f"    {name}: {{ends: [{name}.e, r.{name}]}}\n" for name in (*HOSTS, *OTHERS)),
    *(f"    {name}: {{ends: [{name}.e, q.{name}]}}\n" for name in ("s1", "s2")),
]
WORKFLOW = f"""\
hawser: 1
name: attacks
title: Every attack twice
topology:
  nodes: [{", ".join((*HOSTS, *OTHERS))}, s1, s2, r, q]
  links:
    x: {{ends: [r.q, q.r], rate: 200 Mbit/s, queue: 4 MB}}
{"".join(LINKS)}
measurements: {{rtt: {{probe: ping, from: r, to: q, count: 3}}}}
capture:
  x: {{at: q.r, snap: 128, size: 60 MB}}
attacks: {{from: [{", ".join(HOSTS)}], to: [s1], duration: 32 s, packet_rate: 200, seed: 3}}
variants:
  product:
    traffic:
      train: {{}}
      test: {{attacks.from: [{", ".join(OTHERS)}], attacks.to: [s2], attacks.seed: 4}}
repeat: 1
settle: 100 ms
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run."""
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "attacks.yaml").write_text(WORKFLOW)
    done = hawser("run", "attacks.yaml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = only_bundle(folder)
    assert [trial["valid"] for trial in trials(found)] == [True, True]
    return found


def raw(bundle: Path, variant: str) -> Path:
    (found,) = bundle.glob(f"trials/0*{variant}/raw")
    return found


def records(bundle: Path, variant: str) -> Path:
    """All records of a capture, as a file."""
    file = bundle / f"{variant}.csv"
    capture = raw(bundle, variant) / "capture-x.pcap"
    command = [str(hawserd()), "flows", str(capture), "--records", "all"]
    done = subprocess.run(
        [*command, "-o", str(file)], capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return file


@pytest.mark.parametrize("variant", ["train", "test"])
def test_every_attack_is_made_labelled_and_captured(bundle: Path, variant: str) -> None:
    folder = raw(bundle, variant)
    rows = read(folder / "labels.csv")
    assert Counter(row.label for row in rows if row.label != BENIGN) == Counter(AttackKind)
    assert {row.detail for row in rows if row.label == BENIGN} == set(Application)
    inside = ip_network("10.255.0.0/16")
    for row in rows:
        assert row.source is not None
        assert row.target is not None
        assert row.source.subnet_of(inside)  # type: ignore[arg-type]
        assert row.target.subnet_of(inside)  # type: ignore[arg-type]
    with records(bundle, variant).open() as opened:
        last = [r for r in csv.DictReader(opened) if r["reason"] not in ("early", "window")]
    assert max(float(record["max_fpktl"]) for record in last) <= 1500  # single packets
    labels = Labels(rows)
    found = Counter(labels.of(flow(record)) for record in last)
    assert set(found) == {BENIGN, *AttackKind}
    assert found["syn-scan"] > 100
    assert found["syn-flood"] > 100
    assert found["password-guessing"] > 3
    said = {path.stem.partition("-")[2] for path in folder.glob("attacks/*")}
    assert said == set(AttackKind)


def test_a_run_leaves_nothing(bundle: Path) -> None:
    assert not cli.remains(cli.lab_of(bundle))


def test_a_model_names_the_attacks_of_another_seed(bundle: Path) -> None:
    model = bundle / "model.json"
    labels = {v: raw(bundle, v) / "labels.csv" for v in ("train", "test")}
    trained = hawser(
        "ids", "train", records(bundle, "train"), "--labels", labels["train"], "--kind", "forest",
        "--false-alarms", "0.05", "-o", model, cwd=bundle,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    judged = hawser(
        "ids", "evaluate", records(bundle, "test"), "--labels", labels["test"], "--model", model,
        "--json", cwd=bundle,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stderr
    found = json.loads(judged.stdout)
    assert set(found["by_attack"]) == set(AttackKind)
    # Of 80 benign flows, 5 % are three: with fewer, the oddest flow of a busy machine would set the
    # threshold. Bounds are far from what is measured (0.995 and more, 0.08 and less): half a minute
    # has few benign flows, and few of some attacks.
    recall = {name: group["flows"]["recall"] for name, group in found["by_attack"].items()}
    assert found["all"]["flows"]["recall"] > 0.9, recall
    assert found["all"]["flows"]["false_alarms"] < 0.2, found["all"]["flows"]
    for name in ("syn-flood", "syn-scan", "connect-scan"):
        assert recall[name] > 0.9, recall


def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "attacks.yaml").write_text(WORKFLOW)
    run = cli.start("run", "attacks.yaml", cwd=tmp_path)
    try:
        _until(lambda: bool(list(tmp_path.glob("runs/*/trials/.tmp-*/raw/attacks/*"))), run)
    finally:
        os.killpg(run.pid, signal.SIGINT)
        run.communicate(timeout=PATIENCE)
    assert run.returncode != 0
    assert not cli.remains(cli.lab_of(only_bundle(tmp_path)))


def test_a_missing_tool_is_told_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "attacks.yaml").write_text(WORKFLOW)
    (tmp_path / "bin").mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            link = tmp_path / "bin" / program.name
            if program.name != "nmap" and not link.exists():
                link.symlink_to(program)
    done = subprocess.run(
        cli.command("validate", "attacks.yaml"),
        cwd=tmp_path,
        env=cli.environment() | {"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 3
    assert "program nmap: install the Debian package nmap" in done.stderr


def _until(condition: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)
