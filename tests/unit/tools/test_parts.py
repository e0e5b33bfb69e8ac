from __future__ import annotations

from pathlib import Path

import pytest

from parts import Part, duration, main, summary

PYTEST = """\
SKIPPED [15] tests/netns/test_a.py:88: this kernel has no VRF: cannot test
SKIPPED [1] tests/netns/test_b.py:3: needs Chromium
FAILED tests/netns/test_c.py::test_d - AssertionError: 3 passed
=========== 1 failed, 395 passed, 16 skipped, 2 errors in 301.14s (0:05:01) ===========
"""
CARGO = """\
test udp::round_trip ... ok
test frames::long ... ignored, takes an hour
test frames::none ... ignored
test result: ok. 134 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 3.01s
test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
"""


def read(text: str) -> Part:
    part = Part("x")
    for line in text.splitlines():
        part.read(line)
    return part


def test_what_pytest_closes_with_is_counted() -> None:
    part = read(PYTEST)
    assert (part.passed, part.failed) == (395, 3)
    assert part.skips == {
        "tests/netns/test_a.py: this kernel has no VRF: cannot test": 15,
        "tests/netns/test_b.py: needs Chromium": 1,
    }


@pytest.mark.parametrize("line", ["4 passed in 0.12s", "=== 4 passed in 90.00s (0:01:30) ==="])
def test_short_closing_lines(line: str) -> None:
    assert read(line).passed == 4


def test_what_cargo_closes_with_is_counted() -> None:
    part = read(CARGO)
    assert (part.passed, part.failed) == (139, 1)
    assert part.skips == {"frames::long: takes an hour": 1, "frames::none: no reason given": 1}


def test_the_summary_has_every_part_and_every_reason() -> None:
    good, bad = read(CARGO.partition("test result: FAILED")[0]), read(PYTEST)
    good.seconds, bad.seconds, bad.code = 7, 187, 2
    lines = list(summary([good, bad]))
    assert lines[1].split() == ["x", "7", "s", "134", "0", "2"]
    assert lines[2].endswith("FAILED (exit code 2)")
    assert lines[3].split() == ["all", "3", "min", "14", "s"]
    assert "skipped 15 x tests/netns/test_a.py: this kernel has no VRF: cannot test" in lines
    assert lines[-1] == "529 passed, 3 failed, 18 skipped"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.4, 60, 3607)] == [
        "0 s", "59 s", "1 min 00 s", "60 min 07 s",
    ]  # fmt: skip


def test_all_parts_run_and_a_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    makefile = "bad:\n\t@echo 1 failed in 0.1s; exit 1\ngood:\n\t@echo 2 passed in 0.1s\n"
    (tmp_path / "Makefile").write_text(makefile)
    monkeypatch.chdir(tmp_path)
    assert main(["good"]) == 0
    assert main(["bad", "good"]) == 1
    assert capfd.readouterr().out.endswith("2 passed, 1 failed, 0 skipped\n")
