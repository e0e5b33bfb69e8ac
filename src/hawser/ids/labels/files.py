"""Label files: which format, and where a problem is."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from hawser.ids.errors import IdsError
from hawser.ids.labels import cicids, unsw
from hawser.store import labels
from hawser.store.labels import Label

FORMATS: Final = ("hawser", "unsw-nb15", "cic-ids2017")

Row = Sequence[str]
Parser = Callable[[Row], Label | None]


def read(path: Path) -> tuple[str, Sequence[Label]]:
    """Read a label file of any of the `FORMATS`; which one its first line says.

    Raises:
        IdsError: it cannot be read; the message has the line.
        BundleError: likewise, of a file of the lab.
    """
    try:
        # Latin-1 reads any byte: one of the sets mixes encodings, and the rest is ASCII.
        with path.open(encoding="latin-1", newline="") as opened:
            rows = _rows(path, csv.reader(opened, strict=True))
            _, first = next(rows, (1, ()))
            if unsw.is_first(first):
                return FORMATS[1], _parsed(path, unsw.label, rows, first)
            if (at := cicids.columns(first)) is not None:
                return FORMATS[2], _parsed(path, lambda row: cicids.label(row, at), rows)
    except OSError as error:
        raise IdsError(path, error.strerror or str(error)) from error
    return FORMATS[0], labels.read(path)


def _rows(path: Path, rows: Iterator[Row]) -> Iterator[tuple[int, Row]]:
    number = 0
    while True:
        number += 1
        try:
            yield number, next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise IdsError(f"{path}:{number}", str(error)) from error


def _parsed(
    path: Path, parse: Parser, rows: Iterator[tuple[int, Row]], first: Row | None = None
) -> Sequence[Label]:
    header = () if first is None else ((1, first),)
    found = (_label(path, number, row, parse) for number, row in chain(header, rows))
    return [label for label in found if label is not None]


def _label(path: Path, number: int, row: Row, parse: Parser) -> Label | None:
    try:
        return parse(row)
    except (ValueError, OverflowError) as error:
        raise IdsError(f"{path}:{number}", str(error)) from error
