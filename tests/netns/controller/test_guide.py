"""The guide, followed word by word: from nothing to three branches on four machines.

Namespaces stand for machines, as in tests/lab/controller/network.py; `lan0` is one end of a cable.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import ROOT
from lab.controller.network import CONTROLLER, environment
from lab.gateway.pair import Lab
from lab.gateway.switch import address, next_hop
from lab.namespace import run
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

GUIDE = (ROOT / "docs" / "guide" / "controller.md").read_text()
BLOCKS = re.findall(r"^```sh (controller|gateway)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
NETWORK = re.search(r"^```yaml\n(hawser: 1\n.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
BRANCHES = (1, 2, 3)


class Machine:
    """A shell on a machine, in which one block after the other is run."""

    def __init__(self, lab: Lab, number: int) -> None:
        self.folder = lab.folder / f"machine-{number}"
        self.folder.mkdir()
        program = self.folder / "bin" / "hawser"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hawser.cli "$@"\n')
        program.chmod(0o755)
        found = environment() | {"HAWSER_GATEWAY": str(self.folder / "gateway")}
        found["PATH"] = f"{program.parent}:{found['PATH']}"
        self._errors = (self.folder / "errors").open("w")
        self._shell = subprocess.Popen(
            lab.namespaces.inside(number, "bash"),
            cwd=self.folder,
            env=found,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    def run(self, commands: str) -> list[str]:
        """Run commands and give what they print; each has to succeed."""
        shell = self._shell
        assert shell.stdin
        assert shell.stdout
        # A program in the background keeps the output open when the shell has ended.
        shell.stdin.write(f"trap 'echo; echo ---failed' EXIT; set -e\n{commands}\n")
        shell.stdin.write("set +e; echo; echo ---done\n")
        shell.stdin.flush()
        lines = []
        for line in shell.stdout:
            if line == "---done\n":
                return [each for each in lines if each]
            if line == "---failed\n":
                break
            lines.append(line.rstrip())
        raise RuntimeError(f"{commands}\n{(self.folder / 'errors').read_text()}")

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()
        self._errors.close()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.folder / "gateway" / "hawserd.pid").read_text()), signal.SIGKILL)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        lab.namespace(0)
        lab.at(0, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for number in (*BRANCHES, CONTROLLER):
            name = lab.namespace(number)
            for letter in "ab":
                port = f"{number}{letter}"
                here = (number, f"w{letter}", f"{address(port)}/24")
                lab.cable(here, (0, f"i{port}", f"{next_hop(port)}/24"))
            run("ip", "-n", name, "route", "add", "default", "via", next_hop(f"{number}a"))
        for number in BRANCHES:
            name = lab.namespaces.name(number)
            run("ip", "-n", name, "link", "add", "lan0", "type", "veth", "peer", "name", "host0")
            run("ip", "-n", name, "addr", "add", f"10.{number}.0.1/24", "dev", "lan0")
            for end in ("lan0", "host0"):
                run("ip", "-n", name, "link", "set", end, "up")
        yield lab


def test_the_guide(lab: Lab) -> None:
    assert NETWORK
    with contextlib.ExitStack() as stack:
        machines = {number: Machine(lab, number) for number in (*BRANCHES, CONTROLLER)}
        for machine in machines.values():
            stack.callback(machine.end)
        (machines[CONTROLLER].folder / "network.yaml").write_text(NETWORK[1])
        tokens: list[str] = []
        for where, commands in BLOCKS:
            if where == "controller":
                printed = machines[CONTROLLER].run(commands)
                tokens = printed if "token" in commands else tokens
                if "gateways" in commands:
                    until(lambda: joined(machines[CONTROLLER]), "all have joined")
            elif "ping" in commands:
                answered = machines[1].run(commands)
                assert any(" 3 received" in line for line in answered), answered
            else:
                for number in BRANCHES:
                    text = commands.replace(".N", f".{number}")
                    machines[number].run(
                        text.replace("TOKEN", tokens[number - 1] if tokens else "")
                    )
        assert len(tokens) == len(BRANCHES)


def joined(controller: Machine) -> bool:
    lines = controller.run("hawser controller gateways")[2:]
    return len(lines) == len(BRANCHES) and all(
        "yes" in line and "in_force" in line and line.count(", b") == 1 for line in lines
    )
