"""HiGHS behind three operations: a program, bounds that change, columns that come later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import highspy
import numpy as np
from highspy._core import _Highs as Highs  # `highspy.Highs` writes to standard output

Array = np.ndarray[Any, np.dtype[Any]]

_SERIAL_DUAL_SIMPLEX: Final = 1
"""The parallel one ignores the basis of the solution before (ERGO-Code/HiGHS#2913)."""
_SOLVED: Final = (
    highspy.HighsModelStatus.kOptimal,
    highspy.HighsModelStatus.kModelEmpty,  # nobody has anything to send
)


class ProgramError(Exception):
    """The solver has found no optimum."""


@dataclass(frozen=True)
class Columns:
    """Columns of a program: the entries of column n are those from `starts[n]` on."""

    gains: Array
    """Objective, which is maximised."""
    upper: Array
    """Upper bounds; the lower ones are 0."""
    starts: Array
    rows: Array
    values: Array

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.gains)


@dataclass(frozen=True)
class Solution:
    """An optimum."""

    values: Array
    """Of the columns."""
    prices: Array
    """Dual values of the rows: what the objective gains if a row's bound is one more."""
    objective: float
    iterations: int
    """Of the simplex method, since the solution before."""


class Solver:
    """One linear program, solved again from the last optimum after bounds have changed."""

    def __init__(self, columns: Columns, lower: Array, upper: Array) -> None:
        """Take the program: row bounds `lower` and `upper`, shape (rows,)."""
        self._highs = Highs()
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("simplex_strategy", _SERIAL_DUAL_SIMPLEX),
        ):
            self._highs.setOptionValue(name, value)
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = columns.count, len(lower)
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_ = columns.gains
        program.col_lower_, program.col_upper_ = np.zeros(columns.count), columns.upper
        program.row_lower_, program.row_upper_ = lower, upper
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.append(columns.starts, len(columns.rows)).astype(np.int32)
        program.a_matrix_.index_ = columns.rows.astype(np.int32)
        program.a_matrix_.value_ = columns.values
        self._highs.passModel(program)
        self._columns, self._rows = columns.upper.copy(), (lower.copy(), upper.copy())

    def bound_columns(self, upper: Array) -> None:
        """Set the upper bounds of the first columns, as many as are given."""
        now = self._columns[: len(upper)]
        (changed,) = np.nonzero(now != upper)
        if len(changed):
            zeros = np.zeros(len(changed))
            indices = changed.astype(np.int32)
            self._highs.changeColsBounds(len(changed), indices, zeros, upper[changed])
            now[changed] = upper[changed]

    def bound_rows(self, first: int, upper: Array) -> None:
        """Set the upper bounds of rows from the `first` on."""
        lower, known = self._rows
        for index in first + np.nonzero(known[first : first + len(upper)] != upper)[0]:
            known[index] = upper[index - first]
            self._highs.changeRowBounds(int(index), float(lower[index]), float(known[index]))

    def add(self, columns: Columns) -> None:
        """Add columns."""
        zeros = np.zeros(columns.count)
        self._highs.addCols(
            columns.count,
            columns.gains,
            zeros,
            columns.upper,
            len(columns.rows),
            columns.starts.astype(np.int32),
            columns.rows.astype(np.int32),
            columns.values,
        )
        self._columns = np.append(self._columns, columns.upper)

    def solve(self) -> Solution:
        """Give the optimum.

        Raises:
            ProgramError: there is none, or the solver has failed.
        """
        self._highs.run()
        status = self._highs.getModelStatus()
        if status not in _SOLVED:
            raise ProgramError(f"HiGHS: {self._highs.modelStatusToString(status)}")
        found = self._highs.getSolution()
        return Solution(
            values=np.maximum(np.array(found.col_value), 0.0),
            prices=np.array(found.row_dual),
            objective=self._highs.getObjectiveValue(),
            iterations=int(self._highs.getInfo().simplex_iteration_count),
        )


def columns_of(parts: Sequence[tuple[Array, Array, Array, Array]]) -> Columns:
    """Put columns together that have equally many entries in each part.

    Args:
        parts: gains and upper bounds, shape (n,); rows and values, shape (n, entries).
    """
    counts = np.concatenate([np.full(len(part[0]), part[2].shape[1]) for part in parts])
    return Columns(
        gains=np.concatenate([part[0] for part in parts]).astype(float),
        upper=np.concatenate([part[1] for part in parts]).astype(float),
        starts=np.cumsum(counts) - counts,
        rows=np.concatenate([part[2].ravel() for part in parts]),
        values=np.concatenate([part[3].ravel() for part in parts]).astype(float),
    )
