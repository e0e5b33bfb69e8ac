"""Which file of a Rust crate takes names from which other, read from its text.

A name is followed through re-exports to the file that defines it. These are not imports: a `mod`
line, a module's own name, and a re-export of a name that the file does not use itself. What a macro
defines counts for the file that calls the macro. Method calls are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rust_source import closing, item_end, keyword, tokens

Names = tuple[str, ...]
Imports = dict[tuple[str, str], set[str]]

_DEFINES = frozenset({"fn", "struct", "enum", "union", "trait", "type", "const", "static"})


@dataclass
class Module:
    """A module: what it defines, what it imports, and every path that its code has."""

    file: Path
    parent: Module | None = None
    children: dict[str, Module] = field(default_factory=dict)
    items: set[str] = field(default_factory=set)
    imported: dict[str, list[Names]] = field(default_factory=dict)
    globs: list[Names] = field(default_factory=list)
    paths: list[Names] = field(default_factory=list)

    def walk(self) -> Iterator[Module]:
        """This module and all below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    @property
    def root(self) -> Module:
        """The crate."""
        return self.parent.root if self.parent else self


def imports(root: Path) -> Imports:
    """Pairs of files (from, to) of the crate whose first file is `root`, with the names taken.

    Files are named relative to the folder of `root`.
    """
    crate = _read(root, root.parent, None)
    found: Imports = {}
    for module in crate.walk():
        for path in module.paths:
            target = _resolve(module, path)
            if target and target.file != module.file:
                pair = (_name(module.file, root), _name(target.file, root))
                found.setdefault(pair, set()).add(path[-1])
    return found


def _name(file: Path, root: Path) -> str:
    return str(file.relative_to(root.parent))


def _read(file: Path, folder: Path, parent: Module | None) -> Module:
    """The module of a file; `folder` holds the files of its children."""
    module = Module(file, parent)
    _read_items(module, tokens(file.read_text()), folder)
    return module


def _read_items(module: Module, found: Sequence[str], folder: Path) -> None:
    at = 0
    while at < len(found):
        if found[at] == "#":
            at = closing(found, at) + 1
            continue
        end = max(item_end(found, at), at + 1)
        kind, start = keyword(found, at)
        item = found[start:end]
        if kind == "mod":
            _read_module(module, item, folder)
        elif kind == "use":
            _read_use(module, item, uses=None if start == at else found)
        else:
            _read_item(module, kind, item)
        at = end


def _read_module(module: Module, item: Sequence[str], folder: Path) -> None:
    name = item[1]
    if item[2] == "{":
        module.children[name] = child = Module(module.file, module)
        _read_items(child, item[3:-1], folder / name)
        return
    beside, within = folder / f"{name}.rs", folder / name / "mod.rs"
    file = beside if beside.exists() else within
    module.children[name] = _read(file, folder / name, module)


def _read_item(module: Module, kind: str, item: Sequence[str]) -> None:
    if kind in _DEFINES and len(item) > 1:
        module.items.add(item[2] if item[1] == "mut" else item[1])
    if kind == "macro_rules":
        module.items.add(item[2])
    for at, word in enumerate(item):
        if word == "use" and item[at - 1] in {"{", "}", ";"}:
            _read_use(module, item[at : item_end(item, at)])
    module.paths.extend(_paths(item))


def _paths(item: Sequence[str]) -> Iterator[Names]:
    """Each `a::b` of some code."""
    at = 0
    while at < len(item):
        path = [item[at]]
        while item[at + 1 : at + 2] == ["::"] and item[at + 2 : at + 3] and _is_name(item[at + 2]):
            path.append(item[at + 2])
            at += 2
        if len(path) > 1 and _is_name(path[0]):
            yield tuple(path)
        at += 1


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


def _read_use(module: Module, item: Sequence[str], uses: Sequence[str] | None = None) -> None:
    """A `use`; of a re-export, `uses` is the code that may use its names."""
    for path, name in _use_tree([word for word in item[1:] if word != ";"], ()):
        if path[-1] == "*":
            module.globs.append(path[:-1])
        else:
            module.imported.setdefault(name, []).append(path)
        if uses is None or uses.count(name) > 1:
            module.paths.append(path)


def _use_tree(tree: Sequence[str], prefix: Names) -> Iterator[tuple[Names, str]]:
    """Paths of a `use`, each with the name that it gets here."""
    path, at = list(prefix), 0
    while at < len(tree) and tree[at] not in {"{", "as"}:
        if tree[at] != "::":
            path.append(tree[at])
        at += 1
    if tree[at : at + 1] == ["{"]:
        for branch in _branches(tree[at + 1 : closing(tree, at)]):
            yield from _use_tree(branch, tuple(path))
        return
    if path[-1] == "self" and len(path) > 1:
        path.pop()
    yield tuple(path), tree[at + 1] if at < len(tree) else path[-1]


def _branches(tree: Sequence[str]) -> Iterator[Sequence[str]]:
    """The parts between the commas of braces."""
    start = at = 0
    while at < len(tree):
        if tree[at] == "{":
            at = closing(tree, at)
        elif tree[at] == ",":
            yield tree[start:at]
            start = at + 1
        at += 1
    if start < len(tree):
        yield tree[start:]


def _resolve(module: Module, path: Names) -> Module | None:
    """The module that defines what a path names there; none of another crate, or for a module."""
    return _find(module, path, set(), known=False)


def _find(
    module: Module, path: Names, seen: set[tuple[int, Names]], *, known: bool
) -> Module | None:
    """`known`: the module is one of ours for certain, so the name must be in it."""
    if not path or (id(module), path) in seen:
        return None
    seen.add((id(module), path))
    first, rest = path[0], path[1:]
    if first in {"crate", "self", "super"}:
        start = {"crate": module.root, "self": module, "super": module.parent}[first]
        return _find(start, rest, seen, known=True) if start else None
    if first == "*":
        return module
    if first in module.children and (rest or first not in module.items):
        return _find(module.children[first], rest, seen, known=True)
    if first in module.items:
        return module
    if found := _imported(module, path, seen):
        return found
    is_import = first in module.imported
    return module if known and not is_import else None


def _imported(module: Module, path: Names, seen: set[tuple[int, Names]]) -> Module | None:
    for target in module.imported.get(path[0], []):
        from_crate = target[0] == path[0]  # `use bytes::bytes`: no module of ours
        whole = (*target, *path[1:])
        if not from_crate and (found := _find(module, whole, seen, known=False)):
            return found
    for glob in module.globs:
        place = _module(module, glob)
        if place and _has(place, path[0]) and (found := _find(place, path, seen, known=True)):
            return found
    return None


def _has(module: Module, name: str) -> bool:
    return name in module.items or name in module.children or name in module.imported


def _module(module: Module, path: Names) -> Module | None:
    """The module that a path names."""
    place: Module | None = module
    for name in path:
        if place is None:
            return None
        steps = {"crate": place.root, "self": place, "super": place.parent}
        place = steps[name] if name in steps else place.children.get(name)
    return place
