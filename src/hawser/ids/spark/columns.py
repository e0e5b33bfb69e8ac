"""Columns of the records, in Spark."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from hawser.ids.features import NAMES, REASONS

_MESSAGE: Final = (
    "id STRING, seq LONG, sensor STRING, srcip STRING, srcport INT, dstip STRING, dstport INT, "
    "proto INT, first_us LONG, last_us LONG, reason STRING, is_conversation BOOLEAN, "
    "features ARRAY<DOUBLE>"
)
_PLAIN: Final = tuple(each.split()[0] for each in _MESSAGE.split(", "))[:-1]
_PORTS: Final = 1 << 16
_PROTOCOLS: Final = 1 << 8

SCORED: Final = ", ".join(
    (
        _MESSAGE.rpartition(", ")[0],
        *(f"{name} DOUBLE" for name in NAMES),
        "score DOUBLE, model STRING",
    )
)
"""Schema of what is stored: a record with its features as columns, score and model."""


def parsed(messages: DataFrame) -> DataFrame:
    """Give the records of messages from Kafka. Messages that are no records are left out."""
    found = messages.select(f.from_json(f.col("value").cast("string"), _MESSAGE).alias("r"))
    flat = found.select("r.*").filter(_is_record())
    features = (f.col("features")[number].alias(name) for number, name in enumerate(NAMES))
    return flat.select(*_PLAIN, *features)


def _is_record() -> Column:
    """Nothing is missing or out of range: such a message comes from no sensor of this version."""
    known = f.col("reason").isin(*REASONS) & (f.size("features") == len(NAMES))
    for name in _PLAIN:
        known &= f.col(name).isNotNull()
    for name, end in (("srcport", _PORTS), ("dstport", _PORTS), ("proto", _PROTOCOLS)):
        known &= f.col(name).between(0, end - 1)
    return known & f.forall("features", lambda x: x.isNotNull() & ~f.isnan(x))
