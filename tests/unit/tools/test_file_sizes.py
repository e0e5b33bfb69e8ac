from __future__ import annotations

from pathlib import Path

from file_sizes import Function, Source, long_files, long_functions, measure, summary

RUST = """\
//! A crate.

/// Doubles.
fn double<'a>(x: &'a u32) -> u32 {
    // why
    x * 2
}

impl Thing {
    fn long(&self) {
BODY
    }
}
"""


def source(path: str, lines: int, *lengths: int) -> Source:
    functions = [Function(f"f{number}", number, length) for number, length in enumerate(lengths)]
    return Source(path, lines, tuple(functions))


def test_rust_is_measured_without_comments_and_blank_lines(tmp_path: Path) -> None:
    file = tmp_path / "lib.rs"
    file.write_text(RUST.replace("BODY", "\n".join("        self.step();\n" for _ in range(60))))
    found = measure(file, tmp_path)
    assert found.path == "lib.rs"
    assert found.lines == 67
    assert [f.lines for f in found.functions] == [3, 62]
    assert long_functions([found]) == ["lib.rs:10: long has 62 lines of code"]


def test_python_and_c_are_measured(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(x: int) -> int:\n    # why\n\n    return x\n")
    (tmp_path / "a.c").write_text("/* why */\nint f(int x)\n{\n\treturn x;\n}\n")
    assert [f.lines for f in measure(tmp_path / "a.py", tmp_path).functions] == [2]
    assert [f.lines for f in measure(tmp_path / "a.c", tmp_path).functions] == [4]


def test_a_file_beyond_the_limit_is_a_problem() -> None:
    assert long_files([source("a", 600), source("b", 601), source("c", 900)]) == [
        "c: 900 lines of code, at most 600",
        "b: 601 lines of code, at most 600",
    ]


def test_long_functions_come_longest_first() -> None:
    assert long_functions([source("a", 99, 50, 51, 80)]) == [
        "a:2: f2 has 80 lines of code",
        "a:1: f1 has 51 lines of code",
    ]


def test_functions_in_c_are_shorter() -> None:
    assert long_functions([source("a.c", 99, 40, 41), source("b.h", 99, 41)]) == [
        "a.c:1: f1 has 41 lines of code",
        "b.h:0: f0 has 41 lines of code",
    ]


def test_the_summary_of_nothing_and_of_something() -> None:
    assert summary([]).startswith("0 files")
    assert summary([source("a", 99, 5, 7, 60)]) == (
        "1 files, the longest 99 lines of code; 3 functions, median 7, 66.7% within 50"
    )
