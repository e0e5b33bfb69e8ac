"""Run the job: `python -m hawser.ids.spark --brokers HOST:PORT --model FILE --store DIR`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from hawser.ids.errors import IdsError
from hawser.ids.spark.settings import Settings
from hawser.ids.stream import access


def main() -> None:
    """Run until SIGTERM or SIGINT. Exit code 1: a query failed; 2: bad input."""
    given = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    from hawser.ids.spark.job import run

    signal.signal(signal.SIGTERM, _end)
    try:
        run(_settings(given))
    except IdsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def _settings(given: argparse.Namespace) -> Settings:
    return Settings(
        brokers=given.brokers,
        model=given.model,
        store=given.store,
        access=access.read(given.access) if given.access else access.OPEN,
        jars=tuple(sorted(given.jars.glob("*.jar"))) if given.jars else (),
        master=given.master,
        memory=given.memory,
        trigger_s=given.trigger,
        scan_targets=given.scan_targets,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hawser.ids.spark", description=__doc__)
    parser.add_argument("--brokers", required=True, help="Kafka: HOST:PORT[,HOST:PORT...]")
    parser.add_argument("--access", type=Path, help="file with certificates and passwords (TOML)")
    parser.add_argument("--model", required=True, type=Path, help="model file")
    parser.add_argument("--store", required=True, type=Path, help="folder of the history")
    parser.add_argument("--jars", type=Path, help="folder of the connector for Kafka")
    parser.add_argument("--master", default=Settings.master, help="where Spark runs")
    parser.add_argument("--memory", default=Settings.memory, help="memory of the driver")
    parser.add_argument("--trigger", default=Settings.trigger_s, type=float, help="seconds")
    parser.add_argument("--scan-targets", default=Settings.scan_targets, type=int)
    return parser.parse_args()


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
