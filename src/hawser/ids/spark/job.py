"""The streaming job: two queries over the records of all sensors.

`score` stores each batch in a folder of its number, then writes verdicts. Spark repeats a batch
that was not finished with the same records, and it replaces its folder: so each record is stored
once.
`scan` counts what sources try, over all sensors.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from hawser.ids import table
from hawser.ids.errors import IdsError
from hawser.ids.spark import columns, verdicts
from hawser.ids.spark.score import scorer
from hawser.ids.spark.settings import CHECKPOINTS, RECORDS, STATUS, Settings
from hawser.ids.stream.names import RECORDS as RECORDS_TOPIC
from hawser.ids.stream.names import VERDICTS
from hawser.store import files

_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""On disk, so that a flood of sources does not fill the memory."""

_log = logging.getLogger(__name__)


class CurrentModel:
    """The model file as it is now; a bad one is refused, and the one before stays."""

    def __init__(self, path: Path) -> None:
        """Raises IdsError if the file is no model."""
        self._path = path
        self._stamp = _stamp(path)
        self.content, self.model = _checked(path)
        self.refused = 0

    def renew(self) -> None:
        """Read the file again if it has changed."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.content, self.model = _checked(self._path)
        except IdsError as error:
            self.refused += 1
            _log.warning("model refused, the one before stays: %s", error)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)


def _checked(path: Path) -> tuple[bytes, table.Model]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise IdsError(path, error.strerror or str(error)) from error
    return content, table.parse(content, str(path))


def run(settings: Settings) -> None:
    """Run the job until it is ended or a query fails.

    Raises:
        IdsError: the model is none, or the store's checkpoints are missing.
    """
    _check_store(settings.store)
    model = CurrentModel(settings.model)
    spark = session(settings)
    try:
        start_scores(spark, settings, model)
        start_scans(spark, settings)
        spark.streams.awaitAnyTermination()
    finally:
        spark.stop()


def _check_store(store: Path) -> None:
    """Without its checkpoints a job would begin at batch 0 and replace the history."""
    has_records = any((store / RECORDS).glob("batch=*"))
    if has_records and not any((store / CHECKPOINTS).glob("score/offsets/*")):
        raise IdsError(store, f"found {RECORDS}, but no {CHECKPOINTS}; move the records elsewhere")
    store.mkdir(parents=True, exist_ok=True)


def session(settings: Settings) -> SparkSession:
    """Start Spark."""
    options = {
        "spark.jars": ",".join(map(str, settings.jars)),
        "spark.driver.memory": settings.memory,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
    }
    builder = SparkSession.builder.appName("hawser-ids").master(settings.master)
    if not settings.master.startswith("local"):
        del options["spark.driver.host"], options["spark.driver.bindAddress"]
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _kafka(settings: Settings) -> dict[str, str]:
    """Options of the connector for Kafka."""
    named = {"bootstrap.servers": settings.brokers, **settings.access.java()}
    return {f"kafka.{name}": value for name, value in named.items()}


def _messages(spark: SparkSession, settings: Settings) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .options(**_kafka(settings))
        .option("subscribe", RECORDS_TOPIC)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", settings.batch_max)
        .load()
    )


def start_scores(spark: SparkSession, settings: Settings, model: CurrentModel) -> StreamingQuery:
    """Score records, store them, and write verdicts about flows."""

    def batch(records: DataFrame, number: int) -> None:
        began = time.monotonic()
        model.renew()
        folder = str(settings.store / RECORDS / f"batch={number}")
        scored = records.mapInArrow(scorer(model.content), columns.SCORED)
        scored.write.mode("overwrite").parquet(folder)
        stored = spark.read.schema(columns.SCORED).parquet(folder)
        _publish(verdicts.of_flows(stored, model.model.threshold), settings)
        status = {
            "batch": number,
            "records": stored.count(),
            "seconds": round(time.monotonic() - began, 3),
            "model": f"{model.model.name} {model.model.version}",
            "models_refused": model.refused,
        }
        files.write(settings.store / STATUS, json.dumps(status, indent=1).encode())

    return _started(columns.parsed(_messages(spark, settings)), settings, "score", batch)


def start_scans(spark: SparkSession, settings: Settings) -> StreamingQuery:
    """Count what sources try, and write verdicts about those that scan."""
    records = columns.parsed(_messages(spark, settings))
    found = verdicts.of_scans(records, settings.scan_targets)

    def batch(messages: DataFrame, _number: int) -> None:
        _publish(messages, settings)

    return _started(found, settings, "scan", batch)


def _started(frame: DataFrame, settings: Settings, name: str, batch: object) -> StreamingQuery:
    return (
        frame.writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(settings.store / CHECKPOINTS / name))
        .trigger(processingTime=f"{settings.trigger_s} seconds")
        .foreachBatch(batch)
        .start()
    )


def _publish(messages: DataFrame, settings: Settings) -> None:
    messages.write.format("kafka").options(**_kafka(settings)).option("topic", VERDICTS).save()
