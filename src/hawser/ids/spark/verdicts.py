"""Verdicts as messages: what is to be blocked, and why."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from hawser.ids.features import LAST

_WINDOW: Final = "1 minute"
_STEP: Final = "15 seconds"
_LATE: Final = "11 minutes"
"""How late a record may be: flows that are never answered end after 10 minutes of silence."""

_FLOW: Final = ("srcip", "srcport", "dstip", "dstport", "proto", "first_us", "last_us")


def of_flows(scored: DataFrame, threshold: float) -> DataFrame:
    """A message for each flow with a record of at least this score. The id is the flow's."""
    found = scored.filter(f.col("score") >= threshold).dropDuplicates(["id"])
    message = f.struct(
        f.lit(1).alias("schema"),
        "id",
        f.lit("flow").alias("kind"),
        *_FLOW,
        "sensor",
        "score",
        "model",
        f.col("reason").isin(*LAST).alias("is_over"),
    )
    return found.select(f.col("id").alias("key"), f.to_json(message).alias("value"))


def of_scans(records: DataFrame, targets: int) -> DataFrame:
    """A message for each source that tries many targets within a minute, seen by any sensors.

    A target is an address and a port; only flows without a conversation count. Counts are
    approximate (HyperLogLog++, standard error 5 %). The id is that of source and minute.
    """
    tried = records.filter(~f.col("is_conversation")).withColumn(
        "time", f.timestamp_micros("last_us")
    )
    counted = (
        tried.withWatermark("time", _LATE)
        .groupBy(f.window("time", _WINDOW, _STEP), "srcip")
        .agg(
            f.approx_count_distinct(f.struct("dstip", "dstport")).alias("targets"),
            f.approx_count_distinct("sensor").alias("sensors"),
        )
        .filter(f.col("targets") >= targets)
    )
    begin = f.unix_micros(f.col("window.start"))
    name = f.concat_ws("-", f.lit("scan"), "srcip", begin.cast("string"))
    message = f.struct(
        f.lit(1).alias("schema"),
        name.alias("id"),
        f.lit("scan").alias("kind"),
        "srcip",
        begin.alias("first_us"),
        f.unix_micros(f.col("window.end")).alias("last_us"),
        "targets",
        "sensors",
    )
    return counted.select(name.alias("key"), f.to_json(message).alias("value"))
