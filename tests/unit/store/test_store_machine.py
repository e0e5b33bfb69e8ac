"""Reading the machine's description."""

from __future__ import annotations

from pathlib import Path

from hawser.store import this_machine


def test_reads_what_the_files_say(tmp_path: Path) -> None:
    for name, text in {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: A CPU: fast\nmodel name\t: Another\n",
        "proc/meminfo": "MemTotal:       8165864 kB\nMemFree: 1 kB\n",
        "proc/sys/kernel/osrelease": "6.18.0\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = this_machine(tmp_path)
    assert found.cpu == "A CPU: fast"
    assert found.memory == 8165864 * 1024
    assert (found.kernel, found.distribution) == ("6.18.0", "Debian GNU/Linux 12 (bookworm)")
    assert found.cores >= 1


def test_what_is_not_told_is_unknown(tmp_path: Path) -> None:
    found = this_machine(tmp_path)
    assert (found.cpu, found.memory, found.kernel) == ("unknown", 0, "unknown")


def test_this_very_machine() -> None:
    assert this_machine().memory > 2**20
