"""Hosts follow the gateway that keepalived chooses, by the configuration in the guide.

The topology is that of tests/lab/controller/pair.py; both gateways of b1 run keepalived at `lan0`.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import ROOT
from lab.controller.network import Deployment, environment
from lab.controller.pair import FIRST, HOST, SECOND, joined, leave_by, silent
from lab.namespace import run
from lab.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("keepalived") is None, reason="needs Debian keepalived"),
]

GUIDE = (ROOT / "docs" / "guide" / "controller.md").read_text()
ROUTER = "10.1.0.254"


def test_hosts_go_on_when_the_master_is_gone(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as network:
        joined(network)
        leave_by(network, ROUTER)
        first, _ = (start(network, *each) for each in ((FIRST, 150), (SECOND, 100)))
        until(lambda: has(network, FIRST) and not has(network, SECOND), "the first is master")
        until(lambda: answered(network))
        silent(network, FIRST)
        until(lambda: has(network, SECOND) and not has(network, FIRST), "the second is master")
        until(lambda: answered(network), "hosts go on")
        network.branches[FIRST].work()
        until(lambda: has(network, FIRST) and not has(network, SECOND), "the first is back")
        until(lambda: answered(network))
        # Now all of it goes at once, as with its power.
        run("ip", "-n", network.lab.namespaces.name(FIRST), "link", "set", "lan0", "down")
        silent(network, FIRST)
        first.send_signal(signal.SIGKILL)
        until(lambda: has(network, SECOND), "the second is master")
        until(lambda: answered(network), "hosts go on")


def start(network: Deployment, number: int, priority: int) -> subprocess.Popen[str]:
    """Start keepalived at a gateway with the guide's configuration."""
    folder = network.lab.folder / f"keepalived-{number}"
    folder.mkdir()
    hawser = folder / "hawser"
    settings = environment()
    kept = " ".join(f"{name}='{settings[name]}'" for name in ("PYTHONPATH", "PATH"))
    state = f"HAWSER_GATEWAY={network.branches[number].directory}"
    hawser.write_text(f'#!/bin/sh\n{kept} {state} exec {sys.executable} -m hawser.cli "$@"\n')
    hawser.chmod(0o755)
    found = re.search(r"^```\n(global_defs .*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found
    text = found[1].replace("/usr/local/bin/hawser", str(hawser))
    text = text.replace("priority 150", f"priority {priority}")
    file = folder / "keepalived.conf"
    file.write_text(text)
    file.chmod(0o600)
    places = [f"--{name}={folder / name}" for name in ("pid", "vrrp_pid", "checkers_pid")]
    options = ("--dont-fork", "--log-console", "--vrrp", f"--use-file={file}", *places)
    with (folder / "log").open("w") as log:
        return network.lab.start(number, "keepalived", *options, stdout=log, stderr=log)


def has(network: Deployment, number: int) -> bool:
    """Whether a gateway has the hosts' router."""
    return ROUTER in network.lab.at(number, "ip", "-4", "address", "show", "dev", "lan0")


def answered(network: Deployment) -> bool:
    command = ("ping", "-c", "1", "-W", "1", "-I", "10.1.0.5", "10.2.0.1")
    return " 1 received" in network.lab.at(HOST, *command, check=False)
