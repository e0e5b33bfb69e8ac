"""SQL queries on runs, executed by DuckDB.

A statement sees three tables: `samples` (see `hawser.store.table`), `trials` and `runs`. It cannot
reach files or the network.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import duckdb
import pyarrow as pa

from hawser.store import table
from hawser.store.bundle import Bundle
from hawser.store.errors import QueryError


@dataclass(frozen=True)
class Answer:
    """The result of a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def records(self) -> list[dict[str, object]]:
        """The rows as JSON objects; of several columns with the same name, the last one is kept."""
        return [dict(zip(self.columns, map(_plain, row), strict=True)) for row in self.rows]

    def json(self) -> str:
        """One JSON array of objects."""
        return json.dumps(self.records(), indent=1, ensure_ascii=False)

    def csv(self) -> str:
        """CSV (RFC 4180) with a header; a null is an empty field."""
        stream = io.StringIO()
        writer = csv.writer(stream)
        writer.writerow(self.columns)
        writer.writerows(map(_plain, row) for row in self.rows)
        return stream.getvalue()


def query(bundles: Sequence[Bundle], sql: str) -> Answer:
    """Execute one SQL statement on runs, at least one.

    Raises:
        QueryError: the statement is wrong, or reads something other than the three tables.
        BundleError: a run is damaged.
    """
    samples = table.together([table.samples(each) for each in bundles])
    trials = table.together([table.trials(each) for each in bundles])
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.register("samples", samples)
        connection.register("trials", trials)
        connection.register("runs", table.runs(bundles))
        for setting in ("python_enable_replacements", "enable_external_access"):
            connection.execute(f"SET {setting} = false")
        connection.execute("SET lock_configuration = true")
        try:
            found = connection.sql(_statement(connection, sql)).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(_sentence(str(error))) from error
    columns = [column.to_pylist() for column in found.columns]
    return Answer(tuple(found.column_names), tuple(zip(*columns, strict=True)))


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Parse the text, which must be exactly one statement that only reads."""
    statements = connection.extract_statements(sql)
    reading = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1 or statements[0].type not in reading:
        raise QueryError("query: expected one SELECT statement")
    return statements[0]


def _sentence(message: str) -> str:
    """Reduce DuckDB's message to one line, without its excerpt of the statement."""
    lines: Iterable[str] = (line.strip() for line in message.split("\nLINE ")[0].splitlines())
    return "query: " + " ".join(filter(None, lines))


def _plain(value: object) -> object:
    """Convert a value for JSON and CSV; they have no NaN or infinity, so these become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, pa.MonthDayNano):  # ISO 8601 duration
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value.isoformat() if isinstance(value, date) else str(value)
