"""Run the OpenFlow controller: `python -m hawser.openflow --config FILE`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from hawser.openflow import application
from hawser.openflow.service import Service
from hawser.openflow.state import State
from hawser.overlay.config.openflow import ControllerConfig


def main() -> None:
    """Serve until SIGTERM or SIGINT. Exit code 2: the configuration is wrong."""
    parser = argparse.ArgumentParser(prog="hawser.openflow", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", type=Path, help="configuration file, JSON")
    what.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of the file and exit"
    )
    parser.add_argument("--attached", action="store_true", help="end when the standard input ends")
    given = parser.parse_args()
    if given.schema:
        json.dump(ControllerConfig.model_json_schema(), sys.stdout, indent=2)
        return
    config = _config(given.config)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    if given.attached:
        threading.Thread(target=_end_with_input, daemon=True).start()
    os.umask(0o077)
    state = State(config)
    with Service(Path(config.control), state) as service:
        application.start(state)
        service.serve_forever()


def _config(path: Path) -> ControllerConfig:
    try:
        return ControllerConfig.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        sys.stderr.write(f"{path}: {error}\n")
        sys.exit(2)


def _end_with_input() -> None:
    """End with the process that has started this one, however that ended."""
    sys.stdin.buffer.read()
    os._exit(0)


def _end(number: int, frame: FrameType | None) -> None:
    """Exit immediately: os-ken's threads block on sockets and cannot be stopped."""
    os._exit(0)


if __name__ == "__main__":
    main()
