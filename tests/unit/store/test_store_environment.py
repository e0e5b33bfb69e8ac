"""What a result depends on besides the workflow."""

from __future__ import annotations

from pathlib import Path

from hawser.store import environment


def test_versions_are_first_lines_and_what_is_absent_is_left_out(tmp_path: Path) -> None:
    daemon = tmp_path / "hawserd"
    daemon.write_text("#!/bin/sh\necho hawserd 9.9\necho more\n")
    daemon.chmod(0o755)
    found = environment.tool_versions(daemon)
    assert found["hawserd"] == "hawserd 9.9"
    assert "python:pydantic" in found
    assert "hawserd" not in environment.tool_versions(tmp_path / "absent")


def test_settings_that_this_kernel_lacks_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "net/ipv4").mkdir(parents=True)
    (tmp_path / "net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
    found = environment.kernel_settings(("net.ipv4.tcp_rmem", "net.nothing"), tmp_path)
    assert found == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
