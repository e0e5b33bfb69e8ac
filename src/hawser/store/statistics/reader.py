"""Reading one series from Parquet files, by DuckDB. Threads may share a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb
import numpy as np

from hawser.store.errors import StoreError
from hawser.store.statistics.archive import Part, quoted
from hawser.store.statistics.summary import Rows

_SETTINGS: Final[dict[str, str | int | float | list[str]]] = {
    "memory_limit": "64MB",
    "threads": 1,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Reader:
    """Reads files."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config=_SETTINGS)
        self._connection.execute("SET parquet_metadata_cache = true")

    def read(self, found: Sequence[Part], branch: str, name: str, begin: int, end: int) -> Rows:
        """Give the rows of a series from `begin` to before `end`, seconds since 1970.

        Raises:
            FileNotFoundError: a file is gone.
            StoreError: a file is damaged.
        """
        files = [quoted(each.path) for each in found if each.begin < end and begin < each.end]
        if not files:
            return Rows.joined([])
        query = f"""SELECT epoch_ms(time) // 1000 AS at, mean, low, high
            FROM read_parquet([{", ".join(files)}])
            WHERE branch = ? AND series = ?
              AND time >= make_timestamp(?) AND time < make_timestamp(?)
            ORDER BY time"""  # noqa: S608 (our own paths)
        cursor = self._connection.cursor()
        try:
            cursor.execute(query, [branch, name, begin * 1_000_000, end * 1_000_000])
            columns = cursor.fetchnumpy()
        except duckdb.IOException as error:
            raise FileNotFoundError(str(error)) from error
        except duckdb.Error as error:
            raise StoreError(f"statistics: {error}") from error
        finally:
            cursor.close()
        mean, low, high = (
            np.asarray(columns[each], np.float32) for each in ("mean", "low", "high")
        )
        return Rows(np.asarray(columns["at"], np.int64), mean, low, high)

    def close(self) -> None:
        """Release its memory."""
        self._connection.close()
