"""YAML parser: a strict form of YAML 1.2 with the core schema.

Keys are text as written, and so are `on`, `no` and `12:30` (YAML 1.2.2 section 10.3). Duplicate
keys and tags are errors. The size of the tree is limited, so that aliases cannot expand a small
file into a huge one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from hawser.spec.errors import Place, Problems, found
from hawser.spec.tree import MAX_DEPTH, MAX_SIZE, Items, Scalar, Table, Tree, Value, too_large

MAX_BYTES = 1 << 20
"""Largest size of one file."""

_MAX_WORD = 10_000
"""Longest word. The parser takes quadratic time on tags: a minute for a file of one tag."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_BASED = re.compile(r"0o[0-7]{1,20}|0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,400}|[0-9]{1,400}(\.[0-9]{0,400})?)([eE][-+]?[0-9]{1,3})?")
_Valued = ev.ScalarEvent | ev.SequenceStartEvent | ev.MappingStartEvent

_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


def parse(text: str | bytes, file: str, problems: Problems) -> Tree | None:
    """Read one document.

    Args:
        text: content of the file.
        file: name of the file, for messages.
        problems: collects the errors. Parsing stops at the first syntax error.

    Returns:
        The tree, or None if the file could not be read.
    """
    decoded = _decode(text, file, problems)
    if decoded is None:
        return None
    if any(len(word) > _MAX_WORD for word in decoded.split()):
        message = f"found more than {_MAX_WORD} characters without a space"
        problems.add(Place(file, 1, 1), "", message)
        return None
    try:
        return _Builder(decoded, file, problems).document()
    except _ReadError as stop:
        problems.add(stop.place, "", stop.message)
    except MarkedYAMLError as error:
        problems.add(_mark(file, error.problem_mark or error.context_mark), "", _syntax(error))
    except (YAMLError, ValueError, IndexError, OverflowError) as error:
        # Errors that the parser does not wrap: unprintable characters and invalid escapes.
        problems.add(Place(file, 1, 1), "", f"cannot be read as YAML: {_first_line(error)}")
    return None


def value(text: str) -> Value:
    """Resolve the type of a plain scalar (YAML 1.2.2 section 10.3.2); the fallback is text."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.lower().replace(".", "")) if _SPECIAL.fullmatch(text) else text


class _ReadError(Exception):
    """A syntax error after which the rest of the file cannot be read."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


class _Builder:
    """Builds the tree from the parser's events."""

    def __init__(self, text: str, file: str, problems: Problems) -> None:
        self._events: Iterator[ev.Event] = YAML(typ="safe", pure=True).parse(text)
        self._file = file
        self._problems = problems
        self._anchors: dict[str, Tree] = {}
        self._read = 0

    def document(self) -> Tree | None:
        next(self._events)  # start of the stream
        if isinstance(next(self._events), ev.StreamEndEvent):
            raise _ReadError(Place(self._file, 1, 1), "found nothing, expected a workflow")
        root = self._node(next(self._events), 1)
        next(self._events)  # end of the document
        after = next(self._events)
        if not isinstance(after, ev.StreamEndEvent):
            raise _ReadError(self._place(after), "found a second document, expected one")
        return root

    def _node(self, event: ev.Event, depth: int) -> Tree:
        place = self._place(event)
        self._limit(place, depth)
        match event:
            case ev.AliasEvent():
                return self._alias(event, place)
            case ev.ScalarEvent():
                return self._keep(event, self._scalar(event, place))
            case ev.SequenceStartEvent():
                return self._keep(event, self._items(place, depth))
            case ev.MappingStartEvent():
                return self._keep(event, self._table(place, depth))
        raise _ReadError(place, "expected a value")

    def _keep(self, event: _Valued, node: Tree) -> Tree:
        """Remember a node that has an anchor, for later aliases."""
        if event.tag is not None and str(event.tag) != "!":
            raise _ReadError(node.place, f"found the tag {found(str(event.tag))}, expected none")
        if problem := too_large(node):
            raise _ReadError(node.place, problem)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _items(self, place: Place, depth: int) -> Items:
        nodes: list[Tree] = []
        while not isinstance(event := next(self._events), ev.SequenceEndEvent):
            nodes.append(self._node(event, depth + 1))
        return Items(place, tuple(nodes))

    def _table(self, place: Place, depth: int) -> Table:
        nodes: dict[str, Tree] = {}
        keys: dict[str, Place] = {}
        while not isinstance(event := next(self._events), ev.MappingEndEvent):
            key = self._key(event, depth)
            node = self._node(next(self._events), depth + 1)
            if key.text in nodes:
                first = keys[key.text].line
                self._problems.add(
                    key.place, "", f"found {found(key.text)} again, first in line {first}"
                )
                continue
            nodes[key.text], keys[key.text] = node, key.place
        return Table(place, nodes, keys)

    def _key(self, event: ev.Event, depth: int) -> Scalar:
        key = self._node(event, depth + 1)
        if not isinstance(key, Scalar):
            raise _ReadError(key.place, "found a list or mapping as a key, expected text")
        return key

    def _scalar(self, event: ev.ScalarEvent, place: Place) -> Scalar:
        text: str = event.value
        if bad := _UNUSABLE.search(text):
            raise _ReadError(place, f"found the character {bad[0]!r}, expected text")
        return Scalar(place, value(text) if event.style is None else text, text)

    def _alias(self, event: ev.AliasEvent, place: Place) -> Tree:
        if event.anchor not in self._anchors:
            raise _ReadError(
                place, f"found the alias {found(event.anchor)}, but no such anchor before it"
            )
        return self._anchors[event.anchor]

    def _limit(self, place: Place, depth: int) -> None:
        self._read += 1
        if depth > MAX_DEPTH:
            raise _ReadError(place, f"found nesting deeper than {MAX_DEPTH} levels")
        if self._read > MAX_SIZE:
            raise _ReadError(place, f"found more than {MAX_SIZE} values")

    def _place(self, event: ev.Event) -> Place:
        return _mark(self._file, event.start_mark)


def _decode(text: str | bytes, file: str, problems: Problems) -> str | None:
    if len(text) > MAX_BYTES:
        problems.add(
            Place(file, 1, 1), "", f"found more than {MAX_BYTES} bytes, the most a file may have"
        )
        return None
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        column = error.start - text.rfind(b"\n", 0, error.start)
        byte = text[error.start]
        problems.add(
            Place(file, line, column), "", f"found the byte 0x{byte:02x}, expected UTF-8 text"
        )
        return None


def _mark(file: str, mark: object) -> Place:
    line, column = getattr(mark, "line", 0), getattr(mark, "column", 0)
    return Place(file, line + 1, column + 1)


def _syntax(error: MarkedYAMLError) -> str:
    problem = _first_line(error.problem or error.context or "unreadable")
    if r"'\t'" in problem:
        return "found a tab, expected spaces"
    return f"cannot be read as YAML: {problem}"


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or ["unreadable"])[0][:200]
