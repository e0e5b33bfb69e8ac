"""A capture with labels is replayed through a sensor and a firewall, which block what is malicious.

c ---- n ---- s        sensor and firewall at n; the capture's hosts are nobody's addresses
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import captures
from hawser.probe.attacks.packets import packets
from hawser.store.labels import BENIGN, read
from lab.function import model
from lab.run import cli
from lab.run.cable import only_bundle
from lab.run.cli import hawser, trials

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed"),
]

SPEED = 6
WORKFLOW = f"""\
hawser: 1
name: replay
title: Recorded attacks
topology:
  nodes: [c, n, s]
  links:
    access: {{ends: [c.e, n.c]}}
    service: {{ends: [n.s, s.e]}}
functions:
  sensor: {{kind: ids, node: n, detection: {{model: model.json, firewall: wall, per_minute: 600}}}}
  wall: {{kind: firewall, node: n, rest: 8443}}
chains:
  all:
    from: c
    to: s
    functions: [sensor, wall]
    match: {{source: 0.0.0.0/0, destination: 0.0.0.0/0}}
measurements: {{rtt: {{probe: ping, from: c, to: s, count: 3}}}}
capture:
  before: {{at: c.e, snap: 96}}
  behind: {{at: s.e, snap: 96}}
replay:
  from: c
  to: s
  capture: 5.pcap
  labels: [5.csv]
  speed: {SPEED}
  passed: {{before: before, behind: behind}}
repeat: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("replay")
    captures.write(made, 5, 200)
    model.write(made / "model.json", model.text(model.UNANSWERED))
    (made / "replay.yaml").write_text(WORKFLOW)
    return made


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    """A whole run."""
    done = hawser("run", "replay.yaml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = only_bundle(folder)
    assert [trial["valid"] for trial in trials(found)] == [True]
    return found


def raw(bundle: Path) -> Path:
    (found,) = bundle.glob("trials/*/raw")
    return found


def values(bundle: Path) -> dict[tuple[str, str], Any]:
    (file,) = bundle.glob("trials/*/samples.jsonl")
    rows = map(json.loads, file.read_text().splitlines())
    return {(row.get("subject") or "", row["metric"]): row["value"] for row in rows}


def test_every_frame_is_sent(bundle: Path, folder: Path) -> None:
    found = values(bundle)
    every = Counter(each.way for each in packets((folder / "5.pcap").read_bytes()))
    assert found["", "frames_replayed"] == every.total()
    assert (found["", "frames_unsent"], found["", "frames_skipped"]) == (0, 0)
    noted = json.loads((raw(bundle) / "replay.json").read_text())
    assert sum(noted["frames"]) == every.total()
    before = (raw(bundle) / "capture-before.pcap").read_bytes()
    came = Counter(each.way for each in packets(before) if each.way in every)
    # Answers are there as far as nothing was blocked; what hosts sent is all there.
    begun = {row.source for row in read(folder / "5.csv")}
    assert all(
        came[way] == count
        for way, count in every.items()
        if any(way.ends[0] in network for network in begun if network)
    )


def test_floods_are_blocked_and_nothing_benign(bundle: Path) -> None:
    found = values(bundle)
    assert found["", "benign_blocked"] == 0
    assert found["attack:flood", "malicious_flows_blocked"] > 50
    assert found["attack:flood", "malicious_volume_blocked"] > 20


def test_labels_have_the_times_of_the_replay(bundle: Path, folder: Path) -> None:
    then, now = read(folder / "5.csv"), read(raw(bundle) / "labels.csv")
    assert Counter(row.label for row in now) == Counter(row.label for row in then)
    assert BENIGN in {row.label for row in now}
    spans = [max(r.last_us for r in rows) - min(r.first_us for r in rows) for rows in (then, now)]
    assert spans[1] == pytest.approx(spans[0] / SPEED, rel=0.01)


def test_a_run_leaves_nothing(bundle: Path) -> None:
    assert not cli.remains(cli.lab_of(bundle))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("capture: none.pcap", "none.pcap: No such file"),
        ("capture: 5.csv", "5.csv: found no pcap file"),
        ("labels: [none.csv]", "none.csv"),
        ("labels: [old.csv]", "old.csv: found no label from 20"),
    ],
)
def test_files_that_cannot_be_read_are_told_at_once(folder: Path, change: str, said: str) -> None:
    old = "capture: 5.pcap" if change.startswith("capture") else "labels: [5.csv]"
    (folder / "old.csv").write_text("label,first_us,last_us\nscan,1,2\n")
    (folder / "wrong.yaml").write_text(WORKFLOW.replace(old, change))
    done = hawser("run", "wrong.yaml", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
