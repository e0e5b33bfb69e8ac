"""A collector in a run: every flow is seen, and every record is stored.

client --- n1 --- server        sensor at n1
collector                       Kafka, Spark and the sender; no link
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from flow_models import CONTENT, sealed
from lab.run import cli
from lab.run.cable import only_bundle
from streams.conftest import PATIENCE_S

pytestmark = pytest.mark.root

WORKFLOW = """\
hawser: 1
name: collected
title: A sensor and a collector
topology:
  nodes: [client, n1, server, collector]
  links:
    access: {ends: [client.eth, n1.client]}
    service: {ends: [n1.server, server.eth]}
functions:
  sensor: {kind: ids, node: n1}
chains:
  all: {from: client, to: server, functions: [sensor], match: {protocol: udp}}
measurements:
  flows:
    {probe: load, from: client, to: server, sizes: {fixed: 128 B}, rate: 500 kbit/s, duration: 3 s,
     flows: {count: 200, source_port: {first: 10000, count: 200}}}
collector: {node: collector, model: tree.json}
repeat: 1
assert:
  - {metric: flows_seen, statistic: min, at_least: 200, at_most: 200}
  - {metric: records_lost, statistic: max, at_most: 0}
  - {metric: records_missing, statistic: max, at_most: 0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "collected.yaml").write_text(WORKFLOW)
    (tmp_path / "tree.json").write_bytes(sealed(CONTENT))
    return tmp_path


def test_every_record_is_stored(folder: Path) -> None:
    command = ("run", "collected.yaml", "--json", "--patience", "0")
    done = cli.hawser(*command, cwd=folder, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = {row["metric"]: row["median"] for row in json.loads(done.stdout)["rows"]}
    assert found["records_made"] >= 400, "at an age of 50 ms, and after windows"
    assert found["records_shipped"] == found["records_stored"] == found["records_made"]
    bundle = only_bundle(folder)
    (raw,) = bundle.glob("trials/0*/raw")
    assert {"kafka.log", "spark.log", "sensor.log"} <= {p.name for p in raw.glob("collector/*")}
    assert not cli.remains(cli.lab_of(bundle))


def test_a_killed_run_leaves_nothing_that_clean_does_not_remove(folder: Path) -> None:
    run = cli.start("run", "collected.yaml", cwd=folder)
    try:
        end = time.monotonic() + PATIENCE_S
        while not list(folder.glob("runs/*")) or not cli.remains(cli.lab_of(only_bundle(folder))):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < end
            time.sleep(0.2)
        lab = cli.lab_of(only_bundle(folder))
        while not any("kafka" in str(each) for each in cli.remains(lab)):
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    done = cli.hawser("destroy", lab, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not cli.remains(lab)
