"""Fail where text for readers uses an abbreviation that the glossary does not explain.

Read are the prose of Markdown pages, docstrings of Python, doc comments of Rust, and comments of
workflow files; code spans and code blocks are not prose. An abbreviation is a word of two to six
capitals. It is known if docs/glossary.md has it in its first column, or every engineer has it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from repository import ROOT, files, report

GLOSSARY = "docs/glossary.md"

_ABBREVIATION = re.compile(r"(?<![\w.$/%{-])[A-Z]{2,6}(?=s?(?![\w*({/=-]|\.\w))")
_UNIVERSAL = """
ABI API ASCII CI CPU CSV DNS ELF GB GNU HTML HTTP HTTPS ID IO IP JSON KB LAN MB OS PDF PID PNG RAM
README REST RGB SQL SSH SVG TCP UDP URL UTC UTF WAN YAML
GET PATCH POST PUT DF FIN PSH RST SYN II III IV VI BITS BYTES FILE PORT RUN WAY FAILED
IANA IEEE IETF ISO NIST SP RFC CIE ETSI FIPS GS ONF OASIS WCAG ACM ATC CCR ICC ICPE IFIP JASA JRSS
IMDEA NSDI OOPSLA TVCG USENIX AMD AWS EPYC USD
"""
"""Units, formats, protocols and parts of every computer; methods of HTTP, flags of IP and TCP,
roman numerals, placeholders of command lines; where standards, papers, processors and prices come
from."""
_SIGNAL = re.compile(r"SIG[A-Z]+$")

Lines = Iterator[tuple[int, str]]
"""Prose, line by line: number (from 1) and text."""


def known(glossary: str) -> frozenset[str]:
    """Abbreviations that need no explanation: universal ones and those that a glossary explains.

    The glossary is Markdown; its terms are the first column of its tables.
    """
    terms = (line.split("|")[1] for line in glossary.splitlines() if line.startswith("|"))
    return frozenset(_UNIVERSAL.split()) | {
        word for term in terms for word in re.findall(r"[A-Z]{2,}", term)
    }


def unknown(lines: Lines, allowed: Collection[str]) -> Lines:
    """Each unknown abbreviation: the number of its line, and what it is."""
    for number, line in lines:
        for found in _ABBREVIATION.finditer(line):
            word = found.group()
            if word not in allowed and not _SIGNAL.match(word):
                yield number, word


def markdown(text: str) -> Lines:
    """Prose of a Markdown page."""
    yield from _unfenced(enumerate(text.splitlines(), start=1))


def python(text: str) -> Lines:
    """Docstrings of a module, its classes and functions, and strings behind constants."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                yield number, _prose(lines[number - 1].replace('"""', ""))


def rust(text: str) -> Lines:
    """Doc comments, without their code blocks."""
    comments = (re.match(r"\s*//[/!] ?(.*)", line) for line in text.splitlines())
    numbered = ((n, found.group(1)) for n, found in enumerate(comments, start=1) if found)
    yield from _unfenced(numbered)


def workflow(text: str) -> Lines:
    """Comments of YAML."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := re.search(r"(?:^|\s)#(.*)", line):
            yield number, _prose(found.group(1))


_READERS: dict[str, Callable[[str], Lines]] = {
    ".md": markdown,
    ".py": python,
    ".rs": rust,
    ".yaml": workflow,
}


def check(root: Path) -> list[str]:
    """All unknown abbreviations of the repository, each with its place."""
    allowed = known((root / GLOSSARY).read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(root)}:{line}: {word} is not in {GLOSSARY}"
        for path in files(root, _READERS)
        if "malformed" not in path.parts
        for line, word in unknown(_READERS[path.suffix](path.read_text(encoding="utf-8")), allowed)
    ]


def _unfenced(lines: Lines) -> Lines:
    """Prose of Markdown: without fenced and indented code."""
    fenced = False
    for number, line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, _prose(line)


def _prose(line: str) -> str:
    """A line without code spans, quoted text, addresses and targets of links."""
    return re.sub(r"`[^`]*`|\"[^\"]*\"|\]\([^)]*\)|https?://\S+", "", line)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(report(check(ROOT), "no abbreviation that the glossary lacks"))
