"""Labels applied to flows."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import numpy as np

from hawser.ids.errors import IdsError
from hawser.ids.features import TUPLE
from hawser.ids.flows import Flows
from hawser.ids.records import Records, Texts
from hawser.store.labels import BENIGN, FORMATS, Flow, Label, Labels, read_any


class Truth:
    """What is known of flows: the rows of label files."""

    def __init__(self, rows: Sequence[Label], otherwise: str = BENIGN) -> None:
        """`otherwise` is the label of flows that no row is about; empty leaves them out."""
        self._labels = Labels(rows)
        self._otherwise = otherwise

    @classmethod
    def read(cls, paths: Sequence[Path]) -> tuple[Truth, Sequence[str]]:
        """Read label files; also gives the format of each.

        Flows that no row is about are benign where the lab labelled all it did. Public data sets
        list every flow, benign ones too: what they lack is unknown.

        Raises:
            BundleError: a file cannot be read, or is of no known format.
        """
        rows: list[Label] = []
        formats = []
        for path in paths:
            name, found = read_any(path)
            formats.append(name)
            rows.extend(found)
        return cls(rows, BENIGN if set(formats) == {FORMATS[0]} else ""), formats

    def of(self, records: Records, flows: Flows) -> Texts:
        """(m,) Label of each flow; empty where it is unknown.

        Raises:
            IdsError: an address of a record is none.
        """
        firsts = records.take(flows.first_row).rows
        columns = [firsts[name].to_pylist() for name in TUPLE]
        times = (flows.first_us.tolist(), flows.last_us.tolist())
        found = np.full(len(flows), "", object)
        for number, row in enumerate(zip(*columns, *times, strict=True)):
            label = self._labels.row(_flow(*row))
            found[number] = self._otherwise if label is None else label.label
        return found


def _flow(
    source: str, source_port: int, target: str, target_port: int, proto: int, first: int, last: int
) -> Flow:
    try:
        ends = ip_address(source), source_port, ip_address(target), target_port
    except ValueError as error:
        raise IdsError("records", f"srcip or dstip: {error}") from error
    return Flow(proto, *ends, first, last)
