"""Intrusion detection sensors in a row of nodes, and beside one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.lab import Lab, Namespace
from peers import chain
from peers.chain import Row, ask, start

Observed = Callable[[], float | None]
"""Tells the share of packets that the sensor was told of; `None` without a sensor."""

TREES, DEPTH = 10, 8
FEATURES = ("total_fpackets", "mean_fpktl", "duration", "mean_fiat", "total_bpackets")


def nothing() -> None:
    """Say that there is no sensor."""


def in_line(workers: int, program: str, row: Row) -> Observed:
    """`hawserd function ids` between generator and sink, with a forest and a record log."""
    (function,), (into, out) = row.functions, row.links
    hop = chain.onward(1, 254, "out", out.into)
    ports = {"in": into.into, "out": out.out}
    start(program, function, "ids", ports, hops=[hop], ids=_settings(function, workers))
    return _observed(function.directory / "control.sock", "/v1/ids")


def steered(program: str, lab: Lab, *, mirrored: bool) -> tuple[Row, Observed]:
    """A classifying forwarder and a function; `mirrored`: with a sensor beside the forwarder."""
    tables: dict[str, Any] = {"sensor": {}} if mirrored else {}
    row = chain.steered(program, lab, 1, **tables)
    if not mirrored or row.sff is None:
        return row, nothing
    beside = lab.namespace("ids")
    forwarder = str(row.sff.directory / "control.sock")
    settings = {"forwarder": forwarder, **_settings(beside, 1)}
    start(program, beside, "ids", {}, ids=settings)
    return row, _observed(row.sff.directory / "control.sock", "/v1/sensor")


def _settings(namespace: Namespace, workers: int) -> dict[str, Any]:
    model = namespace.directory / "model.json"
    model.write_text(forest())
    records = {"folder": str(namespace.directory / "records"), "files": 2}
    return {"model": str(model), "records": records, "flows": {"workers": workers}}


def _observed(socket: Path, path: str) -> Observed:
    """Ask whoever fills the rings: the sensor itself hears of a forwarder's packets later."""

    def share() -> float:
        packets = json.loads(ask(socket, path))["packets"]
        return float(packets["observed"] / max(1, packets["observed"] + packets["lost"]))

    return share


def forest() -> str:
    """Give a model of full trees whose thresholds differ, and which calls nothing malicious."""
    inner = 2**DEPTH - 1
    nodes = range(2 * inner + 1)
    tree = {
        "feature": [n % len(FEATURES) if n < inner else -1 for n in nodes],
        "threshold": [(n * 37) % 1000 + 0.5 if n < inner else 0 for n in nodes],
        "left": [2 * n + 1 if n < inner else 0 for n in nodes],
        "right": [2 * n + 2 if n < inner else 0 for n in nodes],
        "value": [0 if n < inner else (n % 10) / 100 for n in nodes],
    }
    content = json.dumps(
        {
            "schema": 1,
            "name": "bench",
            "version": "1",
            "features": FEATURES,
            "combine": "mean",
            "threshold": 0.5,
            "training": {},
            "trees": [tree] * TREES,
        }
    )
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f'{{"sha256": "{digest}", "model": {content}}}'
