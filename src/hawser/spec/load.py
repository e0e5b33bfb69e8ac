"""Loads a workflow file and those that it extends as a `Workflow` with resolved variants."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from hawser.spec import check, expansion, inline, shorthand
from hawser.spec.check import result
from hawser.spec.check.published import published
from hawser.spec.document import EVERYTHING, HEADER, SCENARIO, Compared, Header
from hawser.spec.errors import Place, Problems, choices
from hawser.spec.override import Override, apply, from_text
from hawser.spec.partial import expected, parts, published_items
from hawser.spec.renamed import Renames, Warn
from hawser.spec.syntax import parse
from hawser.spec.tree import Scalar, Table, Tree, empty, is_null, merge
from hawser.spec.validate import report, validate
from hawser.spec.variables import Variables
from hawser.spec.variants import Choice, Variants, expand
from hawser.spec.workflow import Labels, Scenario, Until, Variant, Workflow

Read = Callable[[str], bytes | str]
"""Gives the content of a file by its name, or raises OSError."""

ENOUGH = 200
"""Errors after which no more variants are checked."""

MAX_EXTENDS = 8
"""Length of a chain of files that extend each other."""


def _silently(_: object) -> None:
    pass


def load(file: str, read: Read, overrides: Iterable[str] = (), warn: Warn = _silently) -> Workflow:
    """Read a workflow.

    Args:
        file: name of the workflow file, for `read` and for messages.
        read: gives the content of this file and of those it extends, whose names are joined to
            its own.
        overrides: texts of the form `a.b.c=value`, such as the command line's `--set`. They take
            precedence over the file and over every variant.
        warn: is called for each old name of a field, see `hawser.spec.renamed`.

    Raises:
        SpecErrors: everything that is wrong, each with its place.
    """
    problems = Problems()
    renames = Renames(problems, warn)
    tree = _Files(read, renames, problems).document((file,), Place(file, 1, 1))
    last = tuple(map(renames.override, from_text(overrides, problems)))
    if tree is None:
        raise problems.failure()
    beside = partial(_beside, file)
    return _Loader(tree, last, problems, renames, beside, read).workflow()


def _beside(file: str, name: str) -> str:
    """Give the place of a file by its name relative to another file."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), name))


class _Loader:
    """Turns one merged document into a workflow."""

    def __init__(
        self,
        tree: Table,
        last: Sequence[Override],
        problems: Problems,
        renames: Renames,
        beside: Callable[[str], str],
        read: Read,
    ) -> None:
        self._base = tree
        self._beside, self._read = beside, read
        self._last = last
        self._problems = problems
        self._renames = renames
        self._changed = apply(tree, last, problems)

    def workflow(self) -> Workflow:
        """Resolve all variants and give the workflow, or raise all errors."""
        self._unknown_fields()
        variants = expand(self._changed.get("variants"), self._problems)
        resolved = list(self._resolved(variants.choices))
        header = self._header(variants, resolved)
        if header is None or self._problems:
            raise self._problems.failure()
        fields = {name: getattr(header, name) for name in Header.model_fields if name != "hawser"}
        until = header.repeat if isinstance(header.repeat, Until) else None
        fields |= {"repeat": until.least, "until": until} if until is not None else {}
        found = tuple(Variant(labels=labels, scenario=s) for labels, s in resolved if s)
        return Workflow(**fields, variants=found)

    def _resolved(self, choices: Iterable[Choice]) -> Iterator[tuple[Labels, Scenario | None]]:
        """Resolve variants until there are enough errors to report."""
        for choice in choices:
            enough = len(self._problems) > ENOUGH
            yield choice.labels, None if enough else self._scenario(choice)

    def _unknown_fields(self) -> None:
        for key, place in self._changed.keys.items():
            if key not in EVERYTHING:
                self._problems.add(place, key, f"unknown field; {choices(EVERYTHING, key)}")

    def _header(
        self, variants: Variants, resolved: Sequence[tuple[Labels, Scenario | None]]
    ) -> Header | None:
        """Read the fields that do not vary, and check references and assertions."""
        tree = shorthand.labels_as_text(self._substituted(self._changed, HEADER))
        header, issues = validate(Header, tree)
        report(issues, tree, self._problems)
        report(result.results(expected(tree), variants, resolved), tree, self._problems)
        report(published(published_items(tree), variants, resolved), tree, self._problems)
        if header is not None and isinstance(header.repeat, Until):
            report(result.until(header.repeat, resolved), tree, self._problems)
        compared = header or validate(Compared, tree.only("baseline"))[0]
        if compared is not None:
            report(result.baseline(compared.baseline, variants), tree, self._problems)
        return header

    def _scenario(self, choice: Choice) -> Scenario | None:
        """Resolve one variant: apply its overrides to the file, then the caller's."""
        changed = apply(self._base, (*choice.overrides, *self._last), self._problems)
        changed = shorthand.nodes_as_table(changed, self._problems)
        tree = self._renames.scenario(self._substituted(changed, SCENARIO))
        tree = shorthand.scenario(tree, self._problems)
        tree = inline.inlined(tree, lambda name: self._read(self._beside(name)), self._problems)
        tree = inline.placed(tree, self._beside)
        tree, issues = expansion.expanded(tree)
        judged = tree.without("topology") if issues else tree  # without its cloud's parts
        scenario, more = validate(Scenario, tree)
        issues += more
        issues += check.scenario(parts(None if issues else scenario, judged, issues))
        report(issues, tree, self._problems)
        return None if issues else scenario

    def _substituted(self, tree: Table, fields: Sequence[str]) -> Table:
        """Give these fields with all variables replaced."""
        node = tree.get("vars")
        if node is not None and not isinstance(node, Table) and not is_null(node):
            self._problems.add(node.place, "vars", "expected a mapping of names to values")
        definitions = node if isinstance(node, Table) else empty(tree.place)
        return Variables(definitions, self._problems).table(tree.only(*fields))


class _Files:
    """Reads a file and those that it extends into one tree."""

    def __init__(self, read: Read, renames: Renames, problems: Problems) -> None:
        self._read = read
        self._renames = renames
        self._problems = problems

    def document(self, chain: tuple[str, ...], asked: Place) -> Table | None:
        """Read the last file of a chain, laid over all that it extends.

        Args:
            chain: names of files, each extended by the one before it.
            asked: where the last one is named.
        """
        file = chain[-1]
        try:
            text = self._read(file)
        except OSError as error:
            field = "extends" if len(chain) > 1 else ""
            self._problems.add(asked, field, f"cannot read {file}: {error.strerror or error}")
            return None
        tree = parse(text, file, self._problems)
        if tree is None:
            return None
        if not isinstance(tree, Table):
            self._problems.add(tree.place, "", "expected a mapping that begins with hawser: 1")
            return None
        tree = self._renames.document(shorthand.nodes_as_table(tree, self._problems))
        base = tree.get("extends")
        return tree if base is None else self._extended(chain, tree, base)

    def _extended(self, chain: tuple[str, ...], tree: Table, base: Tree) -> Table | None:
        """Lay a file over the one that it extends."""
        if not (isinstance(base, Scalar) and isinstance(base.value, str) and base.value):
            self._problems.add(base.place, "extends", "expected the name of a workflow file")
            return None
        name = posixpath.normpath(posixpath.join(posixpath.dirname(chain[-1]), base.value))
        if name in chain or len(chain) > MAX_EXTENDS:
            circle = " -> ".join([*chain, name])
            message = f"found files that extend each other without end: {circle}"
            self._problems.add(base.place, "extends", message)
            return None
        below = self.document((*chain, name), base.place)
        return None if below is None else merge(below, tree.without("extends"))
