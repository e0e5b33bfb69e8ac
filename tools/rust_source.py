"""Rust source as text: what is code in it, and its tokens without what serves tests only."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Comments, characters and strings: they may name what code may not use.
_TEXT = re.compile(
    r"//[^\n]*|/\*.*?\*/|r(#*)\".*?\"\1|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", re.DOTALL
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|::|[^\s\w]")
_LIFETIME = re.compile(r"'[A-Za-z_]\w*")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_ITEMS = frozenset({"fn", "struct", "enum", "union", "trait", "impl", "mod", "macro_rules"})
_STATEMENTS = frozenset({"use", "const", "static", "type", "let"})
_QUALIFIERS = frozenset({"pub", "unsafe", "async", "extern", "default"})


def code(text: str) -> str:
    """The source without comments, strings and characters; lines stay where they were."""
    return _TEXT.sub(lambda found: "\n" * found.group().count("\n"), text)


def tokens(text: str) -> list[str]:
    """Names, numbers and punctuation of the code that is not for tests alone (`#[cfg(test)]`)."""
    return _without_tests(_TOKEN.findall(_LIFETIME.sub("", code(text))))


def _without_tests(found: Sequence[str]) -> list[str]:
    left, at = [], 0
    while at < len(found):
        if found[at] == "#" and _is_for_tests(found, at):
            while found[at : at + 1] == ["#"]:
                at = closing(found, at + 1) + 1
            at = item_end(found, at)
        else:
            left.append(found[at])
            at += 1
    return left


def _is_for_tests(found: Sequence[str], at: int) -> bool:
    """Whether an attribute is `#[cfg(test)]` or `#[cfg(all(test, ...))]`."""
    attribute = list(found[at : at + 7])
    return attribute[:5] == ["#", "[", "cfg", "(", "test"] or attribute == [
        *("#", "[", "cfg", "(", "all", "(", "test")
    ]


def closing(found: Sequence[str], at: int) -> int:
    """Index of the bracket that closes the first one from `at` on; the end where none does."""
    depth = 0
    for index in range(at, len(found)):
        if found[index] in _CLOSES:
            depth += 1
        elif found[index] in _CLOSES.values():
            depth -= 1
            if depth == 0:
                return index
    return len(found)


def keyword(found: Sequence[str], at: int) -> tuple[str, int]:
    """The word that says what an item is, behind its visibility, and its index."""
    while at < len(found) and found[at] in _QUALIFIERS:
        visible = found[at] == "pub" and found[at + 1 : at + 2] == ["("]
        at = closing(found, at) + 1 if visible else at + 1
    if found[at : at + 1] == ["const"] and {*found[at + 1 : at + 3]} & {"fn", "unsafe", "extern"}:
        return keyword(found, at + 1)
    return (found[at], at) if at < len(found) else ("", at)


def item_end(found: Sequence[str], at: int) -> int:
    """Index behind the item, statement, field or variant that begins at `at`."""
    kind, at = keyword(found, at)
    body = kind not in _STATEMENTS
    separators = {";"} if not body or kind in _ITEMS else {";", ","}
    while at < len(found):
        if found[at] in separators:
            return at + 1
        if found[at] in _CLOSES.values():  # the last of what surrounds it
            return at
        if found[at] in _CLOSES:
            bracket, at = found[at], closing(found, at)
            if body and bracket == "{":
                return at + 1
        at += 1
    return at
