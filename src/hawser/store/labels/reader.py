"""Label files: which format, and where a problem is."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from hawser.store.errors import BundleError
from hawser.store.labels import cicids, rows, unsw
from hawser.store.labels.rows import Label

FORMATS: Final = ("hawser", "unsw-nb15", "cic-ids2017")

Row = Sequence[str]
Parser = Callable[[Row], Label | None]


def read_any(path: Path) -> tuple[str, Sequence[Label]]:
    """Read a label file of any of the `FORMATS`; which one its first line says.

    Raises:
        BundleError: it cannot be read; the message has the line.
    """
    try:
        # Latin-1 reads any byte: one of the sets mixes encodings, and the rest is ASCII.
        with path.open(encoding="latin-1", newline="") as opened:
            found = _rows(path, csv.reader(opened, strict=True))
            _, first = next(found, (1, ()))
            if unsw.is_first(first):
                return FORMATS[1], _parsed(path, unsw.label, found, first)
            if (at := cicids.columns(first)) is not None:
                return FORMATS[2], _parsed(path, lambda row: cicids.label(row, at), found)
    except OSError as error:
        raise BundleError(path, error.strerror or str(error)) from error
    return FORMATS[0], rows.read(path)


def _rows(path: Path, rows: Iterator[Row]) -> Iterator[tuple[int, Row]]:
    number = 0
    while True:
        number += 1
        try:
            yield number, next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise BundleError(Path(f"{path}:{number}"), str(error)) from error


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
        raise BundleError(Path(f"{path}:{number}"), str(error)) from error
