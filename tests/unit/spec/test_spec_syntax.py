"""Reading YAML: its traps, and that nothing but `SpecErrors` comes of any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_files import mistakes

from hawser.spec.errors import Problems
from hawser.spec.syntax import MAX_BYTES, parse, value
from hawser.spec.tree import plain


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("12", 12),
        ("-0x1F", "-0x1F"),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 17),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("on", "on"),
        ("no", "no"),
        ("True", True),
        ("~", None),
        ("", None),
        ("2023-01-01", "2023-01-01"),
        ("9" * 5000, "9" * 5000),
        ("<<", "<<"),
    ],
)
def test_scalars_have_the_types_of_the_core_schema(text: str, meaning: object) -> None:
    found = value(text)
    assert found == meaning
    assert type(found) is type(meaning)


def test_aliases_are_put_in() -> None:
    problems = Problems()
    tree = parse("a: &x [1, 2]\nb: *x\n", "x.yaml", problems)
    assert tree is not None
    assert plain(tree) == {"a": [1, 2], "b": [1, 2]}
    assert not problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml:1:1: found nothing"),
        ("# only a comment\n", "x.yaml:1:1: found nothing"),
        ("just text", "x.yaml:1:1: expected a mapping"),
        ("[a]: 1", "x.yaml:1:1: found a list or mapping as a key"),
        ("a: {b: 1", "cannot be read as YAML"),
        ("a: \x01", "cannot be read as YAML"),
        ('a: "\\ud800"', "found the character"),
        ("a: *nowhere", "x.yaml:1:4: found the alias 'nowhere'"),
        ("%YAML 9.9\n---\na: 1", "x.yaml:1:"),
        ("a: &x 1\n" * 60_000, "found more than 50000 values"),
        ("x" * (MAX_BYTES + 1), "found more than 1048576 bytes"),
        ("!" * 1_000_000, "x.yaml:1:1: found more than 10000 characters without a space"),
    ],
)
def test_traps(text: str, message: str) -> None:
    found = mistakes(text)
    assert found
    assert message in "\n".join(found)


@given(st.one_of(st.text(), st.text("ab:-[]{}&*!|>'\"#%@`,? \n\t~<=$")))
def test_any_text_has_an_answer(text: str) -> None:
    problems = Problems()
    assert (parse(text, "x.yaml", problems) is None) == bool(problems) or problems


@given(st.binary())
def test_any_bytes_have_an_answer(text: bytes) -> None:
    problems = Problems()
    parse(text, "x.yaml", problems)
