"""What the agent keeps of its daemon: its output, and its process number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hawser.agent import daemon
from hawser.agent.daemon import GatewayDaemon
from hawser.agent.state import StateDirectory
from hawser.control.client import ControlError
from hawser.overlay.config.gateway import GatewayConfig

_TALKER = """\
import sys
for line in sys.stdin:
    sys.stdout.write(line * 60)
    sys.stdout.flush()
    print("written", file=sys.stderr, flush=True)
"""

_CONFIG = GatewayConfig.model_validate(
    {
        "branch": "b1",
        "id": 1,
        "control": "gateway.sock",
        "tun": {"name": "tun0", "mtu": 1400},
        "transport": {"kind": "mptcp", "insecure": True},
        "peers": [],
    }
)


def test_the_log_is_bounded_while_its_writer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LOG_MOST", 1000)
    found = GatewayDaemon(StateDirectory(tmp_path), Path("/bin/true"))
    log = tmp_path / "hawserd.log"
    found.bound_log()  # there is none yet
    with log.open("ab") as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", _TALKER],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert writer.stdin
    assert writer.stderr
    for number in range(50):
        writer.stdin.write(f"line {number:04}\n")
        writer.stdin.flush()
        writer.stderr.readline()
        found.bound_log()
        assert log.stat().st_size <= 1000
    writer.communicate()
    assert log.with_name("hawserd.log.1").stat().st_size <= 1000 + 600
    assert b"\0" not in log.read_bytes()
    whole = log.with_name("hawserd.log.1").read_text() + log.read_text()
    assert whole.splitlines()[-1] == "line 0049"


def test_readers_of_the_process_number_find_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    file, before = tmp_path / "hawserd.pid", tmp_path / "before"
    file.write_text("1\n")
    before.hardlink_to(file)
    found = GatewayDaemon(StateDirectory(tmp_path), Path("/bin/true"))
    with pytest.raises(ControlError, match="has ended"):
        found.start(_CONFIG)
    assert int(file.read_text()) > 1
    assert before.read_text() == "1\n", "a file that is emptied and then written is empty between"
