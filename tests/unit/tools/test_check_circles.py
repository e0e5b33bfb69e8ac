from __future__ import annotations

from check_circles import REASONS, circles, crates, problems
from repository import ROOT
from rust_imports import Imports


def ties(*pairs: str) -> Imports:
    """Imports written as `a b`: a takes `N` from b."""
    return {(a, b): {"N"} for a, b in (pair.split() for pair in pairs)}


def test_circles_are_found_whole() -> None:
    found = ties("a b", "b c", "c a", "c d", "d e", "e d", "e f")
    assert circles(found) == [("a", "b", "c"), ("d", "e")]


def test_no_circle_is_no_problem() -> None:
    assert list(problems(ties("s/a s/b", "s/b t/c", "s/a t/c"), {})) == []


def test_a_circle_needs_a_reason() -> None:
    found = ties("s/a s/b", "s/b s/a")
    assert list(problems(found, {})) == ["a new circle: s/a -> s/b (N); s/b -> s/a (N)"]
    assert list(problems(found, {("s/a", "s/b"): "why"})) == []


def test_a_reason_without_a_circle_is_a_problem() -> None:
    assert list(problems({}, {("s/a", "s/b"): "why"})) == [
        "no circle any more, strike its reason: s/a, s/b"
    ]


def test_no_reason_is_good_enough_for_a_large_circle_or_one_across_folders() -> None:
    large = ties("s/a s/b", "s/b s/c", "s/c s/d", "s/d s/a")
    found = list(problems(large, {("s/a", "s/b", "s/c", "s/d"): "why"}))
    assert [problem.partition(":")[0] for problem in found] == ["a circle of 4 files, at most 3"]
    across = list(problems(ties("s/a s/t/b", "s/t/b s/a"), {("s/a", "s/t/b"): "why"}))
    assert [problem.partition(":")[0] for problem in across] == ["a circle across folders"]


def test_the_crates_are_read() -> None:
    found = crates(ROOT)
    crates_read = {file.split("/")[1] for pair in found for file in pair}
    folders = {path.parent.parent.name for path in ROOT.glob("crates/*/src/lib.rs")}
    assert folders - crates_read == set()
    assert all(len(files) > 1 for files in REASONS)
