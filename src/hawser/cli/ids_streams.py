"""`hawser ids ship`, `verdicts` and `cluster`: records and verdicts through Kafka and Spark."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawser.cli import options, output

if TYPE_CHECKING:
    from hawser.ids.cluster.job import Job
    from hawser.ids.cluster.kafka import Broker
    from hawser.ids.stream.access import Access

cluster = typer.Typer(
    name="cluster",
    help="Run Kafka and the job on Spark on this machine, for tests and small sites.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder for data, history and logs.")
]
_PortOption = Annotated[
    int, typer.Option("--port", min=1024, max=65534, help="TCP port of Kafka; the next one too.")
]
_BrokersOption = Annotated[str, typer.Option("--brokers", metavar="HOST:PORT,...", help="Kafka.")]
_AccessOption = Annotated[
    Path | None,
    typer.Option(
        "--access", metavar="FILE", help="TLS and password for Kafka (TOML); default: neither."
    ),
]
_READY_S = 60.0


def ship(
    folder: Annotated[
        Path, typer.Argument(metavar="LOG", help="Folder with the record log of a sensor.")
    ],
    sensor: Annotated[
        str, typer.Option("--sensor", help="Name of the sensor, one in the network.")
    ],
    brokers: _BrokersOption = "127.0.0.1:9092",
    access: _AccessOption = None,
    status: Annotated[
        Path | None,
        typer.Option("--status", metavar="FILE", help="Write counters here, once a second."),
    ] = None,
) -> None:
    """Send the records of a sensor to Kafka, each exactly once, until told to stop.

    The sensor never waits. While Kafka does not answer, records wait in the log; what the sensor
    removes from it meanwhile is counted as lost.
    """
    from hawser.cli import extras

    extras.need("streams")
    from hawser.ids.stream.kafka import Sender
    from hawser.ids.stream.ship import Shipper

    _until_stopped(Shipper(folder, Sender(brokers, sensor, _access(access)), status).run)


def verdicts(
    socket: Annotated[
        Path,
        typer.Argument(metavar="SOCKET", help="Control socket of the sensor, on this machine."),
    ],
    sensor: Annotated[
        str, typer.Option("--sensor", help="Its name, as its records are shipped by.")
    ],
    place: Annotated[
        Path,
        typer.Option("--place", metavar="FILE", help="Keeps how far the topic was read."),
    ],
    brokers: _BrokersOption = "127.0.0.1:9092",
    access: _AccessOption = None,
    lifetime: Annotated[
        float,
        typer.Option("--lifetime", min=1, max=86_400, help="Age at which one is too old, seconds."),
    ] = 300,
    status: Annotated[
        Path | None,
        typer.Option("--status", metavar="FILE", help="Write counters here, once a second."),
    ] = None,
) -> None:
    """Take verdicts from Kafka to a sensor, until told to stop.

    These are verdicts about flows that this sensor saw, and about sources that scan, whichever
    sensors saw them. The sensor judges each by its own limits. Each is taken to it at least once,
    also after a crash; one that comes twice renews its block at most.
    """
    from hawser.cli import extras

    extras.need("streams")
    from hawser.control.client import DaemonClient
    from hawser.ids.stream.apply import Applier
    from hawser.ids.stream.names import VERDICTS
    from hawser.ids.stream.reader import Reader

    reader = Reader(brokers, VERDICTS, _access(access))
    _until_stopped(Applier(reader, sensor, DaemonClient(socket), place, lifetime, status).run)


def _access(file: Path | None) -> Access:
    from hawser.ids.stream.access import OPEN, read

    return OPEN if file is None else read(file)


def _until_stopped(run: Callable[[threading.Event], None]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run(stop)


@cluster.command("start")
def start(
    folder: _FolderArgument,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="Model file; without one, Kafka alone."),
    ] = None,
    port: _PortOption = 9092,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores that Spark may use.")] = 2,
) -> None:
    """Start Kafka, make its topics, and start the job on Spark that scores by a model.

    The first start fetches them (Spark 430 MB, Kafka 50 MB). Needs Java 17 and Maven.
    """
    from hawser.cli import extras

    extras.need("spark" if model is not None else "streams")
    from hawser.ids import table
    from hawser.ids.cluster.kafka import Broker
    from hawser.ids.errors import Unavailable
    from hawser.ids.stream import kafka

    if model is not None:
        table.read(model)
    broker = Broker(folder, port)
    broker.start()
    deadline = time.monotonic() + _READY_S
    while not kafka.is_ready(broker.address):
        if time.monotonic() > deadline:
            raise Unavailable(f"Kafka does not answer: see {folder / 'kafka.log'}")
        time.sleep(0.2)
    kafka.make_topics(broker.address)
    output.say(f"Kafka: {broker.address}")
    if model is not None:
        _job(folder, broker, model, cores).start()
        output.say(f"Spark starts, its log is {folder / 'spark.log'}")


@cluster.command("stop")
def stop(folder: _FolderArgument) -> None:
    """End Spark and Kafka. Data and history stay."""
    from hawser.ids.cluster.kafka import Broker

    broker = Broker(folder, 0)
    job = _job(folder, broker, Path(), 1)
    stopped = {"Spark": job.stop(), "Kafka": broker.stop()}
    for name, ran in stopped.items():
        output.say(f"{name}: {'ended' if ran else 'did not run'}")


@cluster.command("status")
def status(folder: _FolderArgument, as_json: options.JsonOption = False) -> None:
    """Show what runs and how far it is; exit code 1 if something has ended by itself."""
    import json

    from hawser.ids.cluster import processes
    from hawser.ids.cluster.kafka import Broker
    from hawser.ids.spark.settings import STATUS

    broker = Broker(folder, 0)
    job = _job(folder, broker, Path(), 1)
    found: dict[str, Mapping[str, Any]] = {}
    for name, record in (("kafka", broker.record), ("spark", job.record)):
        process = processes.running(record)
        memory = process.memory_info().rss if process else 0
        found[name] = {"pid": process.pid if process else None, "memory_bytes": memory}
    try:
        found["job"] = json.loads((job.store / STATUS).read_text())
    except (OSError, ValueError):
        found["job"] = {}
    if as_json:
        output.document(found)
    else:
        rows = [(n, ", ".join(f"{k} {v}" for k, v in each.items())) for n, each in found.items()]
        output.show(output.table(("", ""), rows))
    expected = ("kafka", "spark") if job.record.exists() else ("kafka",)
    if not all(found[name]["pid"] for name in expected):
        raise typer.Exit(1)


def merge(
    folder: Annotated[
        Path, typer.Argument(metavar="HISTORY", help="Folder with the history: STORE/records.")
    ],
) -> None:
    """Merge the small files of a history, also while it is written."""
    from hawser.ids.history import merge as merge_batches

    output.say(f"{merge_batches(folder)} batches merged.")


def _job(folder: Path, broker: Broker, model: Path, cores: int) -> Job:
    from hawser.ids.cluster.job import Job

    return Job(folder, broker.address, model, cores)
