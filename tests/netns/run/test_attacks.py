"""Attacks and benign traffic of a workflow: every tool, and labels that fit the capture.

c1 ... c6            s1 .2
  |    |             |
  +----+------ r ----+------- s2 .2
                 x
    the capture is at r's port to s1 and s2
"""

from __future__ import annotations

import csv
import io
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
SERVERS = ["s1", "s2"]
_EVERYTHING = tools(Attacks.model_validate({"from": HOSTS, "to": SERVERS}))

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in (*_EVERYTHING, "tcpdump")),
        reason="the packages of apt-packages-attacks.txt are not all installed",
    ),
]

LINKS = [f"    {name}: {{ends: [{name}.e, r.{name}]}}\n" for name in (*HOSTS, *SERVERS)]
WORKFLOW = f"""\
hawser: 1
name: attacks
title: Every attack once
topology:
  nodes: [{", ".join((*HOSTS, *SERVERS))}, r]
  links:
{"".join(LINKS)}
measurements: {{rtt: {{probe: ping, from: r, to: s1, count: 3}}}}
capture:
  s1: {{at: r.s1, snap: 128, size: 60 MB}}
  s2: {{at: r.s2, snap: 128, size: 60 MB}}
attacks: {{from: [{", ".join(HOSTS)}], to: [s1, s2], duration: 32 s, packet_rate: 200, seed: 3}}
repeat: 1
settle: 100 ms
"""


def flows(capture: Path) -> list[dict[str, str]]:
    """Last records of all flows of a capture."""
    done = subprocess.run(
        [hawserd(), "flows", capture], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_every_attack_is_made_labelled_and_captured(tmp_path: Path) -> None:
    (tmp_path / "attacks.yaml").write_text(WORKFLOW)
    done = hawser("run", "attacks.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    bundle = only_bundle(tmp_path)
    assert [trial["valid"] for trial in trials(bundle)] == [True]
    (raw,) = bundle.glob("trials/*/raw")
    rows = read(raw / "labels.csv")
    assert Counter(row.label for row in rows if row.label != BENIGN) == Counter(AttackKind)
    assert {row.detail for row in rows if row.label == BENIGN} == set(Application)
    inside = ip_network("10.255.0.0/16")
    for row in rows:
        assert row.source is not None
        assert row.target is not None
        assert row.source.subnet_of(inside)  # type: ignore[arg-type]
        assert row.target.subnet_of(inside)  # type: ignore[arg-type]
    labels = Labels(rows)
    records = (record for name in SERVERS for record in flows(raw / f"capture-{name}.pcap"))
    found = Counter(labels.of(flow(record)) for record in records)
    assert set(found) == {BENIGN, *AttackKind}
    assert found["syn-scan"] > 100
    assert found["syn-flood"] > 100
    assert found["password-guessing"] > 3
    assert {path.stem.partition("-")[2] for path in raw.glob("attacks/*")} == set(AttackKind)
    assert not cli.remains(cli.lab_of(bundle))


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
