from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from check_abbreviations import GLOSSARY, Lines, check, known, markdown, python, rust, unknown
from check_abbreviations import workflow as comments

TABLE = """\
# Glossary

HIDDEN is outside of every table.

| Term | Meaning | Source |
|---|---|---|
| PEP | performance-enhancing proxy | RFC 3135 |
| service function (SF), SFF | what an ORACLE says | RFC 7665 |
"""

RUST = """\
//! A PEP
/// and a QQQ;
/// ```text
/// ZZZ
/// ```
// not here: ZZZ
let ZZZ = "ZZZ";
"""

PYTHON = '''\
"""First a QQQ."""

LIMIT = 7
"""Of RRR."""

def f():
    """And,

    further down, SSS and `ZZZ`.
    """
    return "ZZZ"  # ZZZ
'''

YAML = """\
# QQQ
name: ZZZ
rate: 5 Mbit/s    # RRR
link: a#ZZZ
"""

MARKDOWN = """\
A QQQ of `ZZZ`, at [RRR](ZZZ.md).

```
ZZZ
```
SSS
"""


def found(lines: Lines) -> list[tuple[int, str]]:
    return list(unknown(lines, known(TABLE)))


def test_the_first_column_of_the_glossary_and_universal_ones_are_known() -> None:
    allowed = known(TABLE)
    assert {"PEP", "SF", "SFF", "TCP", "RFC"} <= allowed
    assert not {"HIDDEN", "ORACLE"} & allowed


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (markdown, MARKDOWN, [(1, "QQQ"), (1, "RRR"), (6, "SSS")]),
        (python, PYTHON, [(1, "QQQ"), (4, "RRR"), (9, "SSS")]),
        (rust, RUST, [(2, "QQQ")]),
        (comments, YAML, [(1, "QQQ"), (3, "RRR")]),
    ],
)
def test_prose_of_each_kind_of_file(
    read: Callable[[str], Lines], text: str, expected: list[tuple[int, str]]
) -> None:
    assert sorted(found(read(text))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "two QQQs",
        "(QQQ)",
        "a QQQ.",
        "QQQ",
        "QQQ, and",
    ],
)
def test_forms_that_are_found(text: str) -> None:
    assert found(markdown(text)) == [(1, "QQQ")]


@pytest.mark.parametrize(
    "text",
    [
        "two PEPs over TCP, which SIGTERM ends",
        "QUIETLY and A and McQQQ",
        "README.md, SO_QQQ, `QQQ`, QQQ-1, QQQ.md",
        'the file begins with "QQQQ"',
        "https://example.org/QQQ",
    ],
)
def test_text_that_is_fine(text: str) -> None:
    assert found(markdown(text)) == []


def test_the_place_is_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / GLOSSARY).write_text(TABLE.replace("HIDDEN is", "That is").replace("ORACLE", "SF"))
    (tmp_path / "a.md").write_text("a PEP\nand a QQQ\n")
    (tmp_path / "notes.txt").write_text("ZZZ")
    assert check(tmp_path) == [f"a.md:2: QQQ is not in {GLOSSARY}"]
