from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_bench_result import MACHINE

from harness.bench import Bench, Metric, Peer
from harness.docs import DocsError, check_page, renew, replaced, section
from harness.result import Result, at_least, rows
from harness.run import Failure, Outcome
from harness.samples import Samples

TEXT = st.text(st.characters(exclude_characters="<\r"))


@given(TEXT, TEXT, TEXT, TEXT)
def test_only_the_own_section_changes(head: str, other: str, old: str, new: str) -> None:
    page = replaced(replaced(head, "other", other), "mine", old)
    renewed = replaced(page, "mine", new)
    marker = "<!-- bench mine: begin -->"
    assert renewed.partition(marker)[0] == page.partition(marker)[0]
    assert renewed == replaced(replaced(head, "other", other), "mine", new)


@given(TEXT)
def test_what_follows_the_section_stays(tail: str) -> None:
    page = replaced("head", "mine", "old") + tail
    assert replaced(page, "mine", "new") == replaced("head", "mine", "new") + tail


@pytest.mark.parametrize(
    "page",
    [
        "<!-- bench x: begin -->",
        "<!-- bench x: end -->",
        "<!-- bench x: end --> <!-- bench x: begin -->",
        "<!-- bench x: begin --><!-- bench x: begin --><!-- bench x: end -->",
    ],
)
def test_broken_markers_are_refused_and_the_page_stays(tmp_path: Path, page: str) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text(page)
    with pytest.raises(DocsError, match="bench x: begin"):
        check_page(file, "x")
    with pytest.raises(DocsError, match="bench x: begin"):
        renew(file, "x", "new")
    assert file.read_text() == page


def test_a_page_that_is_not_there_is_begun(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    check_page(file, "x")
    renew(file, "x", "## X")
    assert file.read_text().startswith("# Benchmarks\n")
    assert file.read_text().endswith("<!-- bench x: begin -->\n## X\n<!-- bench x: end -->\n")


def test_a_section_says_all_that_happened() -> None:
    samples = Samples(5)
    for round_ in range(5):
        samples.add("p", round_, {"goodput": 1.0 + round_})
    bench = Bench(
        "x",
        "Peers",
        "How it is measured.",
        (Metric("goodput", "Gbit/s", "1 stream"),),
        [Peer("p", cases={}), Peer("q", missing="no compiler")],
        checks=lambda _samples: [],
    )
    outcome = Outcome(
        samples, (Failure("p", "idle", 2, "no answer"),), taken=5, disturbed=1, minutes=3
    )
    checks = [at_least("p is fast", 3.0, 4.0)]
    found = Result(bench="x", machine=MACHINE, rows=rows(bench, samples), checks=checks)

    text = section(bench, found, outcome)

    for part in (
        "## Peers",
        "How it is measured.",
        "2030-01-01 00:00 UTC, revision abc",
        "Linux 6.1",
        "5 rounds, seed 1",
        "| p | 3.00 (1.00 to 5.00) |",
        "| q | missing |",
        "- q is missing: no compiler",
        "- p, idle, round 3 failed: no answer",
        "- 1 of 5 samples were taken while others used the machine",
        "| p is fast | 3 | 4 | FAILED |",
        "Repeat: `make bench-x`",
    ):
        assert part in text
