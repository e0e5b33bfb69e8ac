"""The demonstration, as somebody starts it and ends it by Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hawser.control.https import ApiClient, trusting
from hawser.node.netns import namespace
from lab.controller.network import environment

pytestmark = [pytest.mark.root, pytest.mark.slow]


def test_the_demonstration_can_be_asked_and_leaves_nothing() -> None:
    command = [sys.executable, "-m", "hawser.cli", "controller", "demo", "--api-port", "0"]
    process = subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout
    said = ""
    try:
        for line in process.stdout:
            said += line
            if line.startswith("Day 1"):
                break
        else:
            pytest.fail(said)
        match = re.search(r"HAWSER_CONTROLLER=(\S+) HAWSER_CA=(\S+)\s.*HAWSER_KEY=(\S+)", said)
        assert match, said
        url, authority, key = match.groups()
        client = ApiClient(url, trusting(Path(authority).read_bytes()), key)
        found = client.ask("GET", "/v1/gateways")
        assert len(found) == 5
        assert all(each["connected"] for each in found)
    finally:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said + rest
    assert not namespace.names("hawser.controller-demo.")
